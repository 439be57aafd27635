//! `ordered.scan`: `{table?, start?, end?, prefix?, limit: uint ≤ 10,000, cursor?}` →
//! `{entries: [[key, value]], cursor?}`. Start is inclusive, end exclusive; a cursor goes on where an answer stopped.
//! Its invariant: an answer without a cursor is the end of the range.

use crate::frame::{Encoder, FieldError, Fields, Map, Reserved, Value};
use std::borrow::Cow;

/// Entries one call may ask for.
pub const LIMIT_MAX: u64 = 10_000;

/// A decoded call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Call<'a> {
    /// The store; the default one when absent.
    pub table: Option<Cow<'a, str>>,
    /// First key, inclusive.
    pub start: Option<Cow<'a, [u8]>>,
    /// Last key, exclusive.
    pub end: Option<Cow<'a, [u8]>>,
    /// Keys that begin so.
    pub prefix: Option<Cow<'a, [u8]>>,
    /// Entries at the most.
    pub limit: usize,
    /// The cursor of the answer before.
    pub cursor: Option<Cow<'a, [u8]>>,
    /// Binary blocks of a JSON answer as base64.
    pub base64: bool,
}

impl<'a> Call<'a> {
    /// Reads the payload's map.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'a>) -> Result<(Self, Reserved<'a>), FieldError> {
        let (mut fields, reserved) = Fields::root(map)?;
        let table = fields.optional_text("table")?;
        let mut bytes = |key| -> Result<Option<Cow<'a, [u8]>>, FieldError> {
            let value: Option<Value<'a>> = fields.optional(key);
            value.map(|value| fields.as_bytes(key, value)).transpose()
        };
        let (start, end, prefix, cursor) =
            (bytes("start")?, bytes("end")?, bytes("prefix")?, bytes("cursor")?);
        let limit = fields.optional_uint("limit", LIMIT_MAX)?;
        let limit = limit.ok_or_else(|| FieldError::Missing {
            key: fields.at("limit"),
            expected: format!("an integer up to {LIMIT_MAX}"),
        })?;
        let base64 = fields.base64();
        fields.finish()?;
        Ok((
            Call {
                table,
                start,
                end,
                prefix,
                limit: limit as usize,
                cursor,
                base64,
            },
            reserved,
        ))
    }

    /// Writes the payload's map.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        let blocks = [
            ("start", &self.start),
            ("end", &self.end),
            ("prefix", &self.prefix),
            ("cursor", &self.cursor),
        ];
        let given = blocks.iter().filter(|(_, block)| block.is_some()).count();
        out.map(1 + usize::from(self.table.is_some()) + given);
        if let Some(table) = &self.table {
            out.key("table");
            out.text(table);
        }
        for (key, block) in blocks {
            if let Some(block) = block {
                out.key(key);
                out.bytes(block);
            }
        }
        out.key("limit");
        out.uint(self.limit as u64);
        out.end_map();
    }
}

/// Writes the answer.
pub fn encode_answer<B: AsRef<[u8]>>(out: &mut Encoder<'_>, entries: &[(B, B)], cursor: Option<&[u8]>) {
    out.map(1 + usize::from(cursor.is_some()));
    out.key("entries");
    out.array(entries.len());
    for (key, value) in entries {
        out.array(2);
        out.bytes(key.as_ref());
        out.bytes(value.as_ref());
        out.end_array();
    }
    out.end_array();
    if let Some(cursor) = cursor {
        out.key("cursor");
        out.bytes(cursor);
    }
    out.end_map();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::frame::{Encoding, decode_map};

    #[test]
    fn both_directions_round_trip() {
        let call = Call {
            prefix: Some(Cow::Borrowed(b"u/1/")),
            limit: 10,
            cursor: Some(Cow::Borrowed(&[1, 200])),
            ..Call::default()
        };
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            call.encode(&mut Encoder::new(&mut bytes, encoding, false));
            assert_eq!(
                Call::decode(decode_map(encoding, &bytes).unwrap()).unwrap().0,
                call
            );
        }
    }

    #[test]
    fn limits_are_needed_and_bounded() {
        for (json, expected) in [
            ("{}", "\"limit\" is missing"),
            (r#"{"limit": 10001}"#, "from 0 to 10000"),
        ] {
            let error = Call::decode(decode_map(Encoding::Json, json.as_bytes()).unwrap())
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
