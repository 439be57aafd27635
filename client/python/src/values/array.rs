//! `millpond.Tensor`: a tensor as Python holds it.
//!
//! It computes nothing. Its invariant: a tensor never changes while somebody holds it; numpy, memoryview and DLPack read it in
//! place.

use crate::values::{dlpack, give, memory, take};
use millpond_tensor::Tensor;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi::Py_buffer;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::c_int;

/// A typed array: what pipelines take and give.
#[pyclass(frozen, name = "Tensor", module = "millpond")]
pub(crate) struct Array {
    pub(crate) tensor: Tensor,
    /// Its shape, where a buffer's reader finds it.
    pub(super) shape: Box<[isize]>,
    /// Bytes from one element to the next in each dimension, likewise.
    pub(super) strides: Box<[isize]>,
}

impl Array {
    pub(crate) fn new(tensor: Tensor) -> Array {
        let size = |size: usize| isize::try_from(size).unwrap_or(isize::MAX);
        let shape: Box<[isize]> = tensor.shape().iter().map(|dim| size(*dim)).collect();
        let mut strides = vec![0; shape.len()].into_boxed_slice();
        let mut step = size(tensor.element_type().bytes().unwrap_or(0));
        for (stride, dim) in strides.iter_mut().zip(&shape).rev() {
            *stride = step;
            step = step.saturating_mul(*dim);
        }
        Array {
            tensor,
            shape,
            strides,
        }
    }
}

#[pymethods]
impl Array {
    #[new]
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Array> {
        let tensor = take::tensor(object).map_err(|refused| refused.raised("the argument"))?;
        Ok(Array::new(tensor))
    }

    /// The dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    /// The elements' type: "f32", "bytes".
    #[getter]
    fn r#type(&self) -> &'static str {
        self.tensor.element_type().as_str()
    }

    /// Bytes of the elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.tensor.bytes()
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.tensor.shape().first() {
            Some(rows) => Ok(*rows),
            None => Err(PyTypeError::new_err(
                "a millpond.Tensor without dimensions has no length",
            )),
        }
    }

    fn __repr__(&self) -> String {
        let dims: Vec<String> = self.tensor.shape().iter().map(usize::to_string).collect();
        format!(
            "<millpond.Tensor {}[{}]>",
            self.tensor.element_type(),
            dims.join(", ")
        )
    }

    /// The elements as Python's own, in lists as deep as there are dimensions.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        give::list(py, &self.tensor)
    }

    /// As an array of numpy that shares the elements and cannot be written.
    fn numpy<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        give::numpy(slf.py(), slf)
    }

    /// For `numpy.asarray`, where the buffer protocol has no name for the elements.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = give::numpy(slf.py(), slf)?;
        let array = match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,))?,
            None => array,
        };
        match copy {
            Some(true) => array.call_method0("copy"),
            _ => Ok(array),
        }
    }

    /// A DLPack capsule; `numpy.from_dlpack` and `torch.from_dlpack` ask for it.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some_and(|stream| !stream.is_none()) {
            return Err(PyBufferError::new_err(
                "a millpond.Tensor is in the CPU's memory and has no stream; give None",
            ));
        }
        if let Some(device) = dl_device.filter(|device| *device != dlpack::CPU) {
            let text = format!(
                "a millpond.Tensor is in the CPU's memory, DLPack device {:?}, not {device:?}",
                dlpack::CPU
            );
            return Err(PyBufferError::new_err(text));
        }
        let tensor = match copy {
            Some(true) => memory::copy(
                self.tensor.shape().to_vec(),
                self.tensor.element_type(),
                memory::bytes(&self.tensor),
            )
            .map_err(|error| PyBufferError::new_err(error.to_string()))?,
            _ => self.tensor.clone(),
        };
        dlpack::export(py, tensor, copy == Some(true), max_version)
    }

    /// The CPU, as DLPack names it.
    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::CPU
    }

    #[allow(unsafe_code)] // The buffer protocol is one of pointers.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: Python gives a view that is to be filled.
        unsafe { memory::fill(slf, view, flags) }
    }
}
