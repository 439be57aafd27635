//! One payload in either encoding, ready to be read.
//!
//! Its invariant: a payload that was read was one map, whole and valid, with nothing behind it.

use crate::{Encoding, Map, PayloadError, Problem, Read, Reader, Value, json};
use std::borrow::Cow;

/// A payload: msgpack as it came, or JSON that has become msgpack. What is read borrows from it.
#[derive(Debug)]
pub struct Payload<'p> {
    encoding: Encoding,
    msgpack: Cow<'p, [u8]>,
}

impl<'p> Payload<'p> {
    /// Takes a payload's bytes. JSON is parsed here, msgpack when it is read.
    ///
    /// # Errors
    /// [`Problem::Malformed`] for what is no JSON.
    #[inline]
    pub fn new(encoding: Encoding, bytes: &'p [u8]) -> Read<Payload<'p>> {
        let msgpack = match encoding {
            Encoding::Msgpack => Cow::Borrowed(bytes),
            Encoding::Json => Cow::Owned(json::to_msgpack(bytes)?),
        };
        Ok(Payload { encoding, msgpack })
    }

    /// A reader at the beginning.
    #[inline]
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self.encoding, &self.msgpack)
    }

    /// Reads the payload with `read`, which leaves nothing of it.
    ///
    /// # Errors
    /// What `read` says; and first of all what makes it no map, whole and valid.
    #[inline]
    pub fn read<'r, T>(&'r self, read: impl FnOnce(&mut Reader<'r>) -> Read<T>) -> Read<T> {
        let mut reader = self.reader();
        read(&mut reader)
            .and_then(|value| reader.end().map(|()| value))
            .map_err(|error| self.judged(error))
    }

    /// The error for a payload that was refused: what a key holds matters in a valid payload only.
    #[cold]
    fn judged(&self, error: PayloadError) -> PayloadError {
        match tree(self.reader()) {
            Err(first) if error.is_of_a_key() => first,
            _ => error,
        }
    }
}

/// Decodes a payload, which must be exactly one map, to a tree: for what follows no schema.
///
/// # Errors
/// As [`Payload::new`] and [`Payload::read`].
pub fn decode_map(encoding: Encoding, bytes: &[u8]) -> Read<Map<'_>> {
    match encoding {
        Encoding::Msgpack => tree(Reader::new(encoding, bytes)),
        Encoding::Json => {
            let msgpack = json::to_msgpack(bytes)?;
            Ok(tree(Reader::new(encoding, &msgpack))?.into_owned())
        }
    }
}

fn tree(mut reader: Reader<'_>) -> Read<Map<'_>> {
    let value = Value::read(&mut reader)?;
    reader.end()?;
    match value {
        Value::Map(map) => Ok(map),
        other => Err(Problem::RootNotMap(other.kind()).into()),
    }
}
