//! Where msgpack that does not decode goes wrong, and how, in words for who sent it.
//!
//! It judges no payload: `decode_map` does, and asks here what to say. Its invariant: it reads no further than decoding does,
//! and allocates nothing but the words; what is wrong by other rules (too deep, too many values) it leaves to the decoder's.

use crate::plain::size;
use crate::value::{LEVELS_MAX, VALUES_MAX};

/// What is wrong with a payload's value.
struct Wrong {
    /// Bytes before it.
    at: usize,
    what: &'static str,
}

/// Why a reading ends.
enum End {
    Wrong(Wrong),
    /// A limit of decoding, which has its own words.
    Limit,
}

/// Reads on from `at`.
struct Scan<'p> {
    payload: &'p [u8],
    at: usize,
    values_left: usize,
}

const CUT: &str = "the payload ends inside a value; send it whole";
const EXTENSION: &str = "an extension type, and none is accepted; send numbers, text, bin, arrays or maps";
const RESERVED: &str = "0xc1 is no msgpack; expected a value";
const KEY: &str = "a map's key is not text; send text";
const KEY_NOT_UTF8: &str = "a map's key is not UTF-8; send UTF-8 text";

/// "at byte N: …" of the first thing that is no value; `None` where every value is one as far as decoding reads.
pub(crate) fn first_bad_byte(payload: &[u8]) -> Option<String> {
    let mut scan = Scan {
        payload,
        at: 0,
        values_left: VALUES_MAX,
    };
    match scan.value(LEVELS_MAX) {
        Err(End::Wrong(Wrong { at, what })) => Some(format!("at byte {at}: {what}")),
        Err(End::Limit) | Ok(()) => None,
    }
}

impl Scan<'_> {
    fn wrong(&self, what: &'static str) -> End {
        End::Wrong(Wrong { at: self.at, what })
    }

    /// The tag that the next value begins with, which is left where it is.
    fn tag(&self) -> Result<u8, End> {
        self.payload.get(self.at).copied().ok_or_else(|| self.wrong(CUT))
    }

    /// A length of `width` bytes behind the tag, or the one in the tag where `width` is 0.
    fn length(&self, in_tag: u8, width: usize) -> Result<usize, End> {
        if width == 0 {
            return Ok(usize::from(in_tag));
        }
        let behind = self.payload.get(self.at + 1..).unwrap_or_default();
        size(behind, width).map_or_else(|| Err(self.wrong(CUT)), |(length, _)| Ok(length))
    }

    /// Goes past a tag and `bytes` behind it.
    fn skip(&mut self, bytes: usize) -> Result<(), End> {
        let end = self.at.saturating_add(1).saturating_add(bytes);
        if end > self.payload.len() {
            return Err(self.wrong(CUT));
        }
        self.at = end;
        Ok(())
    }

    fn value(&mut self, levels: usize) -> Result<(), End> {
        self.values_left = self.values_left.checked_sub(1).ok_or(End::Limit)?;
        let tag = self.tag()?;
        match tag {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => self.skip(0),
            0x80..=0x8f => self.items(tag & 0x0f, 0, true, levels),
            0xde => self.items(0, 2, true, levels),
            0xdf => self.items(0, 4, true, levels),
            0x90..=0x9f => self.items(tag & 0x0f, 0, false, levels),
            0xdc => self.items(0, 2, false, levels),
            0xdd => self.items(0, 4, false, levels),
            0xa0..=0xbf => self.skip(usize::from(tag & 0x1f)),
            0xc4 | 0xd9 => self.block(1),
            0xc5 | 0xda => self.block(2),
            0xc6 | 0xdb => self.block(4),
            0xcc | 0xd0 => self.skip(1),
            0xcd | 0xd1 => self.skip(2),
            0xca | 0xce | 0xd2 => self.skip(4),
            0xcb | 0xcf | 0xd3 => self.skip(8),
            0xc7..=0xc9 | 0xd4..=0xd8 => Err(self.wrong(EXTENSION)),
            0xc1 => Err(self.wrong(RESERVED)),
        }
    }

    /// Bytes or text behind their length.
    fn block(&mut self, width: usize) -> Result<(), End> {
        let length = self.length(0, width)?;
        self.skip(width.saturating_add(length))
    }

    /// What an array or a map holds.
    fn items(&mut self, in_tag: u8, width: usize, has_keys: bool, levels: usize) -> Result<(), End> {
        let count = self.length(in_tag, width)?;
        let inside = levels.checked_sub(1).ok_or(End::Limit)?;
        if count > self.values_left {
            return Err(End::Limit);
        }
        self.skip(width)?;
        for _ in 0..count {
            if has_keys {
                self.key()?;
            }
            self.value(inside)?;
        }
        Ok(())
    }

    fn key(&mut self) -> Result<(), End> {
        let (tag, start) = (self.tag()?, self.at);
        let width = match tag {
            0xa0..=0xbf => 0,
            0xd9 => 1,
            0xda => 2,
            0xdb => 4,
            0xc1 => return Err(self.wrong(RESERVED)),
            _ => return Err(self.wrong(KEY)),
        };
        let length = self.length(tag & 0x1f, width)?;
        self.skip(width.saturating_add(length))?;
        let text = self.payload.get(start + 1 + width..self.at).unwrap_or_default();
        if std::str::from_utf8(text).is_err() {
            self.at = start;
            return Err(self.wrong(KEY_NOT_UTF8));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Encoding, PayloadError, decode_map};
    use proptest::prelude::*;

    fn problem(payload: &[u8]) -> String {
        let error = decode_map(Encoding::Msgpack, payload).unwrap_err();
        error.to_string()
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let table: [(&[u8], usize, &str); 17] = [
            (b"\x81", 1, CUT),
            (b"\xde\x00", 0, CUT),
            (b"\x81\xa2a", 1, CUT),
            (b"\x81\xa1a", 3, CUT),
            (b"\x81\xa1a\xa3ab", 3, CUT),
            (b"\x81\xa1a\xcf\0\0\0", 3, CUT),
            (b"\x81\xa1a\xc6\xff\xff\xff\xff", 3, CUT),
            (b"\x81\xa1a\x93\x01\x02", 6, CUT),
            (b"\x82\xa1a\x01\xa1b\xc1", 6, RESERVED),
            (b"\x81\xc1\x01", 1, RESERVED),
            (b"\x81\xa1a\x92\x01\xd4\x01\x02", 5, EXTENSION),
            (b"\x81\xa1a\xc7\x00\x01", 3, EXTENSION),
            (b"\x81\x01\x01", 1, KEY),
            (b"\x81\xc0\x01", 1, KEY),
            (b"\x81\xc4\x01a\x01", 1, KEY),
            (b"\x81\xa1\xff\x01", 1, KEY_NOT_UTF8),
            (b"\x81\xa1a\x81\xd9\x02a\xff\x01", 4, KEY_NOT_UTF8),
        ];
        for (payload, at, what) in table {
            let expected = format!("the payload is not valid msgpack: at byte {at}: {what}");
            assert_eq!(problem(payload), expected, "{payload:02x?}");
        }
    }

    #[test]
    fn limits_and_twins_keep_their_own_words() {
        let deep = [&b"\x81\xa1a"[..], &[0x91; 100]].concat();
        assert!(problem(&deep).contains("nested more than 64 deep"));
        assert!(problem(b"\x81\xa1a\xdd\xff\xff\xff\xff").contains("values in one payload"));
        assert!(problem(b"\x82\xa1a\x01\xa1a\x01").contains("occurs twice"));
    }

    proptest! {
        /// Maps of any bytes: what decoding refuses has a place or is refused by a rule of ours, and what it takes has none.
        #[test]
        fn the_scan_agrees_with_decoding(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let payload = [&b"\x82\xa1a"[..], &bytes].concat();
            match decode_map(Encoding::Msgpack, &payload) {
                Err(PayloadError::Malformed { detail, .. }) => {
                    let ours = ["at byte ", "nested more", "values in one payload", "occurs twice"];
                    prop_assert!(ours.iter().any(|words| detail.contains(words)), "{detail}");
                }
                _ => prop_assert_eq!(first_bad_byte(&payload), None),
            }
        }
    }
}
