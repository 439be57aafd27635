//! Writes a payload in either encoding straight into the output buffer.
//!
//! Binary blocks are msgpack `bin`; in JSON they are arrays of numbers, or base64 text when the caller asked for it.
//! It is not a schema. Its invariant: as long as counts match what follows, the output is one valid value.

use crate::{Encoding, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A writer of values; open maps and arrays with their size, and close them with [`Encoder::end_map`] and
/// [`Encoder::end_array`].
pub struct Encoder<'o> {
    out: &'o mut Vec<u8>,
    /// Where its first value begins: what lies before that is another's, and says nothing about commas.
    start: usize,
    encoding: Encoding,
    base64: bool,
}

impl<'o> Encoder<'o> {
    /// Appends to `out`; `base64` chooses how binary blocks look in JSON.
    pub fn new(out: &'o mut Vec<u8>, encoding: Encoding, base64: bool) -> Self {
        Encoder {
            start: out.len(),
            out,
            encoding,
            base64,
        }
    }

    /// Opens a map of `len` entries.
    pub fn map(&mut self, len: usize) {
        match self.encoding {
            Encoding::Msgpack => self.sized(len, 0x80, 15, [0xde, 0xdf]),
            Encoding::Json => self.open(b'{'),
        }
    }

    /// Closes a map.
    pub fn end_map(&mut self) {
        if self.encoding == Encoding::Json {
            self.out.push(b'}');
        }
    }

    /// Opens an array of `len` items.
    pub fn array(&mut self, len: usize) {
        match self.encoding {
            Encoding::Msgpack => self.sized(len, 0x90, 15, [0xdc, 0xdd]),
            Encoding::Json => self.open(b'['),
        }
    }

    /// Closes an array.
    pub fn end_array(&mut self) {
        if self.encoding == Encoding::Json {
            self.out.push(b']');
        }
    }

    /// A map's key; its value follows.
    pub fn key(&mut self, key: &str) {
        self.text(key);
        if self.encoding == Encoding::Json {
            self.out.push(b':');
        }
    }

    /// null
    pub fn nil(&mut self) {
        self.literal(0xc0, "null");
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) {
        if value {
            self.literal(0xc3, "true")
        } else {
            self.literal(0xc2, "false")
        }
    }

    /// A whole number not below zero.
    pub fn uint(&mut self, value: u64) {
        if self.encoding == Encoding::Json {
            self.separate();
            self.out
                .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            return;
        }
        match value {
            0..=0x7f => self.out.push(value as u8),
            0x80..=0xff => self.out.extend_from_slice(&[0xcc, value as u8]),
            0x100..=0xffff => self.tagged(0xcd, &(value as u16).to_be_bytes()),
            0x1_0000..=0xffff_ffff => self.tagged(0xce, &(value as u32).to_be_bytes()),
            _ => self.tagged(0xcf, &value.to_be_bytes()),
        }
    }

    /// Any whole number.
    pub fn int(&mut self, value: i64) {
        if let Ok(value) = u64::try_from(value) {
            return self.uint(value);
        }
        if self.encoding == Encoding::Json {
            self.separate();
            self.out
                .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        } else if value >= -32 {
            self.out.push(value as u8);
        } else {
            self.tagged(0xd3, &value.to_be_bytes());
        }
    }

    /// A 32-bit float, with the shortest text that reads back the same.
    pub fn f32(&mut self, value: f32) {
        match self.encoding {
            Encoding::Msgpack => self.tagged(0xca, &value.to_be_bytes()),
            Encoding::Json if value.is_finite() => {
                self.separate();
                self.out
                    .extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
            }
            Encoding::Json => self.nil(),
        }
    }

    /// A 64-bit float.
    pub fn f64(&mut self, value: f64) {
        match self.encoding {
            Encoding::Msgpack => self.tagged(0xcb, &value.to_be_bytes()),
            Encoding::Json if value.is_finite() => {
                self.separate();
                self.out
                    .extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
            }
            Encoding::Json => self.nil(),
        }
    }

    /// Text.
    pub fn text(&mut self, value: &str) {
        match self.encoding {
            Encoding::Msgpack => {
                let len = value.len();
                match len {
                    0..=31 => self.out.push(0xa0 | len as u8),
                    32..=255 => self.out.extend_from_slice(&[0xd9, len as u8]),
                    _ => self.sized(len, 0, 0, [0xda, 0xdb]),
                }
                self.out.extend_from_slice(value.as_bytes());
            }
            Encoding::Json => {
                self.separate();
                self.out.push(b'"');
                escape_into(self.out, value);
                self.out.push(b'"');
            }
        }
    }

    /// A block of bytes: an array of their values in JSON.
    pub fn bytes(&mut self, value: &[u8]) {
        match self.encoding {
            Encoding::Msgpack => {
                match value.len() {
                    len @ 0..=255 => self.out.extend_from_slice(&[0xc4, len as u8]),
                    len => self.sized(len, 0, 0, [0xc5, 0xc6]),
                }
                self.out.extend_from_slice(value);
            }
            Encoding::Json if self.base64 => self.text(&STANDARD.encode(value)),
            Encoding::Json => self.numbers(value, |encoder, byte| encoder.uint(u64::from(*byte))),
        }
    }

    /// A block of f32, little-endian: an array of numbers in JSON.
    pub fn f32_block(&mut self, values: &[f32]) {
        self.block(values, f32::to_le_bytes, |encoder, value| encoder.f32(value));
    }

    /// A block of u64, little-endian: an array of numbers in JSON.
    pub fn u64_block(&mut self, values: &[u64]) {
        self.block(values, u64::to_le_bytes, |encoder, value| encoder.uint(value));
    }

    /// A block of u32, little-endian: an array of numbers in JSON.
    pub fn u32_block(&mut self, values: &[u32]) {
        self.block(values, u32::to_le_bytes, |encoder, value| {
            encoder.uint(u64::from(value))
        });
    }

    /// A block of numbers of `N` bytes each, little-endian; in JSON an array, each written by `write`.
    pub fn block<T: Copy, const N: usize>(
        &mut self,
        values: &[T],
        to_le: impl Fn(T) -> [u8; N],
        write: impl Fn(&mut Self, T),
    ) {
        if self.encoding == Encoding::Json && !self.base64 {
            return self.numbers(values, |encoder, value| write(encoder, *value));
        }
        self.le_block(values.iter().flat_map(|value| to_le(*value)), values.len() * N);
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
            Value::Array(items) => {
                self.array(items.len());
                items.iter().for_each(|item| self.value(item));
                self.end_array();
            }
            Value::Map(map) => {
                self.map(map.0.len());
                for (key, value) in &map.0 {
                    self.key(key);
                    self.value(value);
                }
                self.end_map();
            }
        }
    }

    /// A value that is written already, in this encoding.
    #[inline]
    pub fn raw(&mut self, value: &[u8]) {
        if self.encoding == Encoding::Json {
            self.separate();
        }
        self.out.extend_from_slice(value);
    }

    fn le_block(&mut self, bytes: impl Iterator<Item = u8>, len: usize) {
        if self.encoding == Encoding::Json {
            return self.text(&STANDARD.encode(bytes.collect::<Vec<u8>>()));
        }
        match len {
            0..=255 => self.out.extend_from_slice(&[0xc4, len as u8]),
            _ => self.sized(len, 0, 0, [0xc5, 0xc6]),
        }
        self.out.reserve(len);
        self.out.extend(bytes);
    }

    fn numbers<T>(&mut self, values: &[T], write: impl Fn(&mut Self, &T)) {
        self.array(values.len());
        values.iter().for_each(|value| write(self, value));
        self.end_array();
    }

    /// A msgpack size: in the tag itself up to `fix_max` (where there is such a form), else 16 or 32 bits.
    fn sized(&mut self, len: usize, fix: u8, fix_max: usize, [tag16, tag32]: [u8; 2]) {
        if fix_max > 0 && len <= fix_max {
            self.out.push(fix | len as u8);
        } else if let Ok(len) = u16::try_from(len) {
            self.tagged(tag16, &len.to_be_bytes());
        } else {
            self.tagged(tag32, &u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
        }
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.out.push(tag);
        self.out.extend_from_slice(bytes);
    }

    fn literal(&mut self, tag: u8, text: &str) {
        match self.encoding {
            Encoding::Msgpack => self.out.push(tag),
            Encoding::Json => {
                self.separate();
                self.out.extend_from_slice(text.as_bytes());
            }
        }
    }

    fn open(&mut self, bracket: u8) {
        self.separate();
        self.out.push(bracket);
    }

    /// A comma, unless this value is the first of all, of its map or of its array, or follows its key. Text always ends in a
    /// quote, so the last byte that was written here tells.
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
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Map, decode_map};
    use proptest::prelude::*;
    use std::borrow::Cow;

    fn encoded(encoding: Encoding, base64: bool, write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut Encoder::new(&mut out, encoding, base64));
        out
    }

    #[test]
    fn json_is_punctuated() {
        let json = encoded(Encoding::Json, false, |e| {
            e.map(5);
            e.key("scores");
            e.f32_block(&[0.5, -1.0, f32::NAN]);
            e.key("ok");
            e.bool(true);
            e.key("empty");
            e.map(0);
            e.end_map();
            e.key("text");
            e.text("a\"\\\n\u{1}é");
            e.key("keys");
            e.u64_block(&[u64::MAX]);
            e.end_map();
        });
        let expected = "{\"scores\":[0.5,-1.0,null],\"ok\":true,\"empty\":{},\"text\":\"a\\\"\\\\\\n\\u0001é\",\"keys\":[18446744073709551615]}";
        assert_eq!(String::from_utf8(json).unwrap(), expected);
    }

    #[test]
    fn blocks_are_bin_or_base64() {
        assert_eq!(
            encoded(Encoding::Msgpack, false, |e| e.f32_block(&[1.0])),
            [0xc4, 4, 0, 0, 0x80, 0x3f]
        );
        assert_eq!(
            encoded(Encoding::Json, true, |e| e.bytes(b"hello")),
            b"\"aGVsbG8=\""
        );
        let long = encoded(Encoding::Msgpack, false, |e| e.u64_block(&[0; 40]));
        assert_eq!(long[..3], [0xc5, 1, 64]);
        assert_eq!(long.len(), 3 + 320);
    }

    #[test]
    fn what_lies_before_the_first_value_separates_nothing() {
        for before in 0..=u8::MAX {
            let mut out = vec![before];
            let mut encoder = Encoder::new(&mut out, Encoding::Json, false);
            encoder.array(2);
            encoder.uint(1);
            encoder.raw(b"{}");
            encoder.end_array();
            assert_eq!(out[1..], *b"[1,{}]", "behind {before:#04x}");
        }
    }

    fn values() -> impl Strategy<Value = Value<'static>> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<bool>().prop_map(Value::Bool),
            any::<u64>().prop_map(Value::UInt),
            (i64::MIN..0).prop_map(Value::Int),
            (-1e300..1e300).prop_map(Value::Float),
            "\\PC{0,300}".prop_map(|text| Value::Text(Cow::Owned(text))),
        ];
        leaf.prop_recursive(3, 40, 20, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..20).prop_map(Value::Array),
                proptest::collection::btree_map("[a-z\"\\\\]{0,40}", inner, 0..20).prop_map(
                    |map| Value::Map(Map(map.into_iter().map(|(k, v)| (Cow::Owned(k), v)).collect()))
                ),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in values()) {
            let root = Value::Map(Map(vec![(Cow::Borrowed("v"), value)]));
            for encoding in [Encoding::Msgpack, Encoding::Json] {
                let bytes = encoded(encoding, false, |e| e.value(&root));
                let back = Value::Map(decode_map(encoding, &bytes).unwrap());
                prop_assert_eq!(&back, &root);
            }
        }
    }
}
