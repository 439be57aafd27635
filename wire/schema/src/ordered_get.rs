//! `ordered.get`: `{table?, keys: [bin]}` → `{values: [bin or nil], versions: [uint]}`.
//! Its invariant: the answer has one entry a key, in the call's order; an absent key is nil with version 0.

use crate::frame::{Encoder, FieldError, Fields, Map, Reserved, Value};
use std::borrow::Cow;

/// A decoded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'a> {
    /// The store; the default one when absent.
    pub table: Option<Cow<'a, str>>,
    /// Keys to read.
    pub keys: Vec<Cow<'a, [u8]>>,
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
        let mut keys = Vec::new();
        for (at, key) in fields.array("keys", "an array of keys")?.into_iter().enumerate() {
            keys.push(fields.as_bytes(&format!("keys[{at}]"), key)?);
        }
        let base64 = fields.base64();
        fields.finish()?;
        Ok((Call { table, keys, base64 }, reserved))
    }

    /// Writes the payload's map.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        out.map(1 + usize::from(self.table.is_some()));
        if let Some(table) = &self.table {
            out.key("table");
            out.text(table);
        }
        out.key("keys");
        out.array(self.keys.len());
        self.keys.iter().for_each(|key| out.bytes(key));
        out.end_array();
        out.end_map();
    }
}

/// Writes the answer: value and version of each key, `None` where it is absent.
pub fn encode_answer<V: AsRef<[u8]>>(out: &mut Encoder<'_>, found: &[Option<(V, u64)>]) {
    out.map(2);
    out.key("values");
    out.array(found.len());
    for entry in found {
        match entry {
            Some((value, _)) => out.bytes(value.as_ref()),
            None => out.nil(),
        }
    }
    out.end_array();
    out.key("versions");
    out.array(found.len());
    found
        .iter()
        .for_each(|entry| out.uint(entry.as_ref().map_or(0, |(_, version)| *version)));
    out.end_array();
    out.end_map();
}

/// A value and its version.
pub type Versioned<'a> = (Cow<'a, [u8]>, u64);

/// Reads the answer: value and version of each key, `None` where it is absent.
///
/// # Errors
/// [`FieldError`] naming the key.
pub fn decode_answer(map: Map<'_>) -> Result<Vec<Option<Versioned<'_>>>, FieldError> {
    let (mut fields, _) = Fields::root(map)?;
    let values = fields.array("values", "an array of values")?;
    let versions = fields.required("versions", "an array of versions")?;
    let versions = fields.as_u64s("versions", versions)?;
    if values.len() != versions.len() {
        let found = format!("{} versions", versions.len());
        return Err(FieldError::invalid(
            "versions",
            found,
            format!("one for each of {} values", values.len()),
        ));
    }
    let decode = |(at, (value, version))| match value {
        Value::Nil => Ok(None),
        value => Ok(Some((fields.as_bytes(&format!("values[{at}]"), value)?, version))),
    };
    values.into_iter().zip(versions).enumerate().map(decode).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::frame::{Encoding, decode_map};

    #[test]
    fn both_directions_round_trip() {
        let call = Call {
            table: Some("events".into()),
            keys: vec![Cow::Borrowed(b"a"), Cow::Borrowed(&[0, 255])],
            base64: false,
        };
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            call.encode(&mut Encoder::new(&mut bytes, encoding, false));
            assert_eq!(
                Call::decode(decode_map(encoding, &bytes).unwrap()).unwrap().0,
                call
            );
        }
        let mut bytes = Vec::new();
        encode_answer(
            &mut Encoder::new(&mut bytes, Encoding::Json, false),
            &[Some((b"ab", 7)), None],
        );
        assert_eq!(bytes, br#"{"values":[[97,98],null],"versions":[7,0]}"#);
    }

    #[test]
    fn answers_round_trip() {
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            encode_answer(
                &mut Encoder::new(&mut bytes, encoding, false),
                &[Some((&[0, 255][..], 7)), None, Some((b"", u64::MAX))],
            );
            let found = decode_answer(decode_map(encoding, &bytes).unwrap()).unwrap();
            let expected: Vec<Option<(Cow<'_, [u8]>, u64)>> = vec![
                Some((Cow::Borrowed(&[0, 255]), 7)),
                None,
                Some((Cow::Borrowed(b""), u64::MAX)),
            ];
            assert_eq!(found, expected);
        }
        let map = decode_map(Encoding::Json, br#"{"values": [null], "versions": []}"#).unwrap();
        let error = decode_answer(map).unwrap_err().to_string();
        assert_eq!(
            error,
            "key \"versions\" is 0 versions; expected one for each of 1 values"
        );
    }

    #[test]
    fn text_keys_are_their_utf8() {
        let map = decode_map(Encoding::Json, br#"{"keys": ["u/1", [1, 2]]}"#).unwrap();
        assert_eq!(Call::decode(map).unwrap().0.keys, [&b"u/1"[..], &[1, 2]]);
        let map = decode_map(Encoding::Json, br#"{"keys": [1.5]}"#).unwrap();
        let error = Call::decode(map).unwrap_err().to_string();
        assert!(
            error.contains("keys[0]") && error.contains("floating-point"),
            "{error}"
        );
    }
}
