//! Numbers straight out of an answer's JSON or msgpack, into a vector that is used again.
//!
//! No tree is built. Its invariant: an answer that is cut off, holds the field twice or anything behind it is unreadable.

use millpond_wire_payload::{Encoding, Number as _, Payload, PayloadError, Reader};

use super::{Answer, Wrong};

/// Reads the numbers under `field`.
pub(super) fn read(field: &str, answer: Answer<'_>, numbers: &mut Vec<f32>) -> Result<(), Wrong> {
    numbers.clear();
    let (encoding, bytes) = match answer {
        Answer::Json(bytes) => (Encoding::Json, bytes),
        Answer::Msgpack(bytes) => (Encoding::Msgpack, bytes),
        Answer::Bytes(_) | Answer::Floats(_) => {
            return Err(Wrong::Unreadable("it is neither JSON nor msgpack".into()));
        }
    };
    let found = read_field(field, encoding, bytes, numbers);
    match found.map_err(|error| Wrong::Unreadable(error.to_string()))? {
        true => Ok(()),
        false => Err(Wrong::NoField),
    }
}

/// Whether the field was there.
fn read_field(
    field: &str,
    encoding: Encoding,
    bytes: &[u8],
    numbers: &mut Vec<f32>,
) -> Result<bool, PayloadError> {
    let mut found = false;
    Payload::new(encoding, bytes)?.read(|reader| {
        reader.map("a map", |reader, key| {
            if key != field.as_bytes() {
                return reader.skip();
            }
            if std::mem::replace(&mut found, true) {
                return Err(reader.twin(field));
            }
            let number = |reader: &mut Reader<'_>| {
                let token = reader.token()?;
                numbers.push(f32::of(token).ok_or_else(|| token.is_not("a number"))?);
                Ok(())
            };
            reader.array("an array of numbers", number).map(drop)
        })
    })?;
    Ok(found)
}

/// The length of the array under `key`.
pub(super) fn length_of(key: &str, body: &[u8]) -> Result<usize, String> {
    let body: serde_json::Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let array = body.get(key).ok_or("no such key")?.as_array();
    array.map(Vec::len).ok_or_else(|| "it is none".into())
}
