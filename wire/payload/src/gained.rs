//! Puts `_deadline_ms`, `_priority`, `_epoch` and `_token` into a payload that is already encoded.
//!
//! It is not a decoder: it looks at a map's header and its end, never at what lies between. Its invariant: a valid map
//! without the keys comes out as a valid map with them, every other byte of its entries unchanged.

use crate::{Encoder, Encoding, Hidden, PayloadError, Read};

/// Entries that a call gains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gained<'a> {
    /// `_deadline_ms`
    pub deadline_ms: Option<u64>,
    /// `_priority`
    pub priority: Option<u8>,
    /// `_epoch`
    pub epoch: Option<u64>,
    /// `_token`
    pub token: Option<Hidden<'a>>,
}

impl Gained<'_> {
    /// A token alone.
    pub fn token(token: &str) -> Gained<'_> {
        Gained {
            token: Some(Hidden(token)),
            ..Gained::default()
        }
    }

    /// The payload with these entries besides.
    ///
    /// # Errors
    /// It is no map, as far as its ends say.
    pub fn insert(self, encoding: Encoding, payload: &[u8]) -> Read<Vec<u8>> {
        match encoding {
            Encoding::Msgpack => self.insert_msgpack(payload),
            Encoding::Json => self.insert_json(payload),
        }
    }

    fn count(self) -> usize {
        let gained = [
            self.deadline_ms.is_some(),
            self.priority.is_some(),
            self.epoch.is_some(),
            self.token.is_some(),
        ];
        gained.into_iter().filter(|is_some| *is_some).count()
    }

    fn write(self, out: &mut Encoder<'_>) {
        if let Some(ms) = self.deadline_ms {
            out.key("_deadline_ms");
            out.uint(ms);
        }
        if let Some(level) = self.priority {
            out.key("_priority");
            out.uint(level.into());
        }
        if let Some(epoch) = self.epoch {
            out.key("_epoch");
            out.uint(epoch);
        }
        if let Some(Hidden(token)) = self.token {
            out.key("_token");
            out.text(token);
        }
    }

    /// The new entries go first, right behind the header, which counts them.
    fn insert_msgpack(self, payload: &[u8]) -> Read<Vec<u8>> {
        let no_map = |detail: String| Err(PayloadError::malformed(Encoding::Msgpack, detail));
        let (entries, body) = match payload {
            [tag @ 0x80..=0x8f, body @ ..] => (usize::from(tag & 0x0f), body),
            [0xde, a, b, body @ ..] => (usize::from(u16::from_be_bytes([*a, *b])), body),
            [0xdf, a, b, c, d, body @ ..] => (u32::from_be_bytes([*a, *b, *c, *d]) as usize, body),
            [] => return no_map("it is empty; expected a map".to_owned()),
            [tag, ..] => return no_map(format!("it begins with the byte {tag:#04x}; expected a map")),
        };
        let mut out = Vec::with_capacity(payload.len() + 48);
        let mut encoder = Encoder::new(&mut out, Encoding::Msgpack, false);
        encoder.begin_map(entries + self.count());
        self.write(&mut encoder);
        out.extend_from_slice(body);
        Ok(out)
    }

    /// The new entries go last, before the closing brace.
    fn insert_json(self, payload: &[u8]) -> Read<Vec<u8>> {
        let inside = payload.trim_ascii();
        let inside = inside
            .strip_prefix(b"{")
            .and_then(|rest| rest.strip_suffix(b"}"))
            .ok_or_else(|| {
                PayloadError::malformed(Encoding::Json, "it does not run from { to }; expected an object")
            })?;
        let mut gained = Vec::with_capacity(56);
        Encoder::new(&mut gained, Encoding::Json, false).map(|out| self.write(out));
        let is_between = !inside.trim_ascii().is_empty() && self.count() > 0;
        let comma: &[u8] = if is_between { b"," } else { b"" };
        let gained = gained.get(1..).unwrap_or_default();
        Ok([b"{", inside, comma, gained].concat())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Map, Value, decode_map};
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

    fn deadline(ms: u64) -> Gained<'static> {
        Gained {
            deadline_ms: Some(ms),
            ..Gained::default()
        }
    }

    fn check(encoding: Encoding, payload: &[u8], deadline_ms: u64) {
        let before = decode_map(encoding, payload).unwrap();
        for (priority, token) in [
            (None, None),
            (Some(7), None),
            (None, Some(Hidden("a \"secret\""))),
        ] {
            let gained = Gained {
                priority,
                token,
                ..deadline(deadline_ms)
            };
            let out = gained.insert(encoding, payload).unwrap();
            let mut after = decode_map(encoding, &out).unwrap();
            let mut take = |key: &str| {
                let at = after.0.iter().position(|(found, _)| found == key)?;
                Some(after.0.remove(at).1)
            };
            assert_eq!(take("_deadline_ms"), Some(Value::UInt(deadline_ms)));
            assert_eq!(take("_priority"), priority.map(|level| Value::UInt(level.into())));
            assert_eq!(take("_token"), token.map(|token| Value::Text(token.0.into())));
            assert_eq!(after, before);
        }
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
            deadline(5).insert(Encoding::Json, b"{}").unwrap(),
            br#"{"_deadline_ms":5}"#
        );
        assert_eq!(
            deadline(5).insert(Encoding::Json, br#"{"a":1}"#).unwrap(),
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
            (Encoding::Json, b"", "expected an object"),
            (Encoding::Json, b"[1]", "expected an object"),
            (Encoding::Json, b"{", "expected an object"),
        ] {
            let error = deadline(1).insert(encoding, payload).unwrap_err().to_string();
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
                let _ = deadline(1).insert(encoding, &bytes);
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
