//! DLPack both ways: tensors of other libraries as ours, and ours as theirs, in place.
//!
//! It sees the CPU's memory alone; tensors of another device are refused by name. Its invariants: a capsule that we took is held
//! until the last tensor of its memory is dropped, and its own destructor ends it; one that we gave holds its tensor until its
//! consumer, or nobody, is done with it.
#![allow(unsafe_code)]

use crate::ending::Use;
use crate::values::memory::{self, Lent};
use crate::values::take::Refused;
use millpond_tensor::{ElementType, Kind, Tensor};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyCapsule};
use std::ffi::{CStr, c_void};
use std::mem;
use std::ptr;
use std::slice;

/// The CPU's device, as `__dlpack_device__` gives it.
pub(super) const CPU: (i32, i32) = (1, 0);
const VERSION: (u32, u32) = (1, 0);
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";

/// DLPack's own layouts; the names are its header's.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: [i32; 2],
    ndim: i32,
    dtype: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// How DLPack describes such elements; strings it has none.
fn type_of(element_type: ElementType) -> Option<DlType> {
    let code = match element_type.kind() {
        Kind::Float if element_type == ElementType::Bf16 => 4,
        Kind::Float => 2,
        Kind::Int => 0,
        Kind::UInt => 1,
        Kind::Truth => 6,
        Kind::Bytes => return None,
    };
    let bits = u8::try_from(element_type.bytes()? * 8).ok()?;
    Some(DlType { code, bits, lanes: 1 })
}

/// What `export` gives away: DLPack's struct, which points to the rest.
#[repr(C)]
struct Given<M> {
    managed: M,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    tensor: Tensor,
}

/// A capsule of `tensor`, as new as the consumer understands.
pub(super) fn export<'py>(
    py: Python<'py>,
    tensor: Tensor,
    is_copied: bool,
    max_version: Option<(u32, u32)>,
) -> PyResult<Bound<'py, PyAny>> {
    let flags = if is_copied { IS_COPIED } else { READ_ONLY };
    if max_version.is_some_and(|(major, _)| major >= VERSION.0) {
        let managed = |tensor| Versioned {
            version: [VERSION.0, VERSION.1],
            context: ptr::null_mut(),
            deleter: Some(delete::<Versioned>),
            flags,
            tensor,
        };
        return capsule(py, give(tensor, managed)?, NAME_VERSIONED, end_versioned);
    }
    let managed = |tensor| Managed {
        tensor,
        context: ptr::null_mut(),
        deleter: Some(delete::<Managed>),
    };
    capsule(py, give(tensor, managed)?, NAME, end)
}

fn give<M>(tensor: Tensor, managed: impl FnOnce(DlTensor) -> M) -> PyResult<Box<Given<M>>> {
    let element_type = tensor.element_type();
    let (Some(dtype), Some(at)) = (type_of(element_type), memory::address(tensor.elements())) else {
        return Err(PyBufferError::new_err(format!(
            "DLPack has no elements of type {element_type}; use tolist()"
        )));
    };
    let mut shape = tensor
        .shape()
        .iter()
        .map(|dim| i64::try_from(*dim))
        .collect::<Result<Box<[i64]>, _>>()?;
    let mut step = 1_i64;
    let mut strides: Box<[i64]> = vec![0; shape.len()].into_boxed_slice();
    for (stride, dim) in strides.iter_mut().zip(&shape).rev() {
        *stride = step;
        step = step.saturating_mul(*dim);
    }
    let described = DlTensor {
        data: at.cast_mut(),
        device: [CPU.0, CPU.1],
        ndim: i32::try_from(shape.len())?,
        dtype,
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    Ok(Box::new(Given {
        managed: managed(described),
        shape,
        strides,
        tensor,
    }))
}

fn capsule<'py, M>(
    py: Python<'py>,
    given: Box<Given<M>>,
    name: &'static CStr,
    end: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    let given = Box::into_raw(given);
    // SAFETY: the pointer is not null, the name lives for ever, and `end` takes the pointer back where no consumer did.
    let made = unsafe {
        Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(given.cast(), name.as_ptr(), Some(end)))
    };
    if made.is_err() {
        // SAFETY: no capsule holds it.
        drop(unsafe { Box::from_raw(given) });
    }
    made
}

/// What a consumer calls when it is done. It may have let go of the interpreter, as torch does, where pyo3 counts this thread as one that has it:
/// inside of a backend.
///
/// # Safety
/// `managed` is what `export` gave, and nobody uses it any more.
unsafe extern "C" fn delete<M>(managed: *mut M) {
    if managed.is_null() {
        return;
    }
    // SAFETY: it is the first field of what `give` boxed, in C's layout.
    let given = unsafe { Box::from_raw(managed.cast::<Given<M>>()) };
    // SAFETY: it may be asked at any time.
    let has_ended = unsafe { ffi::Py_IsInitialized() } == 0;
    let Some(_use) = Use::begin().filter(|_| !has_ended) else {
        // The process ends as well, and with it what Python lent.
        return mem::forget(given);
    };
    // SAFETY: the interpreter is there and does not end meanwhile, and this thread lets go of it below.
    let state = unsafe { ffi::PyGILState_Ensure() };
    // pyo3 puts off what is dropped on a thread that it does not know to have the interpreter.
    let _ = Python::try_attach(|_| drop(given));
    // SAFETY: as above.
    unsafe { ffi::PyGILState_Release(state) };
}

unsafe extern "C" fn end(capsule: *mut ffi::PyObject) {
    // SAFETY: Python ends this capsule; under its first name no consumer took what it holds.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete::<Managed>(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn end_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `end`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME_VERSIONED.as_ptr()) == 1 {
            delete::<Versioned>(ffi::PyCapsule_GetPointer(capsule, NAME_VERSIONED.as_ptr()).cast());
        }
    }
}

/// The tensor of an object that has `__dlpack__`, in place where its elements lie one after the other.
pub(super) fn import(object: &Bound<'_, PyAny>) -> Result<Tensor, Refused> {
    let device: (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    if device.0 != CPU.0 {
        return Err(Refused::value(format!(
            "is on DLPack device {device:?}; expected the CPU, {CPU:?}: copy it there first, for torch by .cpu()"
        )));
    }
    let kwargs = [("max_version", VERSION)].into_py_dict(object.py())?;
    let capsule = match object.call_method("__dlpack__", (), Some(&kwargs)) {
        // Its maker is older than versions.
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => object.call_method0("__dlpack__"),
        given => given,
    }?;
    let Ok(capsule) = capsule.cast_into::<PyCapsule>() else {
        return Err(Refused::kind("gives no capsule by __dlpack__".to_owned()));
    };
    let pointer = |name: &CStr| {
        // SAFETY: a capsule is asked for the pointer under a name that it has.
        unsafe {
            match ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) {
                1 => ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()),
                _ => ptr::null_mut(),
            }
        }
    };
    // SAFETY: under these names DLPack's producers keep these structs, which live as long as the capsule that nobody consumes; of
    // a version the producer was told which it may be.
    let described = unsafe {
        match pointer(NAME_VERSIONED).cast::<Versioned>().as_ref() {
            Some(versioned) if versioned.version[0] == VERSION.0 => Some(&versioned.tensor),
            Some(_) => None,
            None => pointer(NAME)
                .cast::<Managed>()
                .as_ref()
                .map(|managed| &managed.tensor),
        }
    };
    let Some(described) = described else {
        return Err(Refused::kind(
            "gives a DLPack capsule of another version; expected 1.x or one without".to_owned(),
        ));
    };
    // SAFETY: the capsule goes along and is not consumed.
    unsafe { tensor(described, capsule.clone().into_any().unbind()) }
}

/// # Safety
/// `described` is a producer's, and lives with `owner`.
unsafe fn tensor(described: &DlTensor, owner: Py<PyAny>) -> Result<Tensor, Refused> {
    let DlType { code, bits, lanes } = described.dtype;
    let known = || {
        ElementType::ALL
            .iter()
            .filter(|known| **known != ElementType::Bytes)
    };
    let Some(&element_type) = known().find(|known| type_of(**known) == Some(described.dtype)) else {
        let known: Vec<&str> = known().map(|known| known.as_str()).collect();
        return Err(Refused::value(format!(
            "has elements of DLPack type (code {code}, {bits} bits, {lanes} lanes); expected one of {}",
            known.join(", ")
        )));
    };
    let dims = usize::try_from(described.ndim).unwrap_or(0);
    let numbers = |at: *mut i64| match at.is_null() || dims == 0 {
        true => None,
        // SAFETY: a producer's shape and strides have so many numbers.
        false => Some(unsafe { slice::from_raw_parts(at, dims) }),
    };
    let shape = numbers(described.shape).unwrap_or_default();
    let sizes = shape
        .iter()
        .map(|dim| usize::try_from(*dim))
        .collect::<Result<Vec<usize>, _>>();
    let len = sizes
        .as_ref()
        .ok()
        .and_then(|sizes| sizes.iter().try_fold(1_usize, |len, dim| len.checked_mul(*dim)));
    let (Ok(sizes), Some(len)) = (sizes, len) else {
        return Err(Refused::value(format!(
            "has shape {shape:?}, which no memory holds"
        )));
    };
    if let Some(strides) = numbers(described.strides)
        && len > 0
        && !is_dense(shape, strides)
    {
        return Err(Refused::value(
            "is not contiguous in C's order; make it so first, for torch by .contiguous()".to_owned(),
        ));
    }
    let offset = usize::try_from(described.byte_offset).unwrap_or(0);
    let at = described
        .data
        .cast::<u8>()
        .wrapping_add(offset)
        .cast_const()
        .cast();
    // SAFETY: so many elements lie there one after the other, as long as their owner is held.
    let made = unsafe {
        memory::borrowed(
            sizes,
            Lent {
                at,
                element_type,
                len,
            },
            owner,
        )
    };
    made.map_err(|error| Refused::value(format!("cannot be read: {error}")))
}

/// Whether elements lie one after the other, the last dimension's first.
fn is_dense(shape: &[i64], strides: &[i64]) -> bool {
    let mut step = 1_i64;
    shape.iter().zip(strides).rev().all(|(dim, stride)| {
        let fits = *dim == 1 || *stride == step;
        step = step.saturating_mul(*dim);
        fits
    })
}
