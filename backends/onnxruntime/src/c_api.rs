//! ONNX Runtime's C interface, where the crate `ort` is not enough: one session run by several threads, inputs borrowed without
//! a copy, and whether a port has a shape at all. All unsafe code of the backend is here and in `binding`.
//!
//! Its invariants: a [`Value`] is released once and lives no longer than the tensor whose elements it borrows; elements are read as a
//! type only where any bytes are a value of it and the library says that they are so many of that width.
#![allow(unsafe_code)]

pub(crate) mod binding;

use crate::convert;
use crate::library::Runtime;
use millpond_tensor::{Bytes, BytesView, ElementType, Tensor, bf16, element_types, f16};
use ort::memory::MemoryInfo;
use ort::session::{RunOptions, Session};
use ort::sys::{ONNXTensorElementDataType, OrtTensorTypeAndShapeInfo, OrtTypeInfo, OrtValue};
use ort::{AsPointer, Error, Result};
use std::ffi::{CString, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

/// A type of which any bytes are a value.
///
/// # Safety
/// It has neither padding nor bytes that are no value of it.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        $(plain!($kind $type);)*
    };
    // A byte that is neither 0 nor 1 is no truth value.
    (truth $type:ident) => {};
    ($kind:ident $type:ident) => {
        // SAFETY: a number without padding; every pattern of its bits is a value.
        unsafe impl Plain for $type {}
    };
}

element_types!(plain);

/// A tensor of ONNX Runtime's; an input borrows its elements for `'a`, unless they are strings.
pub(crate) struct Value<'a> {
    value: NonNull<OrtValue>,
    borrowed: PhantomData<&'a Tensor>,
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nothing else releases it.
        unsafe { (ort::api().ReleaseValue)(self.value.as_ptr()) }
    }
}

impl<'a> Value<'a> {
    /// An input, which reads elements of one width where they lie.
    pub(crate) fn of_tensor(runtime: &Runtime, tensor: &'a Tensor) -> Result<Value<'a>> {
        let shape = sizes(tensor.shape())?;
        if let Some(strings) = tensor.strings() {
            return Value::of_strings(&shape, strings);
        }
        let place = convert::place(tensor.elements());
        let (data, bytes) = place.ok_or_else(|| Error::new("elements of no one width"))?;
        // SAFETY: the memory is `bytes` long, of that type and shape, and outlives the value; a run only reads its inputs.
        unsafe {
            Value::over(
                &runtime.memory,
                data.cast_mut(),
                bytes,
                &shape,
                tensor.element_type(),
            )
        }
    }

    /// A value whose elements lie there, in memory of that kind.
    ///
    /// # Safety
    /// `data` is `bytes` of elements of that type, as many as the shape says, and outlives the value; nobody else writes there while a run
    /// uses it.
    unsafe fn over(
        memory: &MemoryInfo<'_>,
        data: *mut c_void,
        bytes: usize,
        shape: &[i64],
        element_type: ElementType,
    ) -> Result<Value<'a>> {
        let mut made = ptr::null_mut();
        // SAFETY: as the caller says; the shape is as long as said.
        unsafe {
            let element_type = convert::theirs(element_type).into();
            let (place, rank) = (shape.as_ptr(), shape.len());
            let make = ort::api().CreateTensorWithDataAsOrtValue;
            let status = make(memory.ptr(), data, bytes, place, rank, element_type, &mut made);
            Error::result_from_status(status)?;
        }
        Value::of(made)
    }

    /// A copy of these strings, any bytes each, in a tensor of that shape.
    fn of_strings(shape: &[i64], strings: BytesView<'_>) -> Result<Value<'a>> {
        let api = ort::api();
        let element_type = convert::theirs(ElementType::Bytes).into();
        let (mut allocator, mut made) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the allocator is the library's own and lives as long; the shape is as long as said.
        unsafe {
            Error::result_from_status((api.GetAllocatorWithDefaultOptions)(&mut allocator))?;
            let (shape, rank) = (shape.as_ptr(), shape.len());
            let status = (api.CreateTensorAsOrtValue)(allocator, shape, rank, element_type, &mut made);
            Error::result_from_status(status)?;
        }
        let value = Value::of(made)?;
        for (index, string) in strings.iter().enumerate() {
            let mut place: *mut c_char = ptr::null_mut();
            // SAFETY: the value lives and is a tensor of strings; the library checks the index and makes a place of that length.
            unsafe {
                let place = &mut place;
                let status = (api.GetResizedStringTensorElementBuffer)(
                    value.value.as_ptr(),
                    index,
                    string.len(),
                    place,
                );
                Error::result_from_status(status)?;
            }
            if let Some(place) = NonNull::new(place) {
                // SAFETY: the place is the value's own memory, as long as the string.
                unsafe { ptr::copy_nonoverlapping(string.as_ptr(), place.cast().as_ptr(), string.len()) };
            }
        }
        Ok(value)
    }

    fn of(made: *mut OrtValue) -> Result<Value<'a>> {
        let value = NonNull::new(made).ok_or_else(|| Error::new("ONNX Runtime made no value"))?;
        let borrowed = PhantomData;
        Ok(Value { value, borrowed })
    }

    /// The shape and the elements of an output, which must be of type `expected` and as wide as `T`.
    pub(crate) fn read<T: Plain>(&self, expected: ElementType) -> Result<(Vec<usize>, &[T])> {
        let (shape, len) = self.shape_of(expected)?;
        let fits = |len: usize| {
            len.checked_mul(size_of::<T>())
                .is_some_and(|bytes| isize::try_from(bytes).is_ok())
        };
        if Some(size_of::<T>()) != expected.bytes() || !fits(len) {
            return Err(Error::new("an output is too large, or of another width"));
        }
        if len == 0 {
            return Ok((shape, &[]));
        }
        let mut data = ptr::null_mut();
        // SAFETY: the value lives and is a tensor, as its shape could be read.
        unsafe {
            Error::result_from_status((ort::api().GetTensorMutableData)(self.value.as_ptr(), &mut data))?;
        }
        let data = NonNull::new(data).ok_or_else(|| Error::new("an output has no elements"))?;
        // SAFETY: the library keeps `len` elements of that width there, aligned for them, as long as the value lives; `T` is `Plain`.
        let elements = unsafe { slice::from_raw_parts(data.cast::<T>().as_ptr(), len) };
        Ok((shape, elements))
    }

    /// The shape of an output of strings, and a copy of them.
    pub(crate) fn read_strings(&self) -> Result<(Vec<usize>, Bytes)> {
        let (shape, len) = self.shape_of(ElementType::Bytes)?;
        let mut total = 0usize;
        // SAFETY: the value lives and is a tensor of strings, which `shape_of` has made sure of.
        unsafe {
            Error::result_from_status((ort::api().GetStringTensorDataLength)(
                self.value.as_ptr(),
                &mut total,
            ))?;
        }
        let (mut bytes, mut starts) = (vec![0u8; total], vec![0usize; len]);
        // SAFETY: as above; both places are as long as said.
        unsafe {
            let place = bytes.as_mut_ptr().cast();
            let status = (ort::api().GetStringTensorContent)(
                self.value.as_ptr(),
                place,
                total,
                starts.as_mut_ptr(),
                len,
            );
            Error::result_from_status(status)?;
        }
        let mut strings = Bytes::with_capacity(len, total);
        let ends = starts.iter().skip(1).copied().chain([total]);
        for (start, end) in starts.iter().zip(ends) {
            strings.push(bytes.get(*start..end).unwrap_or_default());
        }
        Ok((shape, strings))
    }

    /// The shape of an output, which must be of that type, and how many elements it has.
    fn shape_of(&self, expected: ElementType) -> Result<(Vec<usize>, usize)> {
        let (kind, shape) = self.kind_and_shape()?;
        let expected_kind: ONNXTensorElementDataType = convert::theirs(expected).into();
        if kind != expected_kind as i32 {
            return Err(Error::new(format!(
                "an output of type {expected} has type number {kind}"
            )));
        }
        let len = shape.iter().try_fold(1usize, |len, size| len.checked_mul(*size));
        let len = len.ok_or_else(|| Error::new("an output is too large"))?;
        Ok((shape, len))
    }

    /// The number of the element type, and the shape.
    fn kind_and_shape(&self) -> Result<(i32, Vec<usize>)> {
        let mut info = ptr::null_mut();
        // SAFETY: the value lives; an info that is given is released below.
        unsafe {
            Error::result_from_status((ort::api().GetTensorTypeAndShape)(self.value.as_ptr(), &mut info))?;
        }
        let found = read_info(info);
        // SAFETY: the info is this call's own, and not used any more.
        unsafe { (ort::api().ReleaseTensorTypeAndShapeInfo)(info) };
        found
    }
}

fn read_info(info: *const OrtTensorTypeAndShapeInfo) -> Result<(i32, Vec<usize>)> {
    let api = ort::api();
    let (mut kind, mut rank) = (0i32, 0usize);
    // SAFETY: the info lives while the caller holds it. A type that is newer than the bindings is a number like others here.
    unsafe {
        Error::result_from_status((api.GetTensorElementType)(info, (&raw mut kind).cast()))?;
        Error::result_from_status((api.GetDimensionsCount)(info, &mut rank))?;
    }
    let mut sizes = vec![0i64; rank];
    // SAFETY: as above, and there is a place for each dimension.
    unsafe { Error::result_from_status((api.GetDimensions)(info, sizes.as_mut_ptr(), rank)) }?;
    let sizes = sizes
        .into_iter()
        .map(|size| usize::try_from(size).map_err(Error::wrap));
    Ok((kind, sizes.collect::<Result<_>>()?))
}

/// The names of a model's inputs and outputs, in order, as C writes them.
pub(crate) struct Names {
    pub(crate) inputs: Vec<CString>,
    pub(crate) outputs: Vec<CString>,
}

/// Sizes as C writes them.
fn sizes(shape: &[usize]) -> Result<Vec<i64>> {
    let size = |size: &usize| i64::try_from(*size).map_err(Error::wrap);
    shape.iter().map(size).collect()
}

fn check_count(names: &Names, found: usize) -> Result<()> {
    let expected = names.inputs.len();
    if found == expected {
        return Ok(());
    }
    Err(Error::new(format!(
        "it takes {expected} inputs, and {found} were given"
    )))
}

/// Runs the session once; `inputs` are all of the model's, in order. Several threads may run one session where [`Session::run`] wants
/// it for itself: the C interface allows it, and sessions with providers that do not bear it are not shared (settings.rs).
///
/// An output may be an input's memory, where the graph hands it through, so it lives no longer than that.
pub(crate) fn run<'a>(
    session: &Session,
    names: &Names,
    options: &RunOptions,
    inputs: &[Value<'a>],
) -> Result<Vec<Value<'a>>> {
    check_count(names, inputs.len())?;
    let pointers = |names: &[CString]| {
        names
            .iter()
            .map(|name| name.as_ptr())
            .collect::<Vec<*const c_char>>()
    };
    let (input_names, output_names) = (pointers(&names.inputs), pointers(&names.outputs));
    let values: Vec<*const OrtValue> = inputs
        .iter()
        .map(|input| input.value.as_ptr().cast_const())
        .collect();
    let mut made: Vec<*mut OrtValue> = vec![ptr::null_mut(); output_names.len()];
    // SAFETY: names and values are as many as said and outlive the call; the library keeps none of them. It fills `made` with
    // values of its own, which are ours from then on.
    let status = unsafe {
        (ort::api().Run)(
            session.ptr().cast_mut(),
            options.ptr(),
            input_names.as_ptr(),
            values.as_ptr(),
            values.len(),
            output_names.as_ptr(),
            output_names.len(),
            made.as_mut_ptr(),
        )
    };
    // Those of a failed run are released as well.
    let outputs: Vec<Result<Value<'a>>> = made.into_iter().map(Value::of).collect();
    // SAFETY: the status is the call's own.
    unsafe { Error::result_from_status(status) }?;
    outputs.into_iter().collect()
}

/// Which half of a model a port belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

/// Whether that port, a tensor, has a shape: `ort` shows one without as a scalar.
pub(crate) fn has_shape(session: &Session, side: Side, index: usize) -> Result<bool> {
    let api = ort::api();
    let ask = match side {
        Side::Input => api.SessionGetInputTypeInfo,
        Side::Output => api.SessionGetOutputTypeInfo,
    };
    let mut info: *mut OrtTypeInfo = ptr::null_mut();
    let mut tensor = ptr::null();
    // SAFETY: the session lives; `tensor` lies inside `info`, which is released behind its last use.
    unsafe {
        Error::result_from_status(ask(session.ptr(), index, &mut info))?;
        let cast = Error::result_from_status((api.CastTypeInfoToTensorInfo)(info, &mut tensor));
        let has = cast.map(|()| !tensor.is_null() && (api.TensorTypeAndShape_HasShape)(tensor));
        (api.ReleaseTypeInfo)(info);
        has
    }
}
