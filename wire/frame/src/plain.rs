//! Whether a payload is one whole map that asks for nothing special, told in one pass that allocates nothing.
//!
//! It is for methods that hand the payload on and look at no key. Its invariant: a payload that it calls plain is whole
//! and valid; what it does not, `decode_map` judges, with words.

use crate::Encoding;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Nesting that is followed; deeper payloads are not plain.
const DEPTH_MAX: usize = 32;

/// Whether `payload` is one valid map, nothing behind it, and none of its own keys begins with `_`.
pub fn is_plain_map(encoding: Encoding, payload: &[u8]) -> bool {
    match encoding {
        Encoding::Msgpack => msgpack(payload) == Some(true),
        Encoding::Json => json(payload),
    }
}

fn msgpack(payload: &[u8]) -> Option<bool> {
    let mut is_reserved = false;
    peek_map(payload, |key, _| is_reserved |= key.first() == Some(&b'_'))?;
    Some(!is_reserved)
}

/// One value of a msgpack payload, looked at in place.
#[derive(Debug, Clone, Copy)]
pub struct Peeked<'p>(&'p [u8]);

impl<'p> Peeked<'p> {
    /// The text, if it is one.
    pub fn text(self) -> Option<&'p str> {
        std::str::from_utf8(text(self.0)?.0).ok()
    }

    /// The whole number not below zero, if it is one.
    pub fn uint(self) -> Option<u64> {
        let (&tag, rest) = self.0.split_first()?;
        match tag {
            0x00..=0x7f => Some(u64::from(tag)),
            0xcc..=0xcf => Some(rest.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))),
            _ => None,
        }
    }
}

/// Shows `see` each key and value of a payload that is one whole valid msgpack map, in one pass that allocates nothing; `None`
/// where it is not, or is nested too deep to be followed here.
#[inline]
pub fn peek_map<'p>(payload: &'p [u8], mut see: impl FnMut(&'p [u8], Peeked<'p>)) -> Option<()> {
    let (&tag, rest) = payload.split_first()?;
    let (entries, mut rest) = counted(tag, rest).filter(|_| is_map(tag))?;
    for _ in 0..entries {
        let (key, behind) = text(rest)?;
        rest = value(behind, DEPTH_MAX)?;
        see(key, Peeked(behind.get(..behind.len() - rest.len())?));
    }
    rest.is_empty().then_some(())
}

/// Bytes behind the tags that tell how many there are, and one more; 0 where more is to be looked at.
const SIZES: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut tag = 0;
    while tag < 256 {
        sizes[tag] = match tag {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 1,
            0xcc | 0xd0 => 2,
            0xcd | 0xd1 => 3,
            0xca | 0xce | 0xd2 => 5,
            0xcb | 0xcf | 0xd3 => 9,
            _ => 0,
        };
        tag += 1;
    }
    sizes
};

/// The bytes behind the value at the front.
#[inline(always)]
fn value(bytes: &[u8], depth: usize) -> Option<&[u8]> {
    let (&tag, rest) = bytes.split_first()?;
    match SIZES[usize::from(tag)] {
        0 if is_short_text(tag) => behind_text(rest, short_len(tag)),
        0 => long_value(tag, rest, depth),
        size => bytes.get(usize::from(size)..),
    }
}

/// The same for what holds others, and for what has its length behind its tag.
fn long_value(tag: u8, rest: &[u8], depth: usize) -> Option<&[u8]> {
    let (count, mut rest) = counted(tag, rest)?;
    match tag {
        _ if is_map(tag) => {
            let depth = depth.checked_sub(1)?;
            for _ in 0..count {
                rest = value(behind_key(rest)?, depth)?;
            }
            Some(rest)
        }
        0x90..=0x9f | 0xdc | 0xdd => {
            let depth = depth.checked_sub(1)?;
            for _ in 0..count {
                rest = value(rest, depth)?;
            }
            Some(rest)
        }
        0xd9..=0xdb => behind_text(rest, count),
        _ => rest.get(count..),
    }
}

/// How many entries, items or bytes the value with that tag has, and what follows; nothing for values that have none. Extensions
/// and 0xc1 are among those: no payload of ours has them.
#[inline(always)]
fn counted(tag: u8, rest: &[u8]) -> Option<(usize, &[u8])> {
    match tag {
        0x80..=0x9f => Some((usize::from(tag & 0x0f), rest)),
        0xa0..=0xbf => Some((short_len(tag), rest)),
        0xc4 | 0xd9 => size(rest, 1),
        0xc5 | 0xda | 0xdc | 0xde => size(rest, 2),
        0xc6 | 0xdb | 0xdd | 0xdf => size(rest, 4),
        _ => None,
    }
}

fn is_map(tag: u8) -> bool {
    matches!(tag, 0x80..=0x8f | 0xde | 0xdf)
}

/// Whether a tag is of a text and tells its length.
fn is_short_text(tag: u8) -> bool {
    tag & 0xe0 == 0xa0
}

fn short_len(tag: u8) -> usize {
    usize::from(tag & 0x1f)
}

/// The text at the front, which is UTF-8, and what follows.
#[inline(always)]
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (len, rest) = match tag {
        _ if is_short_text(tag) => (short_len(tag), rest),
        0xd9..=0xdb => counted(tag, rest)?,
        _ => return None,
    };
    let behind = behind_text(rest, len)?;
    Some((rest.get(..len)?, behind))
}

#[inline(always)]
fn behind_key(bytes: &[u8]) -> Option<&[u8]> {
    match bytes.split_first()? {
        (&tag, rest) if is_short_text(tag) => behind_text(rest, short_len(tag)),
        _ => Some(text(bytes)?.1),
    }
}

/// What follows the text of `len` bytes at the front, if that is UTF-8.
///
/// Keys are short and mostly ASCII: a look at one or two words tells that sooner, and what follows a text is there to be read
/// with it.
#[inline(always)]
fn behind_text(bytes: &[u8], len: usize) -> Option<&[u8]> {
    let is_ascii = match len {
        0..8 => match bytes.first_chunk() {
            Some(word) => word_of(word) & HIGH_BITS[len] == 0,
            // The payload's last.
            None => {
                (bytes.get(..len)).is_some_and(|text| text.iter().fold(0, |bits, byte| bits | byte) < 0x80)
            }
        },
        // Words may overlap: a look at some bytes twice is shorter than one at each by itself.
        8..=16 => (bytes.get(..len))
            .and_then(|text| Some(word_of(text.first_chunk()?) | word_of(text.last_chunk()?)))
            .is_some_and(|words| words & HIGH_BITS[8] == 0),
        _ => false,
    };
    match is_ascii {
        true => bytes.get(len..),
        false => behind_utf8(bytes, len),
    }
}

/// The highest bits of so many bytes at the front of a word.
const HIGH_BITS: [u64; 9] = {
    let mut bits = [0; 9];
    let mut len = 1;
    while len < 9 {
        bits[len] = bits[len - 1] << 8 | 0x80;
        len += 1;
    }
    bits
};

fn word_of(bytes: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*bytes)
}

#[inline(never)]
fn behind_utf8(bytes: &[u8], len: usize) -> Option<&[u8]> {
    let (text, rest) = bytes.split_at_checked(len)?;
    std::str::from_utf8(text).is_ok().then_some(rest)
}

/// A length of `width` bytes, big-endian.
pub(crate) fn size(bytes: &[u8], width: usize) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_at_checked(width)?;
    let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    Some((length, rest))
}

fn json(payload: &[u8]) -> bool {
    // Skipping looks into no text that needs no unescaping.
    if std::str::from_utf8(payload).is_err() {
        return false;
    }
    let mut deserializer = serde_json::Deserializer::from_slice(payload);
    deserializer.deserialize_map(Root).is_ok() && deserializer.end().is_ok()
}

/// Skips a map's values and fails on a reserved key.
struct Root;

impl<'de> Visitor<'de> for Root {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map without reserved keys")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while access.next_key_seed(Key)?.is_some() {
            access.next_value_seed(Skipped { levels: DEPTH_MAX })?;
        }
        Ok(())
    }
}

/// Any value, read in full and not kept: serde's own `IgnoredAny` lets through numbers, escapes and depths that decoding refuses.
#[derive(Clone, Copy)]
struct Skipped {
    levels: usize,
}

impl Skipped {
    fn inside<E: serde::de::Error>(self) -> Result<Skipped, E> {
        let levels = self.levels.checked_sub(1);
        Ok(Skipped {
            levels: levels.ok_or_else(|| E::custom("deeper than is followed"))?,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Skipped {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Skipped {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        while access.next_element_seed(inside)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        while access.next_entry_seed(inside, inside)?.is_some() {}
        Ok(())
    }
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is not reserved")
    }
    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<(), E> {
        if key.starts_with('_') {
            return Err(E::custom("a reserved key"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Encoder, Map, Value, decode_map};
    use proptest::prelude::*;

    fn check(encoding: Encoding, payload: &[u8], expected: bool) {
        assert_eq!(is_plain_map(encoding, payload), expected, "{payload:02x?}");
    }

    #[test]
    fn whole_maps_without_reserved_keys_are_plain() {
        check(Encoding::Msgpack, &[0x80], true);
        check(Encoding::Msgpack, b"\x82\xa6Simple\xa3one\xa7Simple2\x02", true);
        check(Encoding::Msgpack, b"\x81\xa1a\x81\xa2_b\xc0", true);
        check(Encoding::Msgpack, b"\x81\xa2_b\xc0", false);
        check(Encoding::Json, br#" {"a": [1, {"_b": "\u00e9"}]} "#, true);
        check(Encoding::Json, br#"{"_a": 1}"#, false);
        check(Encoding::Json, br#"{"\u005fa": 1}"#, false);
    }

    /// Wherever in a text a byte is none of ASCII, however long the text is, and whatever follows it.
    #[test]
    fn every_byte_of_a_text_is_looked_at_and_none_behind_it() {
        for (len, behind) in (0..40).flat_map(|len| [(len, 0), (len, 1), (len, 20)]) {
            let mut bytes = vec![b'a'; len];
            bytes.resize(len + behind, 0xff);
            let is_plain = |bytes: &[u8]| text(&[&[0xd9, len as u8], bytes].concat()).is_some();
            assert!(is_plain(&bytes), "{len}, {behind} behind");
            for at in 0..len {
                bytes[at] = 0xff;
                assert!(!is_plain(&bytes), "{at} of {len}, {behind} behind");
                bytes[at] = b'a';
            }
        }
    }

    #[test]
    fn each_value_takes_the_bytes_that_its_tag_says() {
        for tag in 0..=u8::MAX {
            let size = match tag {
                0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => None,
                0xcc | 0xd0 | 0xc4 | 0xd9 => Some(1),
                0xcd | 0xd1 | 0xc5 | 0xda | 0xdc | 0xde => Some(2),
                0xca | 0xce | 0xd2 | 0xc6 | 0xdb | 0xdd | 0xdf => Some(4),
                0xcb | 0xcf | 0xd3 => Some(8),
                0x80..=0x8f => Some(2 * usize::from(tag & 0x0f)),
                0x90..=0x9f => Some(usize::from(tag & 0x0f)),
                0xa0..=0xbf => Some(usize::from(tag & 0x1f)),
                _ => Some(0),
            };
            for given in 0..40 {
                // As keys of a map and its values they are texts without bytes, as a length they are none.
                let filler = if tag & 0xf0 == 0x80 { 0xa0 } else { 0 };
                let payload = [&b"\x81\xa1a"[..], &[tag], &vec![filler; given]].concat();
                check(Encoding::Msgpack, &payload, size == Some(given));
            }
        }
    }

    #[test]
    fn what_is_no_whole_map_is_not() {
        for payload in [
            &b""[..],
            b"\x93\x01\x02\x03",
            b"\x80\x80",
            b"\x81\xa1a",
            b"\x81\x01\x01",
            b"\x81\xa1\xff\x01",
            b"\x81\xa1a\xdd\xff\xff\xff\xff",
            b"\x81\xa1a\xc6\xff\xff\xff\xff",
        ] {
            check(Encoding::Msgpack, payload, false);
        }
        let deep = [&b"\x81\xa1a"[..], &[0x91; 100_000], b"\xc0"].concat();
        check(Encoding::Msgpack, &deep, false);
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for payload in [
            &b""[..],
            b"[1]",
            b"{} x",
            b"{\"a\":nan}",
            b"{\"a\":\"\xff\"}",
            b"{\"a\":1e999}",
            b"{\"a\":\"\\ud800\"}",
            deep.as_bytes(),
        ] {
            check(Encoding::Json, payload, false);
        }
    }

    #[test]
    fn values_are_looked_at_in_place() {
        let payload =
            b"\x86\xa1a\x07\xa1b\xcd\x01\x02\xa1c\xcf\0\0\0\0\0\0\0\x09\xa1d\xa2hi\xa1e\xff\xa1f\x91\x01";
        let mut seen = Vec::new();
        let whole = peek_map(payload, |key, value| {
            seen.push((key[0] as char, value.uint(), value.text()));
        });
        assert!(whole.is_some());
        let expected = [
            ('a', Some(7), None),
            ('b', Some(258), None),
            ('c', Some(9), None),
            ('d', None, Some("hi")),
            ('e', None, None),
            ('f', None, None),
        ];
        assert_eq!(seen, expected);
        assert!(peek_map(b"\x81\xa1a", |_, _| {}).is_none());
    }

    proptest! {
        #[test]
        fn plain_bytes_decode(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            for encoding in [Encoding::Msgpack, Encoding::Json] {
                if is_plain_map(encoding, &bytes) {
                    // The one thing that decoding refuses besides.
                    let twice = |error: &crate::PayloadError| error.to_string().contains("occurs twice");
                    prop_assert!(decode_map(encoding, &bytes).as_ref().map_or_else(twice, |_| true));
                }
            }
        }

        #[test]
        fn what_the_encoder_writes_is_plain(numbers in proptest::collection::vec(any::<i64>(), 0..40), text in ".{0,40}") {
            let numbers = numbers.into_iter().map(|n| u64::try_from(n).map_or(Value::Int(n), Value::UInt)).collect();
            let value = Value::Map(Map(vec![
                ("n".into(), Value::Array(numbers)),
                ("t".into(), Value::Text(text.into())),
                ("f".into(), Value::Float(0.5)),
                ("b".into(), Value::Bool(true)),
            ]));
            for encoding in [Encoding::Msgpack, Encoding::Json] {
                let mut bytes = Vec::new();
                Encoder::new(&mut bytes, encoding, false).value(&value);
                prop_assert!(is_plain_map(encoding, &bytes));
            }
        }
    }
}
