//! Answers as Python objects: a decoded payload to dicts, lists and their leaves.
//!
//! It is not a decoder (wire/schema's is, with its limits). Its invariant: what `payload.rs` writes reads back equal, but
//! that tuples are lists and arrays of numbers are bytes.

use millpond_client_rust::schema::payload::{Map, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// A dict of the map's entries, in their order.
pub(crate) fn dict<'py>(py: Python<'py>, map: &Map<'_>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in &map.0 {
        dict.set_item(key.as_ref(), object(py, value)?)?;
    }
    Ok(dict)
}

fn object<'py>(py: Python<'py>, value: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Nil => py.None().into_bound(py),
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::UInt(value) => value.into_pyobject(py)?.into_any(),
        Value::Int(value) => value.into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.as_ref().into_pyobject(py)?.into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Array(items) => {
            let items: Vec<_> = items
                .iter()
                .map(|item| object(py, item))
                .collect::<PyResult<_>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Map(map) => dict(py, map)?.into_any(),
    })
}
