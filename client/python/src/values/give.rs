//! Tensors as Python's objects: numpy's arrays in place, or lists.
//!
//! It never needs numpy: where it is not installed, a tensor stays a `millpond.Tensor`. Its invariant: an array that it gives
//! cannot be written, because others may read the same memory.

use crate::values::array::Array;
use crate::values::memory;
use millpond_pipelines::{Items, Value};
use millpond_tensor::{ElementType, Elements, Tensor, element_types};
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::ops::Range;

/// `numpy`, or None where it is not installed.
static NUMPY: PyOnceLock<Option<Py<PyModule>>> = PyOnceLock::new();

fn module(py: Python<'_>) -> PyResult<Option<&'static Py<PyModule>>> {
    let found = NUMPY.get_or_try_init(py, || match py.import("numpy") {
        Ok(module) => Ok(Some(module.unbind())),
        Err(error) if error.is_instance_of::<PyImportError>(py) => Ok(None),
        Err(error) => Err(error),
    });
    Ok(found?.as_ref())
}

/// A value of a pipeline: one item by itself, and a list of those of a row that may have any number; a list of such lists where there are
/// several rows.
pub(crate) fn value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    let Some(offsets) = &value.offsets else {
        return match (&value.items, value.items.len()) {
            (Items::Tensor(tensor), _) => object(py, tensor),
            (Items::Bytes(bytes), 1) => {
                let item = bytes.iter().next().unwrap_or_default();
                Ok(PyBytes::new(py, item).into_any())
            }
            (_, 1) => items(py, &value.items, 0..1)?.get_item(0),
            (_, count) => Ok(items(py, &value.items, 0..count)?.into_any()),
        };
    };
    let mut rows = offsets.windows(2).map(|row| (row[0] as usize)..(row[1] as usize));
    if let [_, end] = **offsets {
        return match &value.items {
            Items::Tensor(tensor) => object(py, tensor),
            other => Ok(items(py, other, 0..end as usize)?.into_any()),
        };
    }
    let row = |row: Range<usize>| match &value.items {
        Items::Tensor(tensor) => tensor
            .view(row)
            .map_or_else(|| Ok(py.None().into_bound(py)), |rows| object(py, &rows)),
        other => Ok(items(py, other, row)?.into_any()),
    };
    let rows = rows.try_fold(Vec::new(), |mut lists, next| -> PyResult<_> {
        lists.push(row(next)?);
        Ok(lists)
    })?;
    Ok(PyList::new(py, rows)?.into_any())
}

/// These items, each by itself.
fn items<'py>(py: Python<'py>, items: &Items, range: Range<usize>) -> PyResult<Bound<'py, PyList>> {
    let (start, count) = (range.start, range.len());
    let objects: Vec<Bound<'py, PyAny>> = match items {
        Items::Bytes(bytes) => bytes
            .iter()
            .skip(start)
            .take(count)
            .map(|item| PyBytes::new(py, item).into_any())
            .collect(),
        Items::Keys(keys) => objects(py, keys.iter().skip(start).take(count).copied())?,
        Items::Tensors(tensors) => {
            let tensors = tensors.iter().skip(start).take(count);
            tensors
                .map(|tensor| object(py, tensor))
                .collect::<PyResult<_>>()?
        }
        Items::Tensor(tensor) => {
            let rows = (start..start + count).filter_map(|row| tensor.view(row..row + 1));
            rows.map(|row| object(py, &row)).collect::<PyResult<_>>()?
        }
    };
    PyList::new(py, objects)
}

/// As a pipeline's caller and a backend get it: an array of numpy where that is installed and has such elements, a list of strings,
/// a number of Python's where there are no dimensions, or a `millpond.Tensor`.
fn object<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    if tensor.element_type() == ElementType::Bytes || tensor.shape().is_empty() {
        return list(py, tensor);
    }
    let array = Bound::new(py, Array::new(tensor.clone()))?;
    let has_dtype = tensor.element_type() != ElementType::Bf16 || py.import("ml_dtypes").is_ok();
    match module(py)? {
        Some(_) if has_dtype => numpy(py, array),
        _ => Ok(array.into_any()),
    }
}

/// As an array of numpy.
pub(super) fn numpy<'py>(py: Python<'py>, array: Bound<'py, Array>) -> PyResult<Bound<'py, PyAny>> {
    let Some(module) = module(py)? else {
        return Err(PyImportError::new_err(
            "numpy is not installed: pip install numpy, or use memoryview or tolist()",
        ));
    };
    let module = module.bind(py);
    let tensor = &array.get().tensor;
    match tensor.element_type() {
        ElementType::Bytes => {
            let strings = list(py, tensor)?;
            module.call_method1("array", (strings, "O"))
        }
        ElementType::Bf16 => {
            let Ok(types) = py.import("ml_dtypes") else {
                return Err(PyImportError::new_err(
                    "numpy has bfloat16 by ml_dtypes: pip install ml_dtypes, or use tolist()",
                ));
            };
            let shape = PyTuple::new(py, tensor.shape())?;
            let bits = memory::reinterpreted(tensor, ElementType::U8).filter(|bits| !bits.is_empty());
            let dtype = types.getattr("bfloat16")?;
            match bits {
                Some(bits) => module
                    .call_method1("frombuffer", (Bound::new(py, Array::new(bits))?, dtype))?
                    .call_method1("reshape", (shape,)),
                None => module.call_method1("empty", (shape, dtype)),
            }
        }
        _ => module.call_method1("asarray", (array,)),
    }
}

/// As lists of Python's own numbers, truth values or bytes, as deep as there are dimensions.
pub(super) fn list<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let flat = flat(py, tensor.elements())?;
    nested(py, tensor.shape(), &mut flat.into_iter())
}

macro_rules! declare {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        /// Each element as an object of Python's.
        fn flat<'py>(py: Python<'py>, elements: Elements<'_>) -> PyResult<Vec<Bound<'py, PyAny>>> {
            match elements {
                $(Elements::$variant(elements) => objects(py, elements.iter().map(|value| own!($kind *value))),)*
                Elements::Bytes(strings) => objects(py, strings.iter().map(|string| PyBytes::new(py, string))),
            }
        }
    };
}

macro_rules! own {
    (float $value:expr) => {
        f64::from($value)
    };
    ($kind:ident $value:expr) => {
        $value
    };
}

element_types!(declare);

fn objects<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    values: impl Iterator<Item = T>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    values.map(|value| value.into_bound_py_any(py)).collect()
}

fn nested<'py>(
    py: Python<'py>,
    shape: &[usize],
    flat: &mut impl Iterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some((rows, inner)) = shape.split_first() else {
        return Ok(flat.next().unwrap_or_else(|| py.None().into_bound(py)));
    };
    let rows = (0..*rows)
        .map(|_| nested(py, inner, flat))
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, rows)?.into_any())
}
