//! `ordered.scan`: `{table?, start?, end?, prefix?, limit: uint ≤ 10,000, cursor?}` →
//! `{entries: [[key, value]], cursor?}`. Start is inclusive, end exclusive; a cursor goes on where an answer stopped.
//! Its invariant: an answer without a cursor is the end of the range.

use crate::frame::{Encoder, FieldError, Fields, Map, Reserved, Value};
use crate::ordered_put::{Entry, decode_entry};
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
        let limit = fields.optional_uint("limit", u64::MAX)?;
        // A page of nothing would go on at its own start for ever.
        if let Some(limit) = limit.filter(|limit| !(1..=LIMIT_MAX).contains(limit)) {
            let expected = format!("an integer from 1 to {LIMIT_MAX}");
            return Err(FieldError::invalid(
                fields.at("limit"),
                limit.to_string(),
                expected,
            ));
        }
        let limit = limit.ok_or_else(|| FieldError::Missing {
            key: fields.at("limit"),
            expected: format!("an integer from 1 to {LIMIT_MAX}"),
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

/// What an answer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Keys and values, ascending.
    pub entries: Vec<Entry<'a>>,
    /// Where the next call goes on; `None` at the end of the range.
    pub cursor: Option<Cow<'a, [u8]>>,
}

impl<'a> Answer<'a> {
    /// Reads the answer.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'a>) -> Result<Self, FieldError> {
        let (mut fields, _) = Fields::root(map)?;
        let mut entries = Vec::new();
        for (at, entry) in fields
            .array("entries", "an array of [key, value] pairs")?
            .into_iter()
            .enumerate()
        {
            entries.push(decode_entry(&fields, at, entry)?);
        }
        let cursor = fields.optional("cursor");
        let cursor = cursor
            .map(|cursor| fields.as_bytes("cursor", cursor))
            .transpose()?;
        Ok(Answer { entries, cursor })
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Answer<'static> {
        let own = |bytes: Cow<'_, [u8]>| -> Cow<'static, [u8]> { Cow::Owned(bytes.into_owned()) };
        Answer {
            entries: self
                .entries
                .into_iter()
                .map(|(key, value)| (own(key), own(value)))
                .collect(),
            cursor: self.cursor.map(own),
        }
    }
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
    fn answers_round_trip() {
        let entry: Entry<'_> = (Cow::Borrowed(b"k"), Cow::Borrowed(&[0, 255]));
        for cursor in [None, Some(&b"l"[..])] {
            for encoding in [Encoding::Msgpack, Encoding::Json] {
                let mut bytes = Vec::new();
                encode_answer(
                    &mut Encoder::new(&mut bytes, encoding, false),
                    std::slice::from_ref(&entry),
                    cursor,
                );
                let found = Answer::decode(decode_map(encoding, &bytes).unwrap()).unwrap();
                let expected = Answer {
                    entries: vec![entry.clone()],
                    cursor: cursor.map(Cow::Borrowed),
                };
                assert_eq!(found, expected);
                assert_eq!(found.into_owned(), expected);
            }
        }
    }

    #[test]
    fn limits_are_needed_and_bounded() {
        for (json, expected) in [
            ("{}", "\"limit\" is missing"),
            (r#"{"limit": 10001}"#, "from 1 to 10000"),
        ] {
            let error = Call::decode(decode_map(Encoding::Json, json.as_bytes()).unwrap())
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
