//! Payloads as JSON values, whatever they travel as.

use millpond_wire_payload::{Encoder, Encoding, Map, Value as Wire, decode_map};
use serde_json::{Value, json};
use std::io;

/// The bytes of a payload.
pub fn msgpack_of(payload: &Value, encoding: Encoding) -> io::Result<Vec<u8>> {
    let text = payload.to_string().into_bytes();
    if encoding == Encoding::Json {
        return Ok(text);
    }
    let map = decode_map(Encoding::Json, &text).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes, encoding, false).value(&Wire::Map(map));
    Ok(bytes)
}

/// The payload that the bytes are, read strictly; binary blocks are arrays of numbers, as in JSON.
pub fn json_of(bytes: &[u8], encoding: Encoding) -> Result<Value, String> {
    match encoding {
        // serde_json is another reader than the server's own.
        Encoding::Json => serde_json::from_slice(bytes).map_err(|error| {
            let shown = String::from_utf8_lossy(bytes.get(..200).unwrap_or(bytes)).into_owned();
            format!("{error} in {shown:?}")
        }),
        Encoding::Msgpack => {
            let map = decode_map(encoding, bytes).map_err(|error| error.to_string())?;
            Ok(value_of(Wire::Map(map)))
        }
    }
}

fn value_of(wire: Wire<'_>) -> Value {
    match wire {
        Wire::Nil => Value::Null,
        Wire::Bool(value) => json!(value),
        Wire::UInt(value) => json!(value),
        Wire::Int(value) => json!(value),
        Wire::Float(value) => json!(value),
        Wire::Text(value) => json!(value),
        Wire::Bytes(value) => json!(value),
        Wire::Array(values) => Value::Array(values.into_iter().map(value_of).collect()),
        Wire::Map(Map(entries)) => Value::Object(
            entries
                .into_iter()
                .map(|(key, value)| (key.into_owned(), value_of(value)))
                .collect(),
        ),
    }
}
