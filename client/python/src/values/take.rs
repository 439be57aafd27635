//! Python's objects as tensors: arrays in place, numbers and texts copied.
//!
//! It guesses no types: an array has its own, a float is f64, an int i64. Its invariant: what it cannot take is refused with
//! what it is, and what would do instead.

use crate::values::array::Array;
use crate::values::dlpack;
use crate::values::memory::{self, Lent};
use millpond_pipelines::{Items, Value};
use millpond_tensor::{Bytes, ElementType, Tensor};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple};

/// What a tensor is made of, for messages.
const EXPECTED: &str = "an array (numpy's, or anything with the buffer protocol or __dlpack__), a millpond.Tensor, a number, str, bytes, or a list of str and bytes";
/// Elements that tensors have, by numpy's names.
const TYPES: &str = "float32, float64, float16, bfloat16, int8 to int64, uint8 to uint64 or bool";

/// Why an object is no value. The caller names the place.
pub(crate) enum Refused {
    /// A `TypeError`'s words, behind the place.
    Kind(String),
    /// A `ValueError`'s words, behind the place.
    Value(String),
    /// An exception of the object's own code.
    Python(PyErr),
}

impl Refused {
    pub(super) fn kind(what: String) -> Refused {
        Refused::Kind(what)
    }

    pub(super) fn value(what: String) -> Refused {
        Refused::Value(what)
    }

    /// The exception; `place` is what was given, as in `inputs["x"]`.
    pub(crate) fn raised(self, place: &str) -> PyErr {
        match self {
            Refused::Kind(what) => PyTypeError::new_err(format!("{place} {what}")),
            Refused::Value(what) => PyValueError::new_err(format!("{place} {what}")),
            Refused::Python(error) => error,
        }
    }
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Refused {
        Refused::Python(error)
    }
}

fn unaddressable(error: millpond_tensor::Error) -> Refused {
    Refused::Value(format!("cannot be read: {error}"))
}

/// The object as a value of a pipeline: one item, or those of a list.
pub(crate) fn value(object: &Bound<'_, PyAny>) -> Result<Value, Refused> {
    if is_text(object) {
        let mut text = Bytes::default();
        push(&mut text, object)?;
        return Ok(Value::rows(Items::Bytes(text)));
    }
    let Some(items) = items(object) else {
        return tensor(object).map(|tensor| Value::rows(Items::Tensor(tensor)));
    };
    let Some(first) = items.first() else {
        return Err(Refused::Value("is an empty list, whose items could be anything; pass an empty array, as numpy.empty((0, 3), \"float32\")".to_owned()));
    };
    if is_text(first) {
        return Ok(Value::row(Items::Bytes(strings(&items)?)));
    }
    if first.is_instance_of::<PyFloat>() && first.get_type().is(first.py().get_type::<PyFloat>())
        || first.is_instance_of::<PyInt>()
    {
        return Err(Refused::Kind("is a list of numbers; make it an array first, of numpy or array.array, which says of which type they are".to_owned()));
    }
    let tensors = items
        .iter()
        .map(array)
        .collect::<Result<Vec<Tensor>, Refused>>()?;
    Ok(Value::row(Items::Tensors(tensors)))
}

/// The object as a tensor.
pub(crate) fn tensor(object: &Bound<'_, PyAny>) -> Result<Tensor, Refused> {
    if let Ok(array) = object.cast::<Array>() {
        return Ok(array.get().tensor.clone());
    }
    if let Some(scalar) = scalar(object)? {
        return Ok(scalar);
    }
    if is_text(object) {
        let mut strings = Bytes::default();
        push(&mut strings, object)?;
        return Tensor::new(Vec::new(), strings).map_err(unaddressable);
    }
    if let Some(items) = items(object) {
        let strings = strings(&items)?;
        return Tensor::new(vec![strings.len()], strings).map_err(unaddressable);
    }
    array(object)
}

/// An object that is neither text nor a list nor a number of Python's own: an array.
fn array(object: &Bound<'_, PyAny>) -> Result<Tensor, Refused> {
    if let Ok(array) = object.cast::<Array>() {
        return Ok(array.get().tensor.clone());
    }
    let error = match PyMemoryView::from(object) {
        Ok(view) => return buffer(object, &view),
        Err(error) => error,
    };
    if has_no_format(object) {
        return unformatted(object);
    }
    if !error.is_instance_of::<PyTypeError>(object.py()) {
        return Err(Refused::Value(format!(
            "cannot be read: {error}; expected elements of type {TYPES}"
        )));
    }
    if object.hasattr("__dlpack__")? {
        return dlpack::import(object);
    }
    Err(Refused::Kind(format!(
        "is a {}; expected {EXPECTED}",
        type_name(object)
    )))
}

/// A number or truth value of Python's own.
fn scalar(object: &Bound<'_, PyAny>) -> Result<Option<Tensor>, Refused> {
    let scalar = if let Ok(float) = object.cast_exact::<PyFloat>() {
        Tensor::new(Vec::new(), vec![float.value()])
    } else if let Ok(truth) = object.cast::<PyBool>() {
        Tensor::new(Vec::new(), vec![truth.is_true()])
    } else if let Ok(int) = object.cast::<PyInt>() {
        let Ok(int) = int.extract::<i64>() else {
            return Err(Refused::Value(
                "is out of range; integers go from -2**63 to 2**63 - 1".to_owned(),
            ));
        };
        Tensor::new(Vec::new(), vec![int])
    } else {
        return Ok(None);
    };
    scalar.map(Some).map_err(unaddressable)
}

/// Whether it is str or bytes.
fn is_text(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyByteArray>()
}

/// The items of a list or tuple.
pub(crate) fn items<'py>(object: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = object.cast::<PyList>() {
        return Some(list.iter().collect());
    }
    object.cast::<PyTuple>().ok().map(|tuple| tuple.iter().collect())
}

/// A list of str and bytes.
fn strings(items: &[Bound<'_, PyAny>]) -> Result<Bytes, Refused> {
    let mut strings = Bytes::default();
    for (at, item) in items.iter().enumerate() {
        if !is_text(item) {
            let found = type_name(item);
            return Err(Refused::Kind(format!(
                "has a {found} at {at}; a list holds str and bytes: make numbers an array first, of numpy or array.array"
            )));
        }
        push(&mut strings, item)?;
    }
    Ok(strings)
}

/// Appends a text's bytes.
fn push(strings: &mut Bytes, text: &Bound<'_, PyAny>) -> Result<(), Refused> {
    if let Ok(bytes) = text.cast::<PyBytes>() {
        strings.push(bytes.as_bytes());
    } else if let Ok(text) = text.cast::<PyString>() {
        let text = text.to_str().map_err(|_| {
            Refused::Value("has text with half of a surrogate pair, which UTF-8 cannot hold".to_owned())
        })?;
        strings.push(text.as_bytes());
    } else if let Ok(bytes) = text.cast::<PyByteArray>() {
        strings.push(&bytes.to_vec());
    }
    Ok(())
}

fn buffer(object: &Bound<'_, PyAny>, view: &Bound<'_, PyMemoryView>) -> Result<Tensor, Refused> {
    let format: String = view.getattr("format")?.extract()?;
    let item_bytes: usize = view.getattr("itemsize")?.extract()?;
    let Some(element_type) = element_type(&format, item_bytes) else {
        if has_no_format(object) {
            return unformatted(object);
        }
        let found = type_name(object);
        return Err(Refused::Value(format!(
            "is a {found} of items of format {format:?}; expected {TYPES} in this machine's byte order: convert it first, for numpy by .astype(\"float32\")"
        )));
    };
    let shape: Vec<usize> = view.getattr("shape")?.extract()?;
    of_view(shape, element_type, view)
}

/// What the view shows as elements of that type: in place, or copied where it has gaps.
fn of_view(
    shape: Vec<usize>,
    element_type: ElementType,
    view: &Bound<'_, PyMemoryView>,
) -> Result<Tensor, Refused> {
    // A buffer without dimensions has no shape to be read by.
    if let Ok(read) = PyUntypedBuffer::get(view) {
        let (at, len, is_dense) = (
            read.buf_ptr().cast_const(),
            read.item_count(),
            read.is_c_contiguous(),
        );
        read.release(view.py());
        if is_dense {
            return borrowed(
                shape,
                Lent {
                    at,
                    element_type,
                    len,
                },
                view,
            )
            .map_err(unaddressable);
        }
    }
    let copied = view.call_method0("tobytes")?;
    let copied = copied.cast::<PyBytes>().map_err(PyErr::from)?;
    memory::copy(shape, element_type, copied.as_bytes()).map_err(unaddressable)
}

#[allow(unsafe_code)] // The memory is the memoryview's.
fn borrowed(
    shape: Vec<usize>,
    lent: Lent,
    view: &Bound<'_, PyMemoryView>,
) -> Result<Tensor, millpond_tensor::Error> {
    // SAFETY: the view has so many readable items there, one after the other, until it is released. Nobody else has this view, so
    // nobody releases it while the tensor holds it.
    unsafe { memory::borrowed(shape, lent, view.clone().into_any().unbind()) }
}

/// The type of items that the buffer protocol calls so, in this machine's byte order.
fn element_type(format: &str, item_bytes: usize) -> Option<ElementType> {
    let is_native = |order: u8| match order {
        b'<' => cfg!(target_endian = "little") || item_bytes == 1,
        b'>' | b'!' => cfg!(target_endian = "big") || item_bytes == 1,
        order => matches!(order, b'@' | b'='),
    };
    let code = match format.as_bytes() {
        [code] => code,
        [order, code] if is_native(*order) => code,
        _ => return None,
    };
    memory::type_of_format(*code, item_bytes)
}

/// Whether it is one of numpy's arrays whose items the buffer protocol has no name for, or none of numbers.
fn has_no_format(object: &Bound<'_, PyAny>) -> bool {
    crate::payload::has_no_format(object)
}

/// An array of texts, bytes or objects, copied; one of bfloat16 in place, by its bits.
fn unformatted(array: &Bound<'_, PyAny>) -> Result<Tensor, Refused> {
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    if crate::payload::is_bfloat16(array) {
        let bits = array.call_method1("view", ("uint16",))?;
        return of_view(shape, ElementType::Bf16, &PyMemoryView::from(&bits)?);
    }
    let flat = array.call_method0("ravel")?.call_method0("tolist")?;
    let Some(items) = items(&flat) else {
        return Err(PyBufferError::new_err("an array's list of items is no list").into());
    };
    Tensor::new(shape, strings(&items)?).map_err(unaddressable)
}

pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    crate::payload::type_name(object)
}
