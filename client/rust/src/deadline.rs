//! Puts `_deadline_ms` into a payload that is already encoded.
//!
//! It is not a decoder: it looks at a map's header and its end, never at what lies between. Its invariant: a valid map
//! without the key comes out as a valid map with the key, every other byte of its entries unchanged.

use millpond_wire_schema::payload::{Encoder, Encoding};

const KEY: &str = "_deadline_ms";

/// The payload with `_deadline_ms` as one more entry.
pub(crate) fn insert(encoding: Encoding, payload: &[u8], deadline_ms: u64) -> Result<Vec<u8>, String> {
    match encoding {
        Encoding::Msgpack => insert_msgpack(payload, deadline_ms),
        Encoding::Json => insert_json(payload, deadline_ms),
    }
}

/// The new entry goes first, right behind the header, which counts one more.
fn insert_msgpack(payload: &[u8], deadline_ms: u64) -> Result<Vec<u8>, String> {
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
    let mut out = Vec::with_capacity(payload.len() + 32);
    let mut encoder = Encoder::new(&mut out, Encoding::Msgpack, false);
    encoder.begin_map(entries + 1);
    encoder.key(KEY);
    encoder.uint(deadline_ms);
    out.extend_from_slice(body);
    Ok(out)
}

/// The new entry goes last, before the closing brace.
fn insert_json(payload: &[u8], deadline_ms: u64) -> Result<Vec<u8>, String> {
    let inside = payload.trim_ascii();
    let inside = inside
        .strip_prefix(b"{")
        .and_then(|rest| rest.strip_suffix(b"}"))
        .ok_or("the payload does not run from { to }; expected a JSON object")?;
    let comma = if inside.trim_ascii().is_empty() { "" } else { "," };
    let mut out = Vec::with_capacity(payload.len() + 40);
    out.push(b'{');
    out.extend_from_slice(inside);
    out.extend_from_slice(format!("{comma}\"{KEY}\":{deadline_ms}}}").as_bytes());
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

    fn check(encoding: Encoding, payload: &[u8], deadline_ms: u64) {
        let before = decode_map(encoding, payload).unwrap();
        let out = insert(encoding, payload, deadline_ms).unwrap();
        let mut after = decode_map(encoding, &out).unwrap();
        let at = after.0.iter().position(|(key, _)| key == KEY).unwrap();
        assert_eq!(after.0.remove(at).1, Value::UInt(deadline_ms));
        assert_eq!(after, before);
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
            insert(Encoding::Json, b"{}", 5).unwrap(),
            br#"{"_deadline_ms":5}"#
        );
        assert_eq!(
            insert(Encoding::Json, br#"{"a":1}"#, 5).unwrap(),
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
            let error = insert(encoding, payload, 1).unwrap_err();
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
                let _ = insert(encoding, &bytes, 1);
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
