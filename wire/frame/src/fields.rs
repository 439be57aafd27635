//! Takes the keys of one payload by name and type, and refuses what is left over.
//!
//! It is not a method's schema; it is what schemas read with. Its invariant: every error names the key, what was
//! found and what belongs there.

use crate::{FieldError, Map, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

/// Bytes of a trace that are kept. A traceparent has 55; what is longer is none, and would stand in log lines at its full length.
const TRACE_BYTES_MAX: usize = 128;

/// The beginning of a trace: as many whole characters as are kept.
pub(crate) fn kept_trace(text: &str) -> &str {
    &text[..text.floor_char_boundary(TRACE_BYTES_MAX)]
}

/// The keys any method may carry (they start with `_`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reserved<'a> {
    /// `_deadline_ms`: remaining budget, counted from the server's read.
    pub deadline_ms: Option<u64>,
    /// `_trace`: a W3C traceparent; cut after 128 bytes.
    pub trace: Option<Cow<'a, str>>,
}

/// The entries of a map that have not been taken yet.
pub struct Fields<'a> {
    entries: Vec<(Cow<'a, str>, Value<'a>)>,
    /// Where this map stands in the payload, for messages: "" or "lookups[2].".
    path: String,
    known: Vec<&'static str>,
    base64: bool,
}

impl<'a> Fields<'a> {
    /// The root map of a payload: takes the reserved keys and `base64` out of it.
    ///
    /// # Errors
    /// [`FieldError`] when a reserved key has the wrong type.
    pub fn root(map: Map<'a>) -> Result<(Self, Reserved<'a>), FieldError> {
        let mut fields = Fields {
            entries: map.0,
            path: String::new(),
            known: Vec::new(),
            base64: false,
        };
        let reserved = Reserved {
            deadline_ms: fields.optional_uint("_deadline_ms", u64::MAX)?,
            trace: fields.optional_text("_trace")?.map(|trace| match trace {
                Cow::Borrowed(text) => Cow::Borrowed(kept_trace(text)),
                Cow::Owned(text) => Cow::Owned(kept_trace(&text).to_owned()),
            }),
        };
        // Whoever checks tokens has looked at it in the map; here it is only known, and kept nowhere.
        fields.optional_text("_token")?;
        fields.base64 = fields.optional_bool("base64")?.unwrap_or(false);
        fields.known.clear();
        Ok((fields, reserved))
    }

    /// A map inside the payload, at `path`.
    pub fn nested(&self, map: Map<'a>, path: &str) -> Fields<'a> {
        Fields {
            entries: map.0,
            path: format!("{}{path}.", self.path),
            known: Vec::new(),
            base64: self.base64,
        }
    }

    /// Whether the payload asked for base64 text instead of arrays of numbers.
    pub fn base64(&self) -> bool {
        self.base64
    }

    /// Whether `key` is there and not yet taken.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, _)| name == key)
    }

    /// Takes any value.
    pub fn optional(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.known.push(key);
        let at = self.entries.iter().position(|(name, _)| name == key)?;
        match self.entries.swap_remove(at).1 {
            Value::Nil => None,
            value => Some(value),
        }
    }

    /// Takes a value that must be there.
    ///
    /// # Errors
    /// [`FieldError::Missing`].
    pub fn required(&mut self, key: &'static str, expected: &str) -> Result<Value<'a>, FieldError> {
        self.optional(key).ok_or_else(|| FieldError::Missing {
            key: self.at(key),
            expected: expected.to_owned(),
        })
    }

    /// Takes text.
    ///
    /// # Errors
    /// [`FieldError::Invalid`] for another type.
    pub fn optional_text(&mut self, key: &'static str) -> Result<Option<Cow<'a, str>>, FieldError> {
        match self.optional(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.invalid(key, &other, "text")),
        }
    }

    /// Takes text that must be there.
    ///
    /// # Errors
    /// [`FieldError`] when absent or of another type.
    pub fn text(&mut self, key: &'static str) -> Result<Cow<'a, str>, FieldError> {
        match self.required(key, "text")? {
            Value::Text(text) => Ok(text),
            other => Err(self.invalid(key, &other, "text")),
        }
    }

    /// Takes a whole number from 0 to `max`.
    ///
    /// # Errors
    /// [`FieldError::Invalid`] for another type or a larger number.
    pub fn optional_uint(&mut self, key: &'static str, max: u64) -> Result<Option<u64>, FieldError> {
        match self.optional(key) {
            None => Ok(None),
            Some(Value::UInt(value)) if value <= max => Ok(Some(value)),
            Some(Value::UInt(value)) => Err(FieldError::invalid(
                self.at(key),
                value.to_string(),
                format!("an integer from 0 to {max}"),
            )),
            Some(other) => Err(self.invalid(key, &other, "an integer not below 0")),
        }
    }

    /// Takes a boolean.
    ///
    /// # Errors
    /// [`FieldError::Invalid`] for another type.
    pub fn optional_bool(&mut self, key: &'static str) -> Result<Option<bool>, FieldError> {
        match self.optional(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.invalid(key, &other, "true or false")),
        }
    }

    /// Takes an array.
    ///
    /// # Errors
    /// [`FieldError`] when absent or of another type.
    pub fn array(&mut self, key: &'static str, expected: &str) -> Result<Vec<Value<'a>>, FieldError> {
        match self.required(key, expected)? {
            Value::Array(items) => Ok(items),
            other => Err(self.invalid(key, &other, expected)),
        }
    }

    /// Takes a map.
    ///
    /// # Errors
    /// [`FieldError`] when absent or of another type.
    pub fn map(&mut self, key: &'static str, expected: &str) -> Result<Map<'a>, FieldError> {
        match self.required(key, expected)? {
            Value::Map(map) => Ok(map),
            other => Err(self.invalid(key, &other, expected)),
        }
    }

    /// Refuses what has not been taken.
    ///
    /// # Errors
    /// [`FieldError::Unknown`] naming the first such key and every known one.
    pub fn finish(self) -> Result<(), FieldError> {
        match self.entries.first() {
            None => Ok(()),
            Some((key, _)) => Err(FieldError::Unknown {
                key: self.at(key),
                known: match self.known.as_slice() {
                    [] => "_deadline_ms, _trace, _token".to_owned(),
                    known => format!("{} (and _deadline_ms, _trace, _token)", known.join(", ")),
                },
            }),
        }
    }

    /// The key with its path.
    pub fn at(&self, key: &str) -> String {
        format!("{}{key}", self.path)
    }

    /// The error for a value of the wrong type.
    pub fn invalid(&self, key: &str, found: &Value<'_>, expected: &str) -> FieldError {
        FieldError::invalid(self.at(key), found.kind(), expected)
    }

    /// A value as bytes: bin; text (its UTF-8, or base64 when the payload says so); or an array of numbers below 256.
    ///
    /// # Errors
    /// [`FieldError::Invalid`] naming `key`.
    pub fn as_bytes(&self, key: &str, value: Value<'a>) -> Result<Cow<'a, [u8]>, FieldError> {
        let expected =
            "bytes (in JSON: text, an array of numbers from 0 to 255, or base64 text with \"base64\": true)";
        match value {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Text(text) if self.base64 => self.decode_base64(key, &text).map(Cow::Owned),
            Value::Text(Cow::Borrowed(text)) => Ok(Cow::Borrowed(text.as_bytes())),
            Value::Text(Cow::Owned(text)) => Ok(Cow::Owned(text.into_bytes())),
            Value::Array(items) => items
                .iter()
                .map(|item| match item {
                    Value::UInt(byte @ 0..=255) => Ok(*byte as u8),
                    other => Err(self.invalid(key, other, expected)),
                })
                .collect::<Result<_, _>>()
                .map(Cow::Owned),
            other => Err(self.invalid(key, &other, expected)),
        }
    }

    /// A value as u64s: bin of 8 bytes each, little-endian; in JSON an array of numbers or base64 text.
    ///
    /// # Errors
    /// [`FieldError::Invalid`] naming `key`.
    pub fn as_u64s(&self, key: &str, value: Value<'_>) -> Result<Vec<u64>, FieldError> {
        let number = |item: &Value<'_>| match item {
            Value::UInt(value) => Some(*value),
            _ => None,
        };
        self.as_numbers(key, value, "u64", number, u64::from_le_bytes)
    }

    /// A value as u32s, in the same forms as [`Fields::as_u64s`].
    ///
    /// # Errors
    /// [`FieldError::Invalid`] naming `key`.
    pub fn as_u32s(&self, key: &str, value: Value<'_>) -> Result<Vec<u32>, FieldError> {
        let number = |item: &Value<'_>| match item {
            Value::UInt(value) => u32::try_from(*value).ok(),
            _ => None,
        };
        self.as_numbers(key, value, "u32", number, u32::from_le_bytes)
    }

    /// A value as numbers of `N` bytes each: bin, base64 text, or an array that `number` reads.
    ///
    /// # Errors
    /// [`FieldError::Invalid`] naming `key`.
    pub fn as_numbers<T, const N: usize>(
        &self,
        key: &str,
        value: Value<'_>,
        name: &str,
        number: impl Fn(&Value<'_>) -> Option<T>,
        from_le: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, FieldError> {
        let expected =
            || format!("{name} values: bin of {N} bytes each, little-endian (in JSON an array of numbers)");
        let bytes: Cow<'_, [u8]> = match &value {
            Value::Bytes(bytes) => Cow::Borrowed(bytes),
            Value::Text(text) if self.base64 => Cow::Owned(self.decode_base64(key, text)?),
            Value::Array(items) => {
                let read = |(at, item): (usize, &Value<'_>)| {
                    number(item).ok_or_else(|| {
                        FieldError::invalid(
                            format!("{}[{at}]", self.at(key)),
                            item.kind(),
                            format!("one {name}"),
                        )
                    })
                };
                return items.iter().enumerate().map(read).collect();
            }
            other => return Err(FieldError::invalid(self.at(key), other.kind(), expected())),
        };
        let (chunks, rest) = bytes.as_chunks::<N>();
        if !rest.is_empty() {
            return Err(FieldError::invalid(
                self.at(key),
                format!("{} bytes", bytes.len()),
                expected(),
            ));
        }
        Ok(chunks.iter().map(|chunk| from_le(*chunk)).collect())
    }

    fn decode_base64(&self, key: &str, text: &str) -> Result<Vec<u8>, FieldError> {
        STANDARD.decode(text).map_err(|error| {
            FieldError::invalid(self.at(key), format!("bad base64 ({error})"), "base64 text")
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Encoding, decode_map};

    fn fields(json: &str) -> Fields<'_> {
        Fields::root(decode_map(Encoding::Json, json.as_bytes()).unwrap())
            .unwrap()
            .0
    }

    #[test]
    fn keys_are_taken_and_leftovers_refused() {
        let mut f = fields(r#"{"table": "t", "_deadline_ms": 5, "limitt": 3}"#);
        assert_eq!(f.text("table").unwrap(), "t");
        let error = f.finish().unwrap_err().to_string();
        assert!(
            error.contains("\"limitt\" is unknown") && error.contains("table"),
            "{error}"
        );
    }

    #[test]
    fn a_trace_is_cut_at_the_end_of_a_character() {
        let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let check = |trace: &str, expected: &str| {
            // What has an escape is decoded into memory of its own.
            for (escape, shown) in [("", ""), ("\\n", "\n")] {
                let json = format!("{{\"_trace\": \"{escape}{trace}\"}}");
                let map = decode_map(Encoding::Json, json.as_bytes()).unwrap();
                let kept = Fields::root(map).unwrap().1.trace.unwrap();
                let whole = format!("{shown}{trace}");
                assert!(kept.len() <= 128 && whole.starts_with(&*kept), "{kept}");
                if escape.is_empty() {
                    assert_eq!(kept, expected);
                }
            }
        };
        check(traceparent, traceparent);
        check("", "");
        check(&"a".repeat(128), &"a".repeat(128));
        check(&"a".repeat(1 << 20), &"a".repeat(128));
        // The 64th of them would end behind the 128th byte.
        check(&format!("a{}", "é".repeat(500)), &format!("a{}", "é".repeat(63)));
    }

    #[test]
    fn wrong_types_are_named() {
        let mut f = fields(r#"{"table": 1, "limit": 11, "keys": [1, -2]}"#);
        assert_eq!(
            f.text("table").unwrap_err().to_string(),
            "key \"table\" is an integer; expected text"
        );
        assert_eq!(
            f.optional_uint("limit", 10).unwrap_err().to_string(),
            "key \"limit\" is 11; expected an integer from 0 to 10"
        );
        assert_eq!(
            f.text("name").unwrap_err().to_string(),
            "key \"name\" is missing; expected text"
        );
        let keys = f.required("keys", "keys").unwrap();
        assert_eq!(
            f.as_u64s("keys", keys).unwrap_err().to_string(),
            "key \"keys[1]\" is a negative integer; expected one u64"
        );
    }

    #[test]
    fn binary_blocks_have_three_forms() {
        for json in [
            r#"{"k": [1, 258]}"#,
            r#"{"base64": true, "k": "AQAAAAAAAAACAQAAAAAAAA=="}"#,
        ] {
            let mut f = fields(json);
            let value = f.optional("k").unwrap();
            assert_eq!(f.as_u64s("k", value).unwrap(), [1, 258]);
        }
        let f = fields("{}");
        assert_eq!(
            f.as_u64s("k", Value::Bytes(Cow::Borrowed(&[1, 0, 0, 0, 0, 0, 0, 0])))
                .unwrap(),
            [1]
        );
        assert!(f.as_u64s("k", Value::Bytes(Cow::Borrowed(&[1, 0]))).is_err());
        assert_eq!(
            f.as_bytes("k", Value::Text(Cow::Borrowed("ab")))
                .unwrap()
                .as_ref(),
            b"ab"
        );
    }
}
