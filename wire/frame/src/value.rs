//! The tree a payload decodes to: one shape for msgpack and JSON.
//!
//! It borrows text and bytes from the payload. It is not a schema: methods take their keys from it through `Fields`.
//! Its invariant: a tree never holds more than [`VALUES_MAX`] values, so that a small payload cannot become a large tree.

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

/// Values one payload may hold: 32 MiB of tree at the most.
///
/// As many as 8 MiB of JSON (the default of `server.frame_bytes_max`) hold numbers of seven digits, and more than twice what
/// 10,000 samples of 40 features have. Tiny values beyond that only keep a net thread from its other connections; larger
/// blocks of numbers travel as bin or base64, which are one value.
pub const VALUES_MAX: usize = 1 << 20;
/// Levels of maps and arrays accepted in either encoding, the payload's own map among them.
pub(crate) const LEVELS_MAX: usize = 64;

/// One value of a payload.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// nil, null
    Nil,
    /// true, false
    Bool(bool),
    /// A whole number not below zero.
    UInt(u64),
    /// A whole number below zero.
    Int(i64),
    /// A number with a fraction, an exponent, or more than 64 bits.
    Float(f64),
    /// UTF-8 text.
    Text(Cow<'a, str>),
    /// msgpack bin.
    Bytes(Cow<'a, [u8]>),
    /// A list.
    Array(Vec<Value<'a>>),
    /// A map with text keys.
    Map(Map<'a>),
}

/// A map in the order it was written; keys are text and occur once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Map<'a>(pub Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Map<'a> {
    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }
}

impl Value<'_> {
    /// What it is, for messages: "an array of 3", "text".
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Nil => "null",
            Value::Bool(_) => "a boolean",
            Value::UInt(_) => "an integer",
            Value::Int(_) => "a negative integer",
            Value::Float(_) => "a floating-point number",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Array(_) => "an array",
            Value::Map(_) => "a map",
        }
    }
}

/// Decodes one value, counting down `budget`.
#[derive(Clone, Copy)]
pub(crate) struct Seed<'b> {
    pub(crate) budget: &'b Cell<usize>,
    /// Levels of maps and arrays that the value may have.
    pub(crate) levels: usize,
}

impl Seed<'_> {
    /// For what is in a map or an array.
    fn inside<E: serde::de::Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1).ok_or_else(|| {
            E::custom(format_args!(
                "maps and arrays are nested more than {LEVELS_MAX} deep"
            ))
        })?;
        Ok(Seed { levels, ..self })
    }

    /// Refuses an array or a map that announces more than the payload may still hold, before any of it is read. Returns what is
    /// announced, 0 where nothing is.
    fn announced<E: serde::de::Error>(self, hint: Option<usize>) -> Result<usize, E> {
        let announced = hint.unwrap_or(0);
        if announced > self.budget.get() {
            return Err(too_many());
        }
        Ok(announced)
    }
}

fn too_many<E: serde::de::Error>() -> E {
    E::custom(format_args!(
        "more than {VALUES_MAX} values in one payload; send blocks of numbers as bin or base64, or split the call"
    ))
}

impl<'de> serde::de::DeserializeSeed<'de> for Seed<'_> {
    type Value = Value<'de>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value<'de>, D::Error> {
        let left = self.budget.get();
        if left == 0 {
            return Err(too_many());
        }
        self.budget.set(left - 1);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nil, a boolean, a number, text, bytes, an array or a map")
    }
    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Nil)
    }
    fn visit_none<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Nil)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(Value::UInt(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
        Ok(u64::try_from(value).map_or(Value::Int(value), Value::UInt))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value<'de>, E> {
        Ok(Value::Float(value))
    }
    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(value)))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(value.to_owned())))
    }
    fn visit_borrowed_bytes<E>(self, value: &'de [u8]) -> Result<Value<'de>, E> {
        Ok(Value::Bytes(Cow::Borrowed(value)))
    }
    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value<'de>, E> {
        Ok(Value::Bytes(Cow::Owned(value.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
        let inside = self.inside()?;
        // The announced length is a hint that may lie: it is capped by what one reallocation costs.
        let mut items = Vec::with_capacity(inside.announced(access.size_hint())?.min(64));
        while let Some(item) = access.next_element_seed(inside)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
        let inside = self.inside()?;
        let mut entries: Vec<(Cow<'de, str>, Value<'de>)> =
            Vec::with_capacity(inside.announced(access.size_hint())?.min(16));
        while let Some(key) = access.next_key_seed(KeySeed)? {
            let value = access.next_value_seed(inside)?;
            entries.push((key, value));
        }
        refuse_twins(&entries).map_err(A::Error::custom)?;
        Ok(Value::Map(Map(entries)))
    }
}

/// Refuses a key that occurs twice: which of the two counts would be anybody's guess.
fn refuse_twins(entries: &[(Cow<'_, str>, Value<'_>)]) -> Result<(), String> {
    let twin = if entries.len() <= 16 {
        entries
            .iter()
            .enumerate()
            .find(|(at, (key, _))| entries[..*at].iter().any(|(other, _)| other == key))
            .map(|(_, e)| e)
    } else {
        let mut seen = std::collections::HashSet::with_capacity(entries.len());
        entries.iter().find(|(key, _)| !seen.insert(key.as_ref()))
    };
    twin.map_or(Ok(()), |(key, _)| Err(format!("key \"{key}\" occurs twice")))
}

struct KeySeed;

impl<'de> serde::de::DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Cow<'de, str>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text key")
    }
    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_owned()))
    }
}
