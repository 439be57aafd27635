//! Numbers straight out of an answer's JSON or msgpack, into a vector that is used again.
//!
//! No tree is built. Its invariant: an answer that is cut off, holds the field twice or anything behind it is unreadable.

use std::fmt;

use millpond_wire_payload::{Encoding, Number as _, Payload, PayloadError, Reader};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::{Answer, Wrong};

/// Reads the numbers under `field`.
pub(super) fn read(field: &str, answer: Answer<'_>, numbers: &mut Vec<f32>) -> Result<(), Wrong> {
    numbers.clear();
    let unreadable = |error: &dyn fmt::Display| Wrong::Unreadable(error.to_string());
    let found = match answer {
        Answer::Json(bytes) => {
            let mut reader = serde_json::Deserializer::from_slice(bytes);
            let name = field;
            let found = reader.deserialize_map(Field { name, numbers });
            found
                .and_then(|found| reader.end().map(|()| found))
                .map_err(|error| unreadable(&error))?
        }
        Answer::Msgpack(bytes) => read_msgpack(field, bytes, numbers).map_err(|error| unreadable(&error))?,
        Answer::Bytes(_) | Answer::Floats(_) => {
            return Err(Wrong::Unreadable("it is neither JSON nor msgpack".into()));
        }
    };
    found.ok_or(Wrong::NoField)
}

fn read_msgpack(field: &str, bytes: &[u8], numbers: &mut Vec<f32>) -> Result<Option<()>, PayloadError> {
    let mut found = None;
    Payload::new(Encoding::Msgpack, bytes)?.read(|reader| {
        reader.map("a map", |reader, key| {
            if key != field.as_bytes() {
                return reader.skip();
            }
            if found.replace(()).is_some() {
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

/// Reads the numbers of one field of a map and skips the others.
struct Field<'n, 'v> {
    name: &'n str,
    numbers: &'v mut Vec<f32>,
}

impl<'de> Visitor<'de> for Field<'_, '_> {
    /// Whether the field was there.
    type Value = Option<()>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(Is(self.name))? {
            if !is_it {
                map.next_value::<IgnoredAny>()?;
            } else if found.replace(()).is_some() {
                return Err(A::Error::custom(format!("`{}` is there twice", self.name)));
            } else {
                map.next_value_seed(Numbers(self.numbers))?;
            }
        }
        Ok(found)
    }
}

/// Whether a key is the one that is looked for.
struct Is<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<bool, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// Reads an array of numbers into a vector.
struct Numbers<'v>(&'v mut Vec<f32>);

impl<'de> DeserializeSeed<'de> for Numbers<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Numbers<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers")
    }
    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(number) = list.next_element::<f32>()? {
            self.0.push(number);
        }
        Ok(())
    }
}
