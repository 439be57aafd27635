//! `ordered.put`: `{table?, entries: [[key, value]], if_version?, if_absent?}` →
//! `{versions: [uint], durability: "memory" | "logged" | "synced"}`.
//! Its invariant: a put is whole or not at all; the answer names what it survives.

use crate::frame::{Encoder, FieldError, Fields, Map, Reserved, Value};
use std::borrow::Cow;

/// A key and its value.
pub type Entry<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// A decoded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'a> {
    /// The store; the default one when absent.
    pub table: Option<Cow<'a, str>>,
    /// What to write.
    pub entries: Vec<Entry<'a>>,
    /// Write only if every key is at this version.
    pub if_version: Option<u64>,
    /// Write only if every key is absent.
    pub if_absent: bool,
}

impl<'a> Call<'a> {
    /// Reads the payload's map.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'a>) -> Result<(Self, Reserved<'a>), FieldError> {
        let (mut fields, reserved) = Fields::root(map)?;
        let table = fields.optional_text("table")?;
        let mut entries = Vec::new();
        for (at, entry) in fields
            .array("entries", "an array of [key, value] pairs")?
            .into_iter()
            .enumerate()
        {
            entries.push(decode_entry(&fields, at, entry)?);
        }
        let if_version = fields.optional_uint("if_version", u64::MAX)?;
        let if_absent = fields.optional_bool("if_absent")?.unwrap_or(false);
        fields.finish()?;
        Ok((
            Call {
                table,
                entries,
                if_version,
                if_absent,
            },
            reserved,
        ))
    }

    /// Writes the payload's map.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        out.map(
            1 + usize::from(self.table.is_some())
                + usize::from(self.if_version.is_some())
                + usize::from(self.if_absent),
        );
        if let Some(table) = &self.table {
            out.key("table");
            out.text(table);
        }
        out.key("entries");
        out.array(self.entries.len());
        for (key, value) in &self.entries {
            out.array(2);
            out.bytes(key);
            out.bytes(value);
            out.end_array();
        }
        out.end_array();
        if let Some(version) = self.if_version {
            out.key("if_version");
            out.uint(version);
        }
        if self.if_absent {
            out.key("if_absent");
            out.bool(true);
        }
        out.end_map();
    }
}

/// Reads one `[key, value]` of the array "entries".
pub(crate) fn decode_entry<'a>(
    fields: &Fields<'a>,
    at: usize,
    entry: Value<'a>,
) -> Result<Entry<'a>, FieldError> {
    let path = format!("entries[{at}]");
    let pair: [Value<'a>; 2] = match entry {
        Value::Array(items) => items.try_into().map_err(|items: Vec<_>| {
            FieldError::invalid(&path, format!("an array of {}", items.len()), "[key, value]")
        })?,
        other => return Err(FieldError::invalid(path, other.kind(), "[key, value]")),
    };
    let [key, value] = pair;
    Ok((fields.as_bytes(&path, key)?, fields.as_bytes(&path, value)?))
}

/// Writes the answer.
pub fn encode_answer(out: &mut Encoder<'_>, versions: &[u64], durability: &str) {
    out.map(2);
    out.key("versions");
    out.array(versions.len());
    versions.iter().for_each(|version| out.uint(*version));
    out.end_array();
    out.key("durability");
    out.text(durability);
    out.end_map();
}

/// What an answer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The version each entry got, in the call's order.
    pub versions: Vec<u64>,
    /// What the put survives: "memory", "logged" or "synced".
    pub durability: String,
}

impl Answer {
    /// Reads the answer.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'_>) -> Result<Answer, FieldError> {
        let (mut fields, _) = Fields::root(map)?;
        let versions = fields.required("versions", "an array of versions")?;
        let versions = fields.as_u64s("versions", versions)?;
        let durability = fields.text("durability")?.into_owned();
        Ok(Answer { versions, durability })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::frame::{Encoding, decode_map};

    #[test]
    fn both_directions_round_trip() {
        let entry: Entry<'_> = (Cow::Borrowed(b"k"), Cow::Borrowed(&[0, 1, 255]));
        let call = Call {
            table: None,
            entries: vec![entry],
            if_version: Some(4),
            if_absent: true,
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
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            encode_answer(
                &mut Encoder::new(&mut bytes, encoding, false),
                &[1, u64::MAX],
                "synced",
            );
            let found = Answer::decode(decode_map(encoding, &bytes).unwrap()).unwrap();
            assert_eq!(
                found,
                Answer {
                    versions: vec![1, u64::MAX],
                    durability: "synced".to_owned()
                }
            );
        }
    }

    #[test]
    fn pairs_are_pairs() {
        let map = decode_map(Encoding::Json, br#"{"entries": [["a"]]}"#).unwrap();
        let error = Call::decode(map).unwrap_err().to_string();
        assert_eq!(
            error,
            "key \"entries[0]\" is an array of 1; expected [key, value]"
        );
    }
}
