//! Numbers straight out of an answer's JSON or msgpack, into a vector that is used again: those of an array, or of a tensor or several.
//!
//! Of arrays no tree is built. Its invariant: an answer that is cut off, holds the field twice or anything behind it is unreadable.

use millpond_tensor::{Elements, Tensor, element_types};
use millpond_wire_payload::{Encoding, Number as _, Payload, PayloadError, Reader, Token};
use millpond_wire_schema::{Field as _, run};

use super::{Answer, Wrong};

/// Reads the numbers under `field`: a key, or the keys of maps inside each other with dots between them.
pub(super) fn read(field: &str, answer: Answer<'_>, numbers: &mut Vec<f32>) -> Result<(), Wrong> {
    numbers.clear();
    let (encoding, bytes) = match answer {
        Answer::Json(bytes) => (Encoding::Json, bytes),
        Answer::Msgpack(bytes) => (Encoding::Msgpack, bytes),
        Answer::Bytes(_) | Answer::Floats(_) | Answer::Values { .. } => {
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
    Payload::new(encoding, bytes)?.read(|reader| under(field, reader, numbers))
}

/// Whether the field was there, in a map of which every key is looked at.
fn under(field: &str, reader: &mut Reader<'_>, numbers: &mut Vec<f32>) -> Result<bool, PayloadError> {
    let (first, rest) = match field.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (field, None),
    };
    let (mut is_seen, mut found) = (false, false);
    reader.map("a map", |reader, key| {
        if key != first.as_bytes() {
            return reader.skip();
        }
        if std::mem::replace(&mut is_seen, true) {
            return Err(reader.twin(first));
        }
        found = match rest {
            Some(rest) => under(rest, reader, numbers)?,
            None => read_numbers(reader, numbers).map(|()| true)?,
        };
        Ok(())
    })?;
    Ok(found)
}

/// The numbers of an array, or of what holds tensors.
fn read_numbers(reader: &mut Reader<'_>, numbers: &mut Vec<f32>) -> Result<(), PayloadError> {
    let mut ahead = reader.clone();
    let holds_tensors = match ahead.token()? {
        Token::Map(_) => true,
        Token::Array(1..) => matches!(ahead.token()?, Token::Map(_)),
        _ => false,
    };
    if !holds_tensors {
        let number = |reader: &mut Reader<'_>| {
            let token = reader.token()?;
            numbers.push(f32::of(token).ok_or_else(|| token.is_not("a number"))?);
            Ok(())
        };
        return reader.array("an array of numbers", number).map(drop);
    }
    let tensors = match run::Value::read(reader)?.items {
        run::Items::Tensor(tensor) => vec![tensor],
        run::Items::Tensors(tensors) => tensors,
        run::Items::Strings(_) => return Err(PayloadError::invalid("an array of texts", "numbers")),
    };
    match tensors.iter().all(|tensor| push_elements(tensor, numbers)) {
        true => Ok(()),
        false => Err(PayloadError::invalid("a tensor of texts", "numbers")),
    }
}

macro_rules! number {
    (truth, $value:expr) => {
        f32::from(u8::from($value))
    };
    (float, $value:expr) => {
        f64::from($value) as f32
    };
    ($kind:ident, $value:expr) => {
        $value as f32
    };
}

macro_rules! declare {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        /// Whether a tensor's elements are numbers.
        fn push_elements(tensor: &Tensor, numbers: &mut Vec<f32>) -> bool {
            match tensor.elements() {
                $(Elements::$variant(values) => numbers.extend(values.iter().map(|value| number!($kind, *value))),)*
                Elements::Bytes(_) => return false,
            }
            true
        }
    };
}

element_types!(declare);

/// The length of the array under `key`.
pub(super) fn length_of(key: &str, body: &[u8]) -> Result<usize, String> {
    let body: serde_json::Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let array = body.get(key).ok_or("no such key")?.as_array();
    array.map(Vec::len).ok_or_else(|| "it is none".into())
}
