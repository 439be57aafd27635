//! A payload as a tree, for what follows no schema: a user's fields, answers in Python.
//!
//! It borrows text and bytes from the payload. Its invariant: a tree never holds more than `VALUES_MAX` values, so that a
//! small payload cannot become a large tree.

use crate::reader::VALUES_AT_ONCE;
use crate::{Read, Reader, Token};
use std::borrow::Cow;

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

    /// Its keys and values.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// Reads a map.
    pub fn read(reader: &mut Reader<'a>, expected: &str) -> Read<Map<'a>> {
        reader.named(expected, Value::read).map(Map)
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Map<'static> {
        let own = |(key, value): (Cow<'_, str>, Value<'_>)| (key.into_owned().into(), value.into_owned());
        Map(self.0.into_iter().map(own).collect())
    }
}

impl<'a> Value<'a> {
    /// Reads any value.
    pub fn read(reader: &mut Reader<'a>) -> Read<Value<'a>> {
        Ok(match reader.token()? {
            Token::Nil => Value::Nil,
            Token::Bool(value) => Value::Bool(value),
            Token::UInt(value) => Value::UInt(value),
            Token::Int(value) => Value::Int(value),
            Token::Float(value) => Value::Float(value),
            Token::Text(text) => Value::Text(Cow::Borrowed(text)),
            Token::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            Token::Array(len) => {
                let mut items = Vec::with_capacity(len.min(VALUES_AT_ONCE));
                for _ in 0..len {
                    items.push(Value::read(reader)?);
                }
                reader.leave();
                Value::Array(items)
            }
            Token::Map(len) => Value::Map(Map(reader.entries(len, Value::read)?)),
        })
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Nil => Value::Nil,
            Value::Bool(value) => Value::Bool(value),
            Value::UInt(value) => Value::UInt(value),
            Value::Int(value) => Value::Int(value),
            Value::Float(value) => Value::Float(value),
            Value::Text(text) => Value::Text(text.into_owned().into()),
            Value::Bytes(bytes) => Value::Bytes(bytes.into_owned().into()),
            Value::Array(items) => Value::Array(items.into_iter().map(Value::into_owned).collect()),
            Value::Map(map) => Value::Map(map.into_owned()),
        }
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Nil => Token::Nil,
            Value::Bool(value) => Token::Bool(*value),
            Value::UInt(value) => Token::UInt(*value),
            Value::Int(value) => Token::Int(*value),
            Value::Float(value) => Token::Float(*value),
            Value::Text(text) => Token::Text(text),
            Value::Bytes(bytes) => Token::Bytes(bytes),
            Value::Array(items) => Token::Array(items.len()),
            Value::Map(map) => Token::Map(map.0.len()),
        }
        .kind()
    }
}
