//! Writes a payload in either encoding straight into the output buffer.
//!
//! Maps and arrays count what is written into them; msgpack is minimal. Binary blocks are msgpack `bin`; in JSON they are
//! arrays of numbers, or base64 text when the caller asked for it. It is not a schema. Its invariant: as long as each key is
//! followed by a value, the output is one valid value.

use crate::{Encoding, Number, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::ops::Range;

/// A writer of values; a key is written before its value.
pub struct Encoder<'o> {
    out: &'o mut Vec<u8>,
    /// Where its first value begins: what lies before that is another's, and says nothing about commas.
    start: usize,
    /// Values, keys among them, written so far into the map or array that is open.
    written: usize,
    encoding: Encoding,
    base64: bool,
}

/// Bytes of the longest text whose tag has the length in it.
const FIXED_TEXT_MAX: usize = 31;

/// How what holds other values is written.
struct Form {
    /// Values that one entry has.
    per_entry: usize,
    brackets: [u8; 2],
    /// The tag that has the length in it, if that is less than 16; those with 16 and 32 bits behind them.
    fix: u8,
    tags: [u8; 2],
}

const MAP: Form = Form {
    per_entry: 2,
    brackets: *b"{}",
    fix: 0x80,
    tags: [0xde, 0xdf],
};

const ARRAY: Form = Form {
    per_entry: 1,
    brackets: *b"[]",
    fix: 0x90,
    tags: [0xdc, 0xdd],
};

impl<'o> Encoder<'o> {
    /// Appends to `out`; `base64` chooses how binary blocks look in JSON.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>, encoding: Encoding, base64: bool) -> Self {
        Encoder {
            start: out.len(),
            out,
            written: 0,
            encoding,
            base64,
        }
    }

    /// A map of the keys and values that `write` writes.
    #[inline]
    pub fn map<T>(&mut self, write: impl FnOnce(&mut Self) -> T) -> T {
        self.open(&MAP, write)
    }

    /// An array of the values that `write` writes.
    #[inline]
    pub fn array<T>(&mut self, write: impl FnOnce(&mut Self) -> T) -> T {
        self.open(&ARRAY, write)
    }

    /// An array of items that are counted already, each written by `write`.
    #[inline]
    pub fn items<I: ExactSizeIterator>(&mut self, items: I, mut write: impl FnMut(&mut Self, I::Item)) {
        self.counted(&ARRAY, items.len(), |out| items.for_each(|item| write(out, item)));
    }

    /// A map of entries that are counted already, each value written by `write`.
    pub fn entries<'k, V>(
        &mut self,
        entries: impl ExactSizeIterator<Item = (&'k str, V)>,
        mut write: impl FnMut(&mut Self, V),
    ) {
        self.counted(&MAP, entries.len(), |out| {
            entries.for_each(|(key, value)| {
                out.key(key);
                write(out, value);
            });
        });
    }

    #[inline]
    fn open<T>(&mut self, form: &Form, write: impl FnOnce(&mut Self) -> T) -> T {
        self.begin();
        let (at, outer) = (self.out.len(), std::mem::take(&mut self.written));
        match self.encoding {
            Encoding::Msgpack => self.out.push(form.fix),
            Encoding::Json => self.out.push(form.brackets[0]),
        }
        let done = write(self);
        let written = std::mem::replace(&mut self.written, outer);
        match (self.encoding, written / form.per_entry) {
            (Encoding::Json, _) => self.out.push(form.brackets[1]),
            (Encoding::Msgpack, len @ 0..16) => {
                if let Some(tag) = self.out.get_mut(at) {
                    *tag = form.fix | len as u8;
                }
            }
            (Encoding::Msgpack, len) => self.widen(at, form, len),
        }
        done
    }

    /// Makes place for a length that the tag at `at` has no bits for.
    #[cold]
    fn widen(&mut self, at: usize, form: &Form, len: usize) {
        let mut head = Vec::with_capacity(5);
        Encoder::new(&mut head, Encoding::Msgpack, false).head(form, len);
        self.out.splice(at..=at, head);
    }

    #[inline]
    fn counted(&mut self, form: &Form, len: usize, write: impl FnOnce(&mut Self)) {
        if self.encoding == Encoding::Json {
            return self.open(form, write);
        }
        self.begin();
        self.head(form, len);
        let outer = self.written;
        write(self);
        self.written = outer;
    }

    /// The beginning of a msgpack map of so many entries: for what goes before entries that are written already.
    #[inline]
    pub fn begin_map(&mut self, len: usize) {
        self.begin();
        self.head(&MAP, len);
    }

    #[inline]
    fn head(&mut self, form: &Form, len: usize) {
        match len {
            0..16 => self.out.push(form.fix | len as u8),
            _ => self.sized(len, form.tags),
        }
    }

    /// A map's key; its value follows.
    #[inline]
    pub fn key(&mut self, key: &str) {
        match self.encoding {
            Encoding::Msgpack if key.len() <= FIXED_TEXT_MAX => {
                self.begin();
                // Most keys are literals: their lengths are known where this is inlined, and each becomes a few stores.
                let mut written = [0; 1 + FIXED_TEXT_MAX];
                written[0] = 0xa0 | key.len() as u8;
                written[1..=key.len()].copy_from_slice(key.as_bytes());
                self.out.extend_from_slice(&written[..=key.len()]);
            }
            Encoding::Msgpack => self.text(key),
            Encoding::Json => {
                self.text(key);
                self.out.push(b':');
            }
        }
    }

    /// null
    #[inline]
    pub fn nil(&mut self) {
        self.literal(0xc0, "null");
    }

    /// A boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        if value {
            self.literal(0xc3, "true")
        } else {
            self.literal(0xc2, "false")
        }
    }

    /// A whole number not below zero.
    #[inline]
    pub fn uint(&mut self, value: u64) {
        self.begin();
        match value {
            _ if self.encoding == Encoding::Json => self.digits(value),
            0..=0x7f => self.out.push(value as u8),
            0x80..=0xff => self.out.extend_from_slice(&[0xcc, value as u8]),
            0x100..=0xffff => self.tagged(0xcd, (value as u16).to_be_bytes()),
            0x1_0000..=0xffff_ffff => self.tagged(0xce, (value as u32).to_be_bytes()),
            _ => self.tagged(0xcf, value.to_be_bytes()),
        }
    }

    /// Any whole number.
    pub fn int(&mut self, value: i64) {
        if let Ok(value) = u64::try_from(value) {
            return self.uint(value);
        }
        self.begin();
        match (self.encoding, value) {
            (Encoding::Json, _) => self.digits(value),
            (Encoding::Msgpack, -32..) => self.out.push(value as u8),
            (Encoding::Msgpack, _) => self.tagged(0xd3, value.to_be_bytes()),
        }
    }

    #[inline(never)]
    fn digits(&mut self, value: impl itoa::Integer) {
        self.out
            .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    /// A 32-bit float, with the shortest text that reads back the same.
    pub fn f32(&mut self, value: f32) {
        self.float(0xca, value.to_be_bytes(), value.is_finite().then_some(value));
    }

    /// A 64-bit float.
    pub fn f64(&mut self, value: f64) {
        self.float(0xcb, value.to_be_bytes(), value.is_finite().then_some(value));
    }

    /// JSON has no number that is not finite: null stands for one.
    fn float<const BYTES: usize>(&mut self, tag: u8, bytes: [u8; BYTES], finite: Option<impl zmij::Float>) {
        match (self.encoding, finite) {
            (Encoding::Msgpack, _) => {
                self.begin();
                self.tagged(tag, bytes);
            }
            (Encoding::Json, Some(value)) => {
                self.begin();
                self.out
                    .extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
            }
            (Encoding::Json, None) => self.nil(),
        }
    }

    /// Text.
    #[inline]
    pub fn text(&mut self, value: &str) {
        self.begin();
        match (self.encoding, value.len()) {
            (Encoding::Json, _) => return self.quoted(value),
            (Encoding::Msgpack, len @ 0..=FIXED_TEXT_MAX) => self.out.push(0xa0 | len as u8),
            (Encoding::Msgpack, len @ 0..=255) => self.out.extend_from_slice(&[0xd9, len as u8]),
            (Encoding::Msgpack, len) => self.sized(len, [0xda, 0xdb]),
        }
        self.out.extend_from_slice(value.as_bytes());
    }

    #[inline(never)]
    fn quoted(&mut self, value: &str) {
        self.out.push(b'"');
        escape_into(self.out, value);
        self.out.push(b'"');
    }

    /// A block of bytes: an array of their values in JSON.
    #[inline]
    pub fn bytes(&mut self, value: &[u8]) {
        match self.encoding {
            Encoding::Msgpack => {
                self.bin(value.len());
                self.out.extend_from_slice(value);
            }
            Encoding::Json => self.block(value),
        }
    }

    /// A byte string among others: in JSON the text that it is, where it is UTF-8 and nobody asked for base64; else a block.
    pub fn string(&mut self, value: &[u8]) {
        if self.encoding == Encoding::Json
            && !self.base64
            && let Ok(text) = std::str::from_utf8(value)
        {
            return self.text(text);
        }
        self.bytes(value);
    }

    /// A block of numbers, little-endian: an array of numbers in JSON.
    pub fn block<T: Number>(&mut self, numbers: &[T]) {
        match (self.encoding, self.base64) {
            (Encoding::Msgpack, _) => {
                self.bin(numbers.len() * T::BYTES);
                T::append(numbers, self.out);
            }
            (Encoding::Json, true) => {
                let mut bytes = Vec::new();
                T::append(numbers, &mut bytes);
                self.text(&STANDARD.encode(bytes));
            }
            (Encoding::Json, false) => self.items(numbers.iter(), |out, number| number.write(out)),
        }
    }

    /// Whether a block is written as the bytes that it is, so that [`Encoder::zeros`] has a place for them.
    #[inline]
    pub fn is_binary(&self) -> bool {
        self.encoding == Encoding::Msgpack
    }

    /// A block of zero bytes, which [`Encoder::places`] gives to be filled. In a text encoding write the block whole instead.
    #[inline]
    pub fn zeros(&mut self, len: usize) -> Range<usize> {
        self.bin(len);
        let begin = self.out.len();
        self.out.resize(begin + len, 0);
        begin..begin + len
    }

    /// The bytes of blocks that [`Encoder::zeros`] wrote; nothing where two of them overlap.
    #[inline]
    pub fn places<const BLOCKS: usize>(
        &mut self,
        blocks: [Range<usize>; BLOCKS],
    ) -> Option<[&mut [u8]; BLOCKS]> {
        self.out.get_disjoint_mut(blocks).ok()
    }

    /// Any decoded value again.
    pub fn value(&mut self, value: &Value<'_>) {
        match value {
            Value::Nil => self.nil(),
            Value::Bool(value) => self.bool(*value),
            Value::UInt(value) => self.uint(*value),
            Value::Int(value) => self.int(*value),
            Value::Float(value) => self.f64(*value),
            Value::Text(value) => self.text(value),
            Value::Bytes(value) => self.bytes(value),
            Value::Array(items) => self.items(items.iter(), Self::value),
            Value::Map(map) => self.entries(map.entries(), Self::value),
        }
    }

    /// A value that is written already, in this encoding.
    #[inline]
    pub fn raw(&mut self, value: &[u8]) {
        self.begin();
        self.out.extend_from_slice(value);
    }

    /// Entries written into the map that is open, or to stand behind the beginning of one ([`Encoder::begin_map`]).
    pub fn written_entries(&self) -> usize {
        self.written / MAP.per_entry
    }

    /// Bytes written, with those that were there before.
    pub fn written_bytes(&self) -> usize {
        self.out.len()
    }

    /// What stands before the bytes of msgpack's bin.
    #[inline]
    fn bin(&mut self, len: usize) {
        self.begin();
        match len {
            0..=255 => self.out.extend_from_slice(&[0xc4, len as u8]),
            _ => self.sized(len, [0xc5, 0xc6]),
        }
    }

    /// A length of 16 or 32 bits behind its tag.
    #[inline(never)]
    fn sized(&mut self, len: usize, [tag16, tag32]: [u8; 2]) {
        match u16::try_from(len) {
            Ok(len) => self.tagged(tag16, len.to_be_bytes()),
            Err(_) => self.tagged(tag32, u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()),
        }
    }

    /// A tag and up to eight bytes, written at once: the room is looked for once.
    #[inline]
    fn tagged<const BYTES: usize>(&mut self, tag: u8, bytes: [u8; BYTES]) {
        let mut written = [tag; 9];
        written[1..=BYTES].copy_from_slice(&bytes);
        self.out.extend_from_slice(&written[..=BYTES]);
    }

    #[inline]
    fn literal(&mut self, tag: u8, text: &str) {
        self.begin();
        match self.encoding {
            Encoding::Msgpack => self.out.push(tag),
            Encoding::Json => self.out.extend_from_slice(text.as_bytes()),
        }
    }

    /// Another value: in JSON behind a comma, unless it is the first of all, of its map or of its array, or follows its key.
    /// Text always ends in a quote, so the last byte that was written here tells.
    #[inline]
    fn begin(&mut self) {
        self.written += 1;
        if self.encoding == Encoding::Json {
            self.separate();
        }
    }

    #[inline(never)]
    fn separate(&mut self) {
        let written = self.out.get(self.start..).unwrap_or_default();
        if let Some(b'"' | b'}' | b']' | b'0'..=b'9' | b'e' | b'l') = written.last() {
            self.out.push(b',');
        }
    }
}

/// Escapes what JSON requires: quotes, backslashes and control characters.
fn escape_into(out: &mut Vec<u8>, text: &str) {
    let mut clean_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[clean_from..at]);
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        clean_from = at + 1;
    }
    out.extend_from_slice(&text.as_bytes()[clean_from..]);
}

#[cfg(test)]
mod tests;
