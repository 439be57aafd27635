//! Bytes and numbers, in the forms that they may have: bin, an array, or base64 text.
//! Its invariant: whether text is base64 is looked up once a payload, wherever its map says so.

use crate::number::{Number, block_of};
use crate::{PayloadError, Read, Reader, Token};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

const BYTES: &str =
    "bytes (in JSON: text, an array of numbers from 0 to 255, or base64 text with \"base64\": true)";

const STRINGS: &str = "an array of strings: text, bytes, or arrays of them";
const STRING: &str = "one string: text or bytes";

impl<'a> Reader<'a> {
    /// Bytes: bin; text (its UTF-8, or base64 where the payload says so); or an array of numbers below 256.
    pub fn bytes(&mut self) -> Read<Cow<'a, [u8]>> {
        match self.token()? {
            Token::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            Token::Text(text) if self.is_base64() => decode_base64(text).map(Cow::Owned),
            Token::Text(text) => Ok(Cow::Borrowed(text.as_bytes())),
            Token::Array(len) => self.items(len, false).map(Cow::Owned),
            other => Err(other.is_not(BYTES)),
        }
    }

    /// Numbers: bin of their bytes, little-endian; base64 text where the payload says so; or an array of numbers, which may
    /// hold arrays of them where they are `nested`.
    pub fn numbers<T: Number>(&mut self, nested: bool) -> Read<Vec<T>> {
        match self.token()? {
            Token::Bytes(bytes) => block_of(bytes),
            Token::Text(text) if self.is_base64() => block_of(&decode_base64(text)?),
            Token::Array(len) => self.items(len, nested),
            other => Err(other.is_not(T::expected())),
        }
    }

    /// Byte strings, each given to `push`: an array of what [`Reader::bytes`] reads, which may hold arrays of them. An array that
    /// begins with a number is the bytes of one string.
    pub fn strings(&mut self, push: &mut impl FnMut(&[u8])) -> Read<()> {
        match self.token()? {
            Token::Array(len) => self.strings_into(len, push, &mut 0),
            other => Err(other.is_not(STRINGS)),
        }
    }

    fn strings_into(&mut self, len: usize, push: &mut impl FnMut(&[u8]), at: &mut usize) -> Read<()> {
        for _ in 0..len {
            match self.token()? {
                Token::Bytes(bytes) => push(bytes),
                Token::Text(text) if self.is_base64() => {
                    push(&decode_base64(text).map_err(|error| error.at(*at))?);
                }
                Token::Text(text) => push(text.as_bytes()),
                Token::Array(len) if len > 0 && self.is_number_next() => {
                    push(&self.items::<u8>(len, false).map_err(|error| error.at(*at))?);
                }
                Token::Array(len) => {
                    self.strings_into(len, push, at)?;
                    continue;
                }
                other => return Err(other.is_not(STRING).at(*at)),
            }
            *at += 1;
        }
        self.leave();
        Ok(())
    }

    fn is_number_next(&self) -> bool {
        matches!(self.rest.first(), Some(0x00..=0x7f | 0xca..=0xd3 | 0xe0..=0xff))
    }

    /// Tells `later`, which came from this reader, whether text is base64: looked up once for all that are read later.
    pub fn tell_base64(&mut self, later: &mut Reader<'a>) {
        later.base64 = Some(self.is_base64());
    }

    /// Goes past the next value, and gives a reader of it for later.
    pub fn later(&mut self) -> Read<Reader<'a>> {
        if let Some(0xa0..=0xbf | 0xd9..=0xdb) = self.rest.first() {
            // Looked up once for all that are read later.
            self.is_base64();
        }
        let later = self.clone();
        self.skip()?;
        Ok(later)
    }

    fn items<T: Number>(&mut self, len: usize, nested: bool) -> Read<Vec<T>> {
        let mut numbers = Vec::with_capacity(len.min(self.rest.len()));
        self.items_into(len, nested, &mut numbers)?;
        Ok(numbers)
    }

    fn items_into<T: Number>(&mut self, len: usize, nested: bool, numbers: &mut Vec<T>) -> Read<()> {
        for _ in 0..len {
            match self.token()? {
                Token::Array(len) if nested => self.items_into(len, nested, numbers)?,
                token => match T::of(token) {
                    Some(number) => numbers.push(number),
                    None => {
                        let expected = match token {
                            // What a signed key is, bit for bit.
                            Token::Int(found) if T::NAME == u64::NAME => {
                                format!("one u64; for {found} send {}", found.cast_unsigned())
                            }
                            _ => format!("one {}", T::NAME),
                        };
                        return Err(token.is_not(expected).at(numbers.len()));
                    }
                },
            }
        }
        self.leave();
        Ok(())
    }

    /// Whether the payload's own map says that blocks are base64 text; the key may stand behind them.
    fn is_base64(&mut self) -> bool {
        *self.base64.get_or_insert_with(|| {
            let (mut root, mut found) = (Reader::new(self.encoding, self.whole), false);
            // What is wrong behind this place is found by whoever reads on.
            let _ = root.map("a map", |root, key| match key {
                b"base64" => root.bool().map(|value| found = value),
                _ => root.skip(),
            });
            found
        })
    }
}

fn decode_base64(text: &str) -> Read<Vec<u8>> {
    STANDARD
        .decode(text)
        .map_err(|error| PayloadError::invalid(format!("bad base64 ({error})"), "base64 text"))
}
