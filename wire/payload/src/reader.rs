//! The one reader of payloads: a cursor over msgpack that lends text and bytes from the input.
//!
//! It knows no method. Its invariants: depth and number of values are bounded whatever the input says of itself, and a
//! length is believed only as far as bytes are there; what does not read is named with its place, and left unread.

use crate::ascii::is_short_ascii;
use crate::{Encoding, PayloadError, Problem, Read, Reserved, Token};
use std::borrow::Cow;
use std::collections::HashSet;

/// Values one payload may hold.
///
/// As many as 8 MiB of JSON (the default of `server.frame_bytes_max`) hold numbers of seven digits, and more than twice what
/// 10,000 samples of 40 features have. Tiny values beyond that only keep a net thread from its other connections; larger
/// blocks of numbers travel as bin or base64, which are one value.
pub const VALUES_MAX: usize = 1 << 20;
/// Levels of maps and arrays accepted in either encoding, the payload's own map among them.
pub(crate) const LEVELS_MAX: usize = 64;
/// Items of an array of one kind for which space is made before the first is read.
const ITEMS_AT_ONCE: usize = 1024;
/// The same of what may hold others of its kind, in as many levels as there are.
pub(crate) const VALUES_AT_ONCE: usize = 64;

pub(crate) const CUT: &str = "the payload ends inside a value; send it whole";
pub(crate) const EXTENSION: &str =
    "an extension type, and none is accepted; send numbers, text, bin, arrays or maps";
pub(crate) const RESERVED: &str = "0xc1 is no msgpack; expected a value";
pub(crate) const KEY: &str = "a map's key is not text; send text";
pub(crate) const KEY_NOT_UTF8: &str = "a map's key is not UTF-8; send UTF-8 text";
pub(crate) fn too_deep() -> String {
    format!("maps and arrays are nested more than {LEVELS_MAX} deep")
}

pub(crate) fn too_many() -> String {
    format!(
        "more than {VALUES_MAX} values in one payload; send blocks of numbers as bin or base64, or split the call"
    )
}

/// Bytes of the values whose tag alone tells how many they are, the tag among them; 0 where more is to be looked at.
const SIZES: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut tag = 0;
    while tag < 256 {
        sizes[tag] = match tag {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 1,
            0xa0..=0xbf => 1 + (tag as u8 & 0x1f),
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

/// A cursor over one payload; see this module.
///
/// # Errors
/// Every reading gives [`Problem::Malformed`] for what is no msgpack, is past a bound, or has a key twice, and
/// [`Problem::Invalid`] for a value of another kind than asked for; and what the function that reads a part of it says.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    pub(crate) whole: &'a [u8],
    /// What has not been read; it begins with a value, or with a key of a map that is open.
    pub(crate) rest: &'a [u8],
    /// How the payload came, for messages.
    pub(crate) encoding: Encoding,
    values_left: usize,
    levels_left: usize,
    /// Whether blocks are base64 text, once somebody had to know.
    pub(crate) base64: Option<bool>,
    pub(crate) reserved: Reserved<'a>,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(encoding: Encoding, msgpack: &'a [u8]) -> Reader<'a> {
        Reader {
            whole: msgpack,
            rest: msgpack,
            encoding,
            values_left: VALUES_MAX - 1,
            levels_left: LEVELS_MAX,
            base64: None,
            reserved: Reserved::default(),
        }
    }

    /// The next value; of an array or a map, its beginning.
    #[inline]
    pub fn token(&mut self) -> Read<Token<'a>> {
        let Some((&tag, behind)) = self.rest.split_first() else {
            return Err(self.wrong(CUT));
        };
        let token = match tag {
            0x00..=0x7f => Token::UInt(u64::from(tag)),
            0xe0..=0xff => Token::Int(i64::from(tag as i8)),
            0xc0 => Token::Nil,
            0xc2 => Token::Bool(false),
            0xc3 => Token::Bool(true),
            0xa0..=0xbf => return self.text_of(usize::from(tag & 0x1f), behind),
            0x80..=0x8f => return Ok(Token::Map(self.enter(usize::from(tag & 0x0f), behind)?)),
            0x90..=0x9f => return Ok(Token::Array(self.enter(usize::from(tag & 0x0f), behind)?)),
            _ => return self.wide(tag, behind),
        };
        self.rest = behind;
        Ok(token)
    }

    /// The same for tags with a number or a length behind them.
    fn wide(&mut self, tag: u8, behind: &'a [u8]) -> Read<Token<'a>> {
        let int = |value: i64| u64::try_from(value).map_or(Token::Int(value), Token::UInt);
        Ok(match tag {
            0xcc => Token::UInt(u8::from_be_bytes(self.fixed(behind)?).into()),
            0xcd => Token::UInt(u16::from_be_bytes(self.fixed(behind)?).into()),
            0xce => Token::UInt(u32::from_be_bytes(self.fixed(behind)?).into()),
            0xcf => Token::UInt(u64::from_be_bytes(self.fixed(behind)?)),
            0xd0 => int(i8::from_be_bytes(self.fixed(behind)?).into()),
            0xd1 => int(i16::from_be_bytes(self.fixed(behind)?).into()),
            0xd2 => int(i32::from_be_bytes(self.fixed(behind)?).into()),
            0xd3 => int(i64::from_be_bytes(self.fixed(behind)?)),
            0xca => Token::Float(f32::from_be_bytes(self.fixed(behind)?).into()),
            0xcb => Token::Float(f64::from_be_bytes(self.fixed(behind)?)),
            0xc4..=0xc6 | 0xd9..=0xdb => {
                let width = 1 << (if tag < 0xd0 { tag - 0xc4 } else { tag - 0xd9 });
                let (len, behind) = self.length(behind, width)?;
                if tag >= 0xd0 {
                    return self.text_of(len, behind);
                }
                let (bytes, rest) = behind.split_at_checked(len).ok_or_else(|| self.wrong(CUT))?;
                self.rest = rest;
                Token::Bytes(bytes)
            }
            0xdc..=0xdf => {
                let (len, behind) = self.length(behind, if tag & 1 == 0 { 2 } else { 4 })?;
                let len = self.enter(len, behind)?;
                if tag < 0xde {
                    Token::Array(len)
                } else {
                    Token::Map(len)
                }
            }
            0xc1 => return Err(self.wrong(RESERVED)),
            _ => return Err(self.wrong(EXTENSION)),
        })
    }

    fn fixed<const N: usize>(&mut self, behind: &'a [u8]) -> Read<[u8; N]> {
        let (bytes, rest) = behind.split_first_chunk().ok_or_else(|| self.wrong(CUT))?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// A length of `width` bytes, and what follows it.
    fn length(&self, behind: &'a [u8], width: usize) -> Read<(usize, &'a [u8])> {
        let (length, rest) = behind.split_at_checked(width).ok_or_else(|| self.wrong(CUT))?;
        let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        Ok((length, rest))
    }

    #[inline]
    fn text_of(&mut self, len: usize, behind: &'a [u8]) -> Read<Token<'a>> {
        let Some((text, rest)) = behind.split_at_checked(len) else {
            return Err(self.wrong(CUT));
        };
        self.rest = rest;
        Ok(std::str::from_utf8(text).map_or(Token::Bytes(text), Token::Text))
    }

    /// Goes into an array or a map that announces so much.
    #[inline]
    fn enter(&mut self, len: usize, behind: &'a [u8]) -> Read<usize> {
        let Some(levels) = self.levels_left.checked_sub(1) else {
            return Err(self.malformed(too_deep()));
        };
        let Some(values) = self.values_left.checked_sub(len) else {
            return Err(self.malformed(too_many()));
        };
        (self.levels_left, self.values_left, self.rest) = (levels, values, behind);
        Ok(len)
    }

    /// Goes out of an array or a map whose end is reached.
    #[inline]
    pub fn leave(&mut self) {
        self.levels_left += 1;
    }

    /// Whether what is open is the payload's own map.
    #[inline]
    pub fn is_at_root(&self) -> bool {
        self.levels_left == LEVELS_MAX - 1
    }

    /// Goes past the next value.
    #[inline]
    pub fn skip(&mut self) -> Read<()> {
        let size = self.rest.first().map_or(0, |tag| SIZES[usize::from(*tag)]);
        match self.rest.get(usize::from(size)..) {
            Some(rest) if size > 0 => {
                self.rest = rest;
                Ok(())
            }
            _ => self.skip_long(),
        }
    }

    fn skip_long(&mut self) -> Read<()> {
        match self.token()? {
            Token::Array(items) => {
                for _ in 0..items {
                    self.skip()?;
                }
                self.leave();
            }
            Token::Map(entries) => {
                for _ in 0..entries {
                    self.key()?;
                    self.skip()?;
                }
                self.leave();
            }
            _ => {}
        }
        Ok(())
    }

    /// The key of a map's next entry: UTF-8.
    #[inline]
    pub fn key(&mut self) -> Read<&'a [u8]> {
        match self.short_ascii() {
            Some(key) => Ok(key),
            None => self.any_key(),
        }
    }

    /// The next value, where it is short text and ASCII.
    #[inline]
    fn short_ascii(&mut self) -> Option<&'a [u8]> {
        let (tag, behind) = self.rest.split_first()?;
        let len = usize::from(tag & 0x1f);
        let (text, rest) = behind.split_at_checked(len)?;
        if tag & 0xe0 != 0xa0 || !is_short_ascii(behind, len) {
            return None;
        }
        self.rest = rest;
        Some(text)
    }

    #[inline(never)]
    fn any_key(&mut self) -> Read<&'a [u8]> {
        match self.rest.first() {
            None => return Err(self.wrong(CUT)),
            Some(0xa0..=0xbf | 0xd9..=0xdb) => {}
            Some(0xc1) => return Err(self.wrong(RESERVED)),
            Some(_) => return Err(self.wrong(KEY)),
        }
        let before = self.rest;
        match self.token()? {
            Token::Text(key) => Ok(key.as_bytes()),
            _ => {
                self.rest = before;
                Err(self.wrong(KEY_NOT_UTF8))
            }
        }
    }

    /// Reads a map: `entry` reads or skips the value under each key.
    #[inline]
    pub fn map(
        &mut self,
        expected: &str,
        mut entry: impl FnMut(&mut Self, &'a [u8]) -> Read<()>,
    ) -> Read<()> {
        let entries = match self.token()? {
            Token::Map(entries) => entries,
            other => return Err(other.is_not(expected)),
        };
        for _ in 0..entries {
            let key = self.key()?;
            entry(self, key)?;
        }
        self.leave();
        Ok(())
    }

    /// Whether the map that is next has such a key; nothing is read. A key that stands in front is found at once.
    #[inline]
    pub fn has(&self, name: &str) -> Read<bool> {
        match has_short(self.rest, name.as_bytes()) {
            Some(has) => Ok(has),
            None => self.has_any(name),
        }
    }

    fn has_any(&self, name: &str) -> Read<bool> {
        let mut ahead = self.clone();
        if let Token::Map(entries) = ahead.token()? {
            for _ in 0..entries {
                if ahead.key()? == name.as_bytes() {
                    return Ok(true);
                }
                ahead.skip()?;
            }
        }
        Ok(false)
    }

    /// Reads a map of names that the sender chose, each once, and each value with `value`.
    pub fn named<T>(
        &mut self,
        expected: &str,
        value: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<(Cow<'a, str>, T)>> {
        match self.token()? {
            Token::Map(len) => self.entries(len, value),
            other => Err(other.is_not(expected)),
        }
    }

    /// The entries of a map that is open, and its end.
    pub(crate) fn entries<T>(
        &mut self,
        len: usize,
        mut value: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<(Cow<'a, str>, T)>> {
        let mut entries = Vec::with_capacity(len.min(VALUES_AT_ONCE));
        for _ in 0..len {
            let key = String::from_utf8_lossy(self.key()?);
            let value = value(self).map_err(|error| error.under(&key))?;
            entries.push((key, value));
        }
        self.leave();
        match twin(&entries) {
            Some(key) => Err(self.twin(key)),
            None => Ok(entries),
        }
    }

    /// Reads an array, each item with `item`.
    #[inline]
    pub fn array<T>(&mut self, expected: &str, mut item: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let len = match self.token()? {
            Token::Array(len) => len,
            other => return Err(other.is_not(expected)),
        };
        let mut items = Vec::with_capacity(len.min(self.rest.len()).min(ITEMS_AT_ONCE));
        for at in 0..len {
            items.push(item(self).map_err(|error| error.at(at))?);
        }
        self.leave();
        Ok(items)
    }

    /// Goes past a nil, if that is next: whether it was.
    #[inline]
    pub fn nil(&mut self) -> bool {
        match self.rest {
            [0xc0, rest @ ..] => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Text.
    #[inline]
    pub fn text(&mut self) -> Read<&'a str> {
        match self.token()? {
            Token::Text(text) => Ok(text),
            other => Err(other.is_not("text")),
        }
    }

    /// Text, as its bytes: sooner than [`Reader::text`] where texts are many and short.
    #[inline]
    pub fn text_bytes(&mut self) -> Read<&'a [u8]> {
        match self.short_ascii() {
            Some(text) => Ok(text),
            None => self.text().map(str::as_bytes),
        }
    }

    /// A whole number not below zero.
    #[inline]
    pub fn uint(&mut self) -> Read<u64> {
        match self.token()? {
            Token::UInt(value) => Ok(value),
            other => Err(other.is_not("an integer not below 0")),
        }
    }

    /// A boolean.
    #[inline]
    pub fn bool(&mut self) -> Read<bool> {
        match self.token()? {
            Token::Bool(value) => Ok(value),
            other => Err(other.is_not("true or false")),
        }
    }

    /// Refuses what stands behind the payload's map.
    #[inline]
    pub(crate) fn end(&self) -> Read<()> {
        match self.rest {
            [] => Ok(()),
            _ => Err(Problem::Trailing.into()),
        }
    }

    /// What the payload's own map said under reserved keys, as far as it was read.
    pub fn reserved(&self) -> Reserved<'a> {
        self.reserved
    }

    /// The error for a key that occurs twice: which of the two counts would be anybody's guess.
    #[cold]
    pub fn twin(&self, key: &str) -> PayloadError {
        self.malformed(format!("key \"{key}\" occurs twice"))
    }

    #[cold]
    fn malformed(&self, detail: String) -> PayloadError {
        PayloadError::malformed(self.encoding, detail)
    }

    /// What is wrong with the value that is next.
    #[cold]
    #[inline(never)]
    fn wrong(&self, what: &'static str) -> PayloadError {
        let at = self.whole.len() - self.rest.len();
        self.malformed(format!("at byte {at}: {what}"))
    }
}

/// [`Reader::has`] for a map of a few short keys and of values that hold no others, as most calls are: nothing where it is more, or is
/// not well formed.
#[inline]
fn has_short(map: &[u8], name: &[u8]) -> Option<bool> {
    let (&tag, mut rest) = map.split_first().filter(|(tag, _)| **tag & 0xf0 == 0x80)?;
    for _ in 0..tag & 0x0f {
        let (&tag, behind) = rest.split_first().filter(|(tag, _)| **tag & 0xe0 == 0xa0)?;
        let (key, value) = behind.split_at_checked(usize::from(tag & 0x1f))?;
        if key == name {
            return Some(true);
        }
        let size = match *value {
            // bin
            [0xc4, len, ..] => 2 + usize::from(len),
            [0xc5, high, low, ..] => 3 + usize::from(u16::from_be_bytes([high, low])),
            [tag, ..] => usize::from(SIZES[usize::from(tag)]),
            [] => 0,
        };
        rest = value.get(size..).filter(|_| size > 0)?;
    }
    Some(false)
}

/// A key that occurs twice.
fn twin<'k, T>(entries: &'k [(Cow<'_, str>, T)]) -> Option<&'k str> {
    let mut keys = entries.iter().map(|(key, _)| &**key).enumerate();
    let twin = if entries.len() <= 16 {
        keys.find(|(at, key)| entries[..*at].iter().any(|(other, _)| other == key))
    } else {
        let mut seen = HashSet::with_capacity(entries.len());
        keys.find(|(_, key)| !seen.insert(*key))
    };
    twin.map(|(_, key)| key)
}
