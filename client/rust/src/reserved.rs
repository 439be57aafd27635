//! Puts `_deadline_ms`, `_priority` and `_token` into a payload that is already encoded.
//!
//! It is not a decoder: it looks at a map's header and its end, never at what lies between. Its invariant: a valid map
//! without the keys comes out as a valid map with them, every other byte of its entries unchanged.

use millpond_wire_schema::payload::{Encoder, Encoding};

/// Entries that a call gains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gained {
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) priority: Option<u8>,
}

impl Gained {
    fn entries(self) -> impl Iterator<Item = (&'static str, u64)> {
        let deadline = self.deadline_ms.map(|ms| ("_deadline_ms", ms));
        let priority = self.priority.map(|level| ("_priority", u64::from(level)));
        deadline.into_iter().chain(priority)
    }
}

/// The payload with these entries besides.
pub(crate) fn insert(encoding: Encoding, payload: &[u8], gained: Gained) -> Result<Vec<u8>, String> {
    match encoding {
        Encoding::Msgpack => insert_msgpack(payload, gained),
        Encoding::Json => insert_json(payload, gained),
    }
}

/// A msgpack payload with a token besides.
pub(crate) fn with_token(payload: &[u8], token: &str) -> Result<Vec<u8>, String> {
    insert_entries(payload, 1, |encoder| {
        encoder.key("_token");
        encoder.text(token);
    })
}

fn insert_msgpack(payload: &[u8], gained: Gained) -> Result<Vec<u8>, String> {
    insert_entries(payload, gained.entries().count(), |encoder| {
        for (key, number) in gained.entries() {
            encoder.key(key);
            encoder.uint(number);
        }
    })
}

/// So many new entries go first, right behind the header, which counts them.
fn insert_entries(
    payload: &[u8],
    count: usize,
    write: impl FnOnce(&mut Encoder<'_>),
) -> Result<Vec<u8>, String> {
    let (entries, body) = match payload {
        [tag @ 0x80..=0x8f, body @ ..] => (usize::from(tag & 0x0f), body),
        [0xde, a, b, body @ ..] => (usize::from(u16::from_be_bytes([*a, *b])), body),
        [0xdf, a, b, c, d, body @ ..] => (u32::from_be_bytes([*a, *b, *c, *d]) as usize, body),
        [] => return Err("the payload is empty; expected a msgpack map".to_owned()),
        [tag, ..] => {
            return Err(format!(
                "the payload begins with the byte {tag:#04x}; expected a msgpack map"
            ));
        }
    };
    let mut out = Vec::with_capacity(payload.len() + 48);
    let mut encoder = Encoder::new(&mut out, Encoding::Msgpack, false);
    encoder.begin_map(entries + count);
    write(&mut encoder);
    out.extend_from_slice(body);
    Ok(out)
}

/// The new entries go last, before the closing brace.
fn insert_json(payload: &[u8], gained: Gained) -> Result<Vec<u8>, String> {
    let inside = payload.trim_ascii();
    let inside = inside
        .strip_prefix(b"{")
        .and_then(|rest| rest.strip_suffix(b"}"))
        .ok_or("the payload does not run from { to }; expected a JSON object")?;
    let mut comma = if inside.trim_ascii().is_empty() { "" } else { "," };
    let mut out = Vec::with_capacity(payload.len() + 56);
    out.push(b'{');
    out.extend_from_slice(inside);
    for (key, number) in gained.entries() {
        out.extend_from_slice(format!("{comma}\"{key}\":{number}").as_bytes());
        comma = ",";
    }
    out.push(b'}');
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use millpond_wire_schema::payload::{Map, Value, decode_map};
    use proptest::prelude::*;

    /// `count` entries with keys "0", "1", …
    fn map(count: usize) -> Map<'static> {
        Map((0..count)
            .map(|at| (at.to_string().into(), Value::UInt(at as u64)))
            .collect())
    }

    fn encode(encoding: Encoding, map: &Map<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(&mut out, encoding, false).value(&Value::Map(map.clone()));
        out
    }

    fn deadline(ms: u64) -> Gained {
        Gained {
            deadline_ms: Some(ms),
            priority: None,
        }
    }

    fn check(encoding: Encoding, payload: &[u8], deadline_ms: u64) {
        let before = decode_map(encoding, payload).unwrap();
        for priority in [None, Some(7)] {
            let gained = Gained {
                priority,
                ..deadline(deadline_ms)
            };
            let out = insert(encoding, payload, gained).unwrap();
            let mut after = decode_map(encoding, &out).unwrap();
            for (key, number) in gained.entries() {
                let at = after.0.iter().position(|(found, _)| found == key).unwrap();
                assert_eq!(after.0.remove(at).1, Value::UInt(number));
            }
            assert_eq!(after, before);
        }
    }

    #[test]
    fn a_token_goes_beside_what_is_there() {
        let out = with_token(&encode(Encoding::Msgpack, &map(3)), "secret").unwrap();
        let mut after = decode_map(Encoding::Msgpack, &out).unwrap();
        assert_eq!(after.0.remove(0), ("_token".into(), Value::Text("secret".into())));
        assert_eq!(after, map(3));
    }

    #[test]
    fn every_size_of_map_header_counts_one_more() {
        for count in [0, 1, 14, 15, 16, 65_534, 65_535, 65_536] {
            for encoding in [Encoding::Msgpack, Encoding::Json] {
                check(encoding, &encode(encoding, &map(count)), 250);
            }
        }
        // Headers larger than their count needs are legal.
        check(Encoding::Msgpack, &[0xde, 0, 1, 0xa1, b'a', 1], 1);
        check(Encoding::Msgpack, &[0xdf, 0, 0, 0, 1, 0xa1, b'a', 1], u64::MAX);
    }

    #[test]
    fn json_keeps_its_spaces_and_braces() {
        check(Encoding::Json, b" { } \n", 7);
        check(Encoding::Json, br#"{"a": {"b": "}"}}  "#, 7);
        assert_eq!(
            insert(Encoding::Json, b"{}", deadline(5)).unwrap(),
            br#"{"_deadline_ms":5}"#
        );
        assert_eq!(
            insert(Encoding::Json, br#"{"a":1}"#, deadline(5)).unwrap(),
            br#"{"a":1,"_deadline_ms":5}"#
        );
    }

    #[test]
    fn what_is_no_map_is_named() {
        for (encoding, payload, expected) in [
            (Encoding::Msgpack, &b""[..], "is empty"),
            (
                Encoding::Msgpack,
                b"\x93\x01\x02\x03",
                "begins with the byte 0x93",
            ),
            (Encoding::Msgpack, b"\xde\x00", "begins with the byte 0xde"),
            (Encoding::Json, b"", "expected a JSON object"),
            (Encoding::Json, b"[1]", "expected a JSON object"),
            (Encoding::Json, b"{", "expected a JSON object"),
        ] {
            let error = insert(encoding, payload, deadline(1)).unwrap_err();
            assert!(
                error.contains(expected),
                "{error:?} does not contain {expected:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            for encoding in [Encoding::Msgpack, Encoding::Json] {
                let _ = insert(encoding, &bytes, deadline(1));
            }
        }

        #[test]
        fn any_map_gains_one_entry(entries in proptest::collection::btree_map("[^_]{0,8}", ".{0,8}", 0..40), ms in any::<u64>()) {
            let map = Map(entries.into_iter().map(|(key, value)| (key.into(), Value::Text(value.into()))).collect());
            for encoding in [Encoding::Msgpack, Encoding::Json] {
                check(encoding, &encode(encoding, &map), ms);
            }
        }
    }
}
