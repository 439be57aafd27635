//! JSON as the msgpack that says the same, so that one reader reads both.
//!
//! serde_json reads the text, this writes what it finds. Its invariants: depth and number of values are bounded as they are
//! in msgpack; and what it wrote needs no more checks, but that keys may occur twice.

use crate::reader::{LEVELS_MAX, VALUES_MAX, too_deep, too_many};
use crate::{Encoder, Encoding, PayloadError, Read};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Reads one JSON value and nothing behind it.
pub(crate) fn to_msgpack(json: &[u8]) -> Read<Vec<u8>> {
    let (mut out, mut values_left) = (Vec::with_capacity(json.len() + 16), VALUES_MAX);
    let walk = Walk {
        out: &mut out,
        values_left: &mut values_left,
        levels_left: LEVELS_MAX,
    };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    walk.deserialize(&mut deserializer)
        .and_then(|()| deserializer.end())
        .map_err(|error| PayloadError::malformed(Encoding::Json, error.to_string()))?;
    Ok(out)
}

/// Writes the value that comes next.
struct Walk<'w> {
    out: &'w mut Vec<u8>,
    values_left: &'w mut usize,
    levels_left: usize,
}

impl Walk<'_> {
    fn write<E>(self, write: impl FnOnce(&mut Encoder<'_>)) -> Result<(), E> {
        write(&mut Encoder::new(self.out, Encoding::Msgpack, false));
        Ok(())
    }

    /// What comes next inside an array or a map.
    fn inside(&mut self) -> Walk<'_> {
        Walk {
            out: self.out,
            values_left: self.values_left,
            levels_left: self.levels_left,
        }
    }

    /// Begins an array or a map; returns where it is to be told how much it holds.
    fn open<E: Error>(&mut self, tag: u8) -> Result<usize, E> {
        let left = self.levels_left.checked_sub(1);
        self.levels_left = left.ok_or_else(|| E::custom(too_deep()))?;
        self.out.push(tag);
        self.out.extend_from_slice(&[0; 4]);
        Ok(self.out.len() - 4)
    }

    fn close(self, at: usize, holds: u32) {
        if let Some(place) = self.out.get_mut(at..at + 4) {
            place.copy_from_slice(&holds.to_be_bytes());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let left = self.values_left.checked_sub(1);
        *self.values_left = left.ok_or_else(|| D::Error::custom(too_many()))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        self.write(|out| out.nil())
    }
    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.write(|out| out.bool(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.write(|out| out.uint(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.write(|out| out.int(value))
    }
    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.write(|out| out.f64(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.write(|out| out.text(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<(), A::Error> {
        let (at, mut items) = (self.open(0xdd)?, 0);
        while access.next_element_seed(self.inside())?.is_some() {
            items += 1;
        }
        self.close(at, items);
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<(), A::Error> {
        let (at, mut entries) = (self.open(0xdf)?, 0);
        while access.next_key_seed(Key(self.out))?.is_some() {
            access.next_value_seed(self.inside())?;
            entries += 1;
        }
        self.close(at, entries);
        Ok(())
    }
}

/// Writes a map's key.
struct Key<'w>(&'w mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text key")
    }
    fn visit_str<E>(self, key: &str) -> Result<(), E> {
        Encoder::new(self.0, Encoding::Msgpack, false).text(key);
        Ok(())
    }
}
