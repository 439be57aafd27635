//! Python's rows as streams of Arrow: those of a library that speaks Arrow's C stream interface in place, arrays block by block.
//!
//! It checks no types: the builder does. Its invariant: what a stream reads is held by the stream.
#![allow(unsafe_code)]

use crate::values::take;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{Float16Type, Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array as _, ArrayRef, ArrowPrimitiveType, BinaryArray, FixedSizeBinaryArray, FixedSizeListArray,
    PrimitiveArray, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{ArrowError, Field, Schema};
use millpond_engines_features_build::{Given, Stream};
use millpond_tensor::{Elements, Tensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::sync::Arc;

/// The method of Arrow's PyCapsule interface, and the name of what it gives.
const METHOD: &str = "__arrow_c_stream__";
const CAPSULE: &std::ffi::CStr = c"arrow_array_stream";
/// Rows of a block of arrays.
const BLOCK_ROWS: usize = 8192;

/// The rows of an object: a dict of arrays, or anything with a stream of Arrow.
pub(super) fn given(rows: &Bound<'_, PyAny>) -> PyResult<Given> {
    if let Ok(dict) = rows.cast::<PyDict>() {
        let columns: Vec<(String, Tensor)> = dict
            .iter()
            .map(|(name, array)| {
                let name: String = name.extract()?;
                let tensor = take::tensor(&array);
                let tensor = tensor.map_err(|refused| refused.raised(&format!("column {name:?}")))?;
                Ok((name, tensor))
            })
            .collect::<PyResult<_>>()?;
        return of_arrays(columns);
    }
    if !rows.hasattr(METHOD)? {
        let found = rows.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "the rows are a {found}; expected a pyarrow.Table or another object with {METHOD}, a dict of arrays, or (keys, values)"
        )));
    }
    let rows = rows.clone().unbind();
    Ok(Given::new(move || {
        Python::attach(|py| stream(rows.bind(py)).map_err(|error| error.to_string()))
    }))
}

/// The stream of an object of another library.
fn stream(rows: &Bound<'_, PyAny>) -> PyResult<Stream> {
    let capsule = rows.call_method0(METHOD)?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(CAPSULE))?;
    // SAFETY: a capsule of that name holds a stream, which is moved out of it: what is left there has no release and ends as nothing.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.cast::<FFI_ArrowArrayStream>().as_ptr()) };
    let reader = reader.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(Box::new(reader))
}

fn of_arrays(columns: Vec<(String, Tensor)>) -> PyResult<Given> {
    let rows = columns.first().map_or(0, |(_, first)| first.rows());
    for (name, tensor) in &columns {
        let shape = tensor.shape();
        if shape.is_empty() || shape.len() > 2 || shape.get(1) == Some(&0) {
            return Err(PyValueError::new_err(format!(
                "column {name:?} has shape {shape:?}; expected (rows,) or (rows, numbers of a row)"
            )));
        }
        if tensor.rows() != rows {
            return Err(PyValueError::new_err(format!(
                "column {name:?} has {} rows, the first column {rows}; make them as long as each other",
                tensor.rows()
            )));
        }
    }
    let columns = Arc::new(columns);
    Ok(Given::new(move || {
        let all = Arc::clone(&columns);
        let schema = batch(&all, 0..0).map_err(|error| error.to_string())?.schema();
        let begins = (0..rows).step_by(BLOCK_ROWS);
        let batches = begins.map(move |begin| batch(&all, begin..rows.min(begin + BLOCK_ROWS)));
        Ok(Box::new(RecordBatchIterator::new(batches, schema)))
    }))
}

/// Some rows of all columns.
fn batch(columns: &[(String, Tensor)], rows: std::ops::Range<usize>) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (name, tensor) in columns {
        let array = array(tensor, rows.clone())?;
        fields.push(Field::new(name, array.data_type().clone(), false));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn array(tensor: &Tensor, rows: std::ops::Range<usize>) -> Result<ArrayRef, ArrowError> {
    let some = tensor.view(rows);
    let some = some.ok_or_else(|| ArrowError::InvalidArgumentError("an array without rows".to_owned()))?;
    let width = tensor.shape().get(1).copied();
    match some.elements() {
        Elements::F16(numbers) => lists::<Float16Type>(numbers, width),
        Elements::F32(numbers) => lists::<Float32Type>(numbers, width),
        Elements::F64(numbers) => lists::<Float64Type>(numbers, width),
        Elements::I64(numbers) => lists::<Int64Type>(numbers, width),
        Elements::U64(numbers) => lists::<UInt64Type>(numbers, width),
        Elements::U8(bytes) => {
            let width = i32::try_from(width.unwrap_or(1)).unwrap_or(i32::MAX);
            let values = Buffer::from(bytes.to_vec());
            Ok(Arc::new(FixedSizeBinaryArray::try_new(width, values, None)?))
        }
        Elements::Bytes(strings) => {
            // Of all rows: a block alone might be text.
            let all = tensor.strings();
            let is_text = all.is_some_and(|all| all.iter().all(|string| str::from_utf8(string).is_ok()));
            let texts: Option<Vec<&str>> = strings.iter().map(|string| str::from_utf8(string).ok()).collect();
            match texts.filter(|_| is_text) {
                Some(texts) => Ok(Arc::new(StringArray::from(texts))),
                None => Ok(Arc::new(BinaryArray::from_iter_values(strings.iter()))),
            }
        }
        other => Err(ArrowError::InvalidArgumentError(format!(
            "an array of {}; expected float16, float32 or float64, keys of int64 or uint64, bytes or texts",
            other.element_type().as_str()
        ))),
    }
}

/// Numbers, or lists of `width` of them.
fn lists<T: ArrowPrimitiveType>(numbers: &[T::Native], width: Option<usize>) -> Result<ArrayRef, ArrowError> {
    let values: ScalarBuffer<T::Native> = numbers.to_vec().into();
    let values = PrimitiveArray::<T>::new(values, None);
    let Some(width) = width else {
        return Ok(Arc::new(values));
    };
    let field = Arc::new(Field::new("item", T::DATA_TYPE, false));
    let width = i32::try_from(width).unwrap_or(i32::MAX);
    Ok(Arc::new(FixedSizeListArray::try_new(
        field,
        width,
        Arc::new(values),
        None,
    )?))
}
