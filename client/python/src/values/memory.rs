//! Memory that Python and tensors share: a buffer's as the elements of a tensor, and a tensor's as a buffer.
//!
//! It converts nothing but what it copies. Its invariant: what is shared is readable, aligned and initialised, and its owner
//! is held by whoever reads it. Python may write to what it lent; the package's guide says who must not, and when.
#![allow(unsafe_code)]

use crate::values::array::Array;
use millpond_tensor::{Data, ElementType, Elements, Error, Kind, Tensor, bf16, element_types, f16};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi::{Py_buffer, PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE};
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};
use std::slice;

/// Elements that Python keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lent {
    /// Where the first lies.
    pub at: *const c_void,
    /// What each is.
    pub element_type: ElementType,
    /// How many there are, without gaps.
    pub len: usize,
}

macro_rules! by_type {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        impl Lent {
            /// The elements where they lie; `None` for those that must be copied: truth values, whose bytes nobody has checked, and
            /// what is not aligned.
            ///
            /// # Safety
            /// `at` points to `len` elements that are readable and initialised for as long as the result or a copy of it is used.
            unsafe fn in_place(self) -> Option<Elements<'static>> {
                match self.element_type {
                    $(ElementType::$variant => in_place!($kind $variant $type self),)*
                    ElementType::Bytes => None,
                }
            }
        }

        /// A copy of elements that lie one after the other in `bytes`.
        fn copied(element_type: ElementType, bytes: &[u8]) -> Option<Data> {
            match element_type {
                $(ElementType::$variant => Some(Data::$variant(copied!($kind $type bytes))),)*
                ElementType::Bytes => None,
            }
        }

        /// Where the elements begin, unless they are strings.
        pub(super) fn address(elements: Elements<'_>) -> Option<*const c_void> {
            match elements {
                $(Elements::$variant(elements) => Some(elements.as_ptr().cast()),)*
                Elements::Bytes(_) => None,
            }
        }
    };
}

macro_rules! in_place {
    (truth $variant:ident $type:ident $lent:ident) => {
        None
    };
    ($kind:ident $variant:ident $type:ident $lent:ident) => {{
        let at = NonNull::new($lent.at.cast_mut())?.cast::<$type>();
        if !at.is_aligned() {
            return None;
        }
        // SAFETY: it is not null and aligned, and the caller says that so many elements are there; any bits are a number.
        Some(Elements::$variant(unsafe { slice::from_raw_parts(at.as_ptr(), $lent.len) }))
    }};
}

macro_rules! copied {
    (truth $type:ident $bytes:ident) => {
        $bytes.iter().map(|byte| *byte != 0).collect()
    };
    ($kind:ident $type:ident $bytes:ident) => {
        $bytes
            .chunks_exact(size_of::<$type>())
            .map(|element| <$type>::from_ne_bytes(element.try_into().unwrap_or_default()))
            .collect()
    };
}

element_types!(by_type);

/// A tensor of elements that `owner` keeps, in place where that can be.
///
/// # Safety
/// `lent` points to readable and initialised elements until `owner` is dropped.
pub(super) unsafe fn borrowed(shape: Vec<usize>, lent: Lent, owner: Py<PyAny>) -> Result<Tensor, Error> {
    // SAFETY: the elements are there until the owner is dropped, which the tensor keeps as long as it reads them.
    if let Some(elements) = unsafe { lent.in_place() } {
        return Tensor::lent(shape, elements, owner);
    }
    let bytes = lent.len.saturating_mul(lent.element_type.bytes().unwrap_or(0));
    let bytes = match NonNull::new(lent.at.cast_mut()) {
        // SAFETY: as above; bytes need no alignment.
        Some(at) if bytes > 0 => unsafe { slice::from_raw_parts(at.cast::<u8>().as_ptr(), bytes) },
        _ => &[],
    };
    copy(shape, lent.element_type, bytes)
}

/// A tensor of its own of elements that lie one after the other in `bytes`.
pub(super) fn copy(shape: Vec<usize>, element_type: ElementType, bytes: &[u8]) -> Result<Tensor, Error> {
    match copied(element_type, bytes) {
        Some(data) => Tensor::new(shape, data),
        None => Tensor::zeros(element_type, shape),
    }
}

/// A tensor's bytes as they lie in memory; none of strings.
pub(super) fn bytes(tensor: &Tensor) -> &[u8] {
    match address(tensor.elements()) {
        // SAFETY: the tensor has so many bytes there for as long as it is borrowed; numbers and truth values have no padding.
        Some(at) if !tensor.is_empty() => unsafe { slice::from_raw_parts(at.cast(), tensor.bytes()) },
        _ => &[],
    }
}

/// A tensor's bytes as elements of `element_type`, in place; it has one dimension.
pub(super) fn reinterpreted(tensor: &Tensor, element_type: ElementType) -> Option<Tensor> {
    let len = tensor.bytes() / element_type.bytes()?;
    let lent = Lent {
        at: address(tensor.elements())?,
        element_type,
        len,
    };
    // SAFETY: the elements live as long as the tensor, a clone of which goes along.
    let elements = unsafe { lent.in_place()? };
    Tensor::lent(vec![len], elements, tensor.clone()).ok()
}

/// What the buffer protocol calls elements; of bf16 and of strings it has none.
const FORMATS: &[(ElementType, &CStr)] = &[
    (ElementType::F32, c"f"),
    (ElementType::F64, c"d"),
    (ElementType::F16, c"e"),
    (ElementType::I64, c"q"),
    (ElementType::I32, c"i"),
    (ElementType::I16, c"h"),
    (ElementType::I8, c"b"),
    (ElementType::U64, c"Q"),
    (ElementType::U32, c"I"),
    (ElementType::U16, c"H"),
    (ElementType::U8, c"B"),
    (ElementType::Bool, c"?"),
];

/// How the buffer protocol calls such elements.
fn format(element_type: ElementType) -> Option<&'static CStr> {
    let known = FORMATS.iter().find(|(known, _)| *known == element_type)?;
    Some(known.1)
}

/// The type of items that the buffer protocol calls so, in this machine's byte order.
pub(super) fn type_of_format(code: u8, item_bytes: usize) -> Option<ElementType> {
    // Of l, L, n and N only the machine says how wide they are.
    let kind = match code {
        b'l' | b'n' => Kind::Int,
        b'L' | b'N' => Kind::UInt,
        code => {
            let mut known = FORMATS.iter();
            let found = known.find(|(_, format)| format.to_bytes() == [code])?.0;
            return (found.bytes() == Some(item_bytes)).then_some(found);
        }
    };
    let mut known = FORMATS.iter().map(|(known, _)| *known);
    known.find(|known| known.kind() == kind && known.bytes() == Some(item_bytes))
}

/// Fills `view` with what the array holds, to be read.
///
/// # Safety
/// `view` is null or points to a `Py_buffer` that may be written.
pub(super) unsafe fn fill(array: Bound<'_, Array>, view: *mut Py_buffer, flags: c_int) -> PyResult<()> {
    let Some(mut view) = NonNull::new(view) else {
        return Err(PyBufferError::new_err("there is no view to fill"));
    };
    // SAFETY: the caller says that it may be written, and nobody else does meanwhile.
    let view = unsafe { view.as_mut() };
    view.obj = ptr::null_mut();
    if flags & PyBUF_WRITABLE == PyBUF_WRITABLE {
        return Err(PyBufferError::new_err(
            "a millpond.Tensor is read-only; copy it to change it",
        ));
    }
    let held = array.get();
    let element_type = held.tensor.element_type();
    let (Some(format), Some(at), Some(width)) = (
        format(element_type),
        address(held.tensor.elements()),
        element_type.bytes(),
    ) else {
        let text =
            format!("the buffer protocol has no elements of type {element_type}; use numpy() or tolist()");
        return Err(PyBufferError::new_err(text));
    };
    let asked = |bit: c_int| flags & bit == bit;
    view.buf = at.cast_mut();
    view.len = isize::try_from(held.tensor.bytes())?;
    view.readonly = 1;
    view.itemsize = isize::try_from(width)?;
    view.format = if asked(PyBUF_FORMAT) {
        format.as_ptr().cast_mut()
    } else {
        ptr::null_mut()
    };
    view.ndim = c_int::try_from(held.shape.len())?;
    view.shape = if asked(PyBUF_ND) {
        held.shape.as_ptr().cast_mut()
    } else {
        ptr::null_mut()
    };
    view.strides = if asked(PyBUF_STRIDES) {
        held.strides.as_ptr().cast_mut()
    } else {
        ptr::null_mut()
    };
    view.suboffsets = ptr::null_mut();
    view.internal = ptr::null_mut();
    // The view holds the array, and so all that it points to.
    view.obj = array.into_any().into_ptr();
    Ok(())
}
