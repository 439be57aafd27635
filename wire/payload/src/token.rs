//! What the reader finds: one value, or the beginning of one that holds others.
//! Its invariant: every kind has a name for messages.

use crate::PayloadError;

/// A value, or the beginning of one that holds others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Token<'a> {
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
    Text(&'a str),
    /// msgpack bin; or text that is not UTF-8, as old writers send bytes.
    Bytes(&'a [u8]),
    /// An array of so many items, which follow; then [`Reader::leave`].
    Array(usize),
    /// A map of so many entries, which follow; then [`Reader::leave`].
    Map(usize),
}

impl Token<'_> {
    /// What it is, for messages.
    pub fn kind(self) -> &'static str {
        match self {
            Token::Nil => "null",
            Token::Bool(_) => "a boolean",
            Token::UInt(_) => "an integer",
            Token::Int(_) => "a negative integer",
            Token::Float(_) => "a floating-point number",
            Token::Text(_) => "text",
            Token::Bytes(_) => "bytes",
            Token::Array(_) => "an array",
            Token::Map(_) => "a map",
        }
    }

    /// The error where something else belongs.
    #[cold]
    pub fn is_not(self, expected: impl Into<String>) -> PayloadError {
        PayloadError::invalid(self.kind(), expected)
    }
}
