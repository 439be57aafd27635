//! An entry in the heap: version, when it expires, key, value.
//!
//! Short entries have one word before their key. Read by threads that may be late: whatever stands there, reading ends and stays within
//! bounds. Invariant: what a reader copied is one entry if the node that named it has not changed meanwhile.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU64, Ordering};

use super::heap::Heap;
use super::leaf::INLINE_MAX;

const WORD: usize = size_of::<u64>();
/// Words before a key at most.
const HEAD_MAX: usize = 3;
/// In the lowest bits of the first word: whether the entry is long, whether it expires (the last word before the key says when), and
/// whether its value is a list.
const LONG: u64 = 1;
const EXPIRES: u64 = 2;
const LIST: u64 = 4;
const FORM_BITS: u32 = 3;
/// Of a short entry: length of the value, length of the key, version.
const SHORT_VALUE_BITS: u32 = 9;
const SHORT_KEY_BITS: u32 = 5;
const SHORT_VERSION_SHIFT: u32 = FORM_BITS + SHORT_VALUE_BITS + SHORT_KEY_BITS;
/// Of a long one: length of the key, length of the value. Its version has a word.
const LONG_KEY_BITS: u32 = 20;

/// What is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub version: u64,
    /// Milliseconds of Unix time; 0 where it does not expire.
    pub expires_ms: u64,
    /// Whether the value is a list (`list`).
    pub is_list: bool,
}

/// What was known of an entry that is replaced or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Before {
    /// What [`Content::bytes`] gave.
    pub bytes: usize,
    pub expires: bool,
}

/// What becomes of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    Set(Content<'a>),
    Remove(&'a [u8]),
}

impl<'a> Change<'a> {
    pub fn key(&self) -> &'a [u8] {
        match self {
            Change::Set(content) => content.key,
            Change::Remove(key) => key,
        }
    }
}

/// Where an entry's parts are.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'h> {
    words: &'h [AtomicU64],
    pub version: u64,
    pub expires_ms: u64,
    pub is_list: bool,
    pub key_len: usize,
    pub value_len: usize,
    begin: usize,
    key_begin: usize,
}

fn bits(value: u64, shift: u32, bits: u32) -> usize {
    (value >> shift & ((1 << bits) - 1)) as usize
}

impl Content<'_> {
    fn is_long(&self) -> bool {
        self.key.len() >> SHORT_KEY_BITS != 0
            || self.value.len() >> SHORT_VALUE_BITS != 0
            || self.version >> (u64::BITS - SHORT_VERSION_SHIFT) != 0
    }

    /// Its words before the key, and how many there are.
    fn head(&self) -> ([u64; HEAD_MAX], usize) {
        let (key, value) = (self.key.len() as u64, self.value.len() as u64);
        let expires = if self.expires_ms == 0 { 0 } else { EXPIRES };
        let form = expires | if self.is_list { LIST } else { 0 };
        let long = (value << LONG_KEY_BITS | key) << FORM_BITS | LONG | form;
        let short =
            self.version << SHORT_VERSION_SHIFT | (key << SHORT_VALUE_BITS | value) << FORM_BITS | form;
        match (self.is_long(), self.expires_ms) {
            (true, 0) => ([long, self.version, 0], 2),
            (true, at) => ([long, self.version, at], 3),
            (false, 0) => ([short, 0, 0], 1),
            (false, at) => ([short, at, 0], 2),
        }
    }

    /// Of key and value, and of when it expires.
    pub fn bytes(&self) -> usize {
        content_bytes(self.key.len(), self.value.len(), self.expires_ms)
    }

    /// Bytes that it takes.
    pub(super) fn len_bytes(&self) -> usize {
        self.head().1 * WORD + self.key.len() + self.value.len()
    }

    /// Writes it to a run of its own, whose address it returns.
    pub(super) fn write(&self, heap: &Heap) -> u64 {
        let at = heap.take(self.len_bytes().div_ceil(WORD));
        self.write_at(heap.at(at).unwrap_or_default(), 0);
        at
    }

    /// Writes it to words from a byte on.
    pub(super) fn write_at(&self, words: &[AtomicU64], mut begin: usize) {
        let (head, len) = self.head();
        for word in head.iter().take(len) {
            write_bytes(words, begin, &word.to_le_bytes());
            begin += WORD;
        }
        write_bytes(words, begin, self.key);
        write_bytes(words, begin + self.key.len(), self.value);
    }
}

/// An entry as a leaf has it: whole, or its address.
pub(super) struct Encoded<'b> {
    bytes: &'b [u8],
    is_outside: bool,
}

impl<'b> Encoded<'b> {
    /// In a buffer where it is short, else in the heap.
    pub(super) fn of(content: &Content<'_>, heap: &Heap, buffer: &'b mut [u8; INLINE_MAX]) -> Encoded<'b> {
        let is_outside = content.len_bytes() > INLINE_MAX;
        let mut len = 0;
        let mut put = |bytes: &[u8]| {
            if let Some(place) = buffer.get_mut(len..len + bytes.len()) {
                place.copy_from_slice(bytes);
                len += bytes.len();
            }
        };
        if is_outside {
            put(&content.write(heap).to_le_bytes());
        } else {
            let (head, words) = content.head();
            head.iter().take(words).for_each(|word| put(&word.to_le_bytes()));
            put(content.key);
            put(content.value);
        }
        Encoded {
            bytes: buffer.get(..len).unwrap_or_default(),
            is_outside,
        }
    }

    /// As another leaf has it.
    pub(super) fn moved(bytes: &'b [u8], is_outside: bool) -> Encoded<'b> {
        Encoded { bytes, is_outside }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    pub(super) fn is_outside(&self) -> bool {
        self.is_outside
    }
}

/// What an entry has, beside what the tree needs for it.
pub(crate) fn content_bytes(key: usize, value: usize, expires_ms: u64) -> usize {
    key + value + if expires_ms == 0 { 0 } else { WORD }
}

/// What the words before a key say.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub version: u64,
    pub expires_ms: u64,
    pub is_list: bool,
    pub key_len: usize,
    pub value_len: usize,
    pub key_begin: usize,
}

impl Parts {
    /// Of the entry that begins at a byte, by the words that begin at bytes.
    #[inline(always)]
    pub(super) fn read(begin: usize, word_at: impl Fn(usize) -> u64) -> Parts {
        let first = word_at(begin);
        let mut key_begin = begin + WORD;
        let (key_len, value_len, version) = if first & LONG != 0 {
            let version = word_at(key_begin);
            key_begin += WORD;
            let key_len = bits(first, FORM_BITS, LONG_KEY_BITS);
            (key_len, (first >> (FORM_BITS + LONG_KEY_BITS)) as usize, version)
        } else {
            let key_len = bits(first, FORM_BITS + SHORT_VALUE_BITS, SHORT_KEY_BITS);
            (
                key_len,
                bits(first, FORM_BITS, SHORT_VALUE_BITS),
                first >> SHORT_VERSION_SHIFT,
            )
        };
        let mut expires_ms = 0;
        if first & EXPIRES != 0 {
            expires_ms = word_at(key_begin);
            key_begin += WORD;
        }
        Parts {
            version,
            expires_ms,
            is_list: first & LIST != 0,
            key_len,
            value_len,
            key_begin,
        }
    }
}

impl<'h> Cell<'h> {
    #[inline]
    pub(super) fn read(heap: &'h Heap, at: u64) -> Option<Cell<'h>> {
        Cell::read_at(heap.at(at)?, 0)
    }

    /// The entry that begins at a byte.
    #[inline(always)]
    pub(super) fn read_at(words: &'h [AtomicU64], begin: usize) -> Option<Cell<'h>> {
        let parts = Parts::read(begin, |at| word_at(words, at));
        Some(Cell {
            words,
            version: parts.version,
            expires_ms: parts.expires_ms,
            is_list: parts.is_list,
            key_len: parts.key_len,
            value_len: parts.value_len,
            begin,
            key_begin: parts.key_begin,
        })
    }

    /// What is to be known once it is replaced or removed.
    pub(super) fn before(&self) -> Before {
        Before {
            bytes: content_bytes(self.key_len, self.value_len, self.expires_ms),
            expires: self.expires_ms != 0,
        }
    }

    pub(super) fn words(&self) -> &'h [AtomicU64] {
        self.words
    }

    pub(super) fn begin(&self) -> usize {
        self.begin
    }

    /// Bytes that it takes.
    pub(super) fn len_bytes(&self) -> usize {
        self.key_begin - self.begin + self.key_len + self.value_len
    }

    /// Eight bytes of the key from `at` on as a number in the order of keys; behind its end zeros.
    #[inline]
    pub(super) fn word_of_key(&self, at: usize) -> u64 {
        let left = self.key_len.saturating_sub(at);
        if left == 0 {
            return 0;
        }
        let value = word_at(self.words, self.key_begin + at).to_be();
        if left < WORD {
            value & (u64::MAX << (8 * (WORD - left)))
        } else {
            value
        }
    }

    /// How its key compares with another.
    #[inline]
    pub(super) fn cmp_key(&self, key: &[u8]) -> Order {
        let mut at = 0;
        while at < self.key_len.min(key.len()) {
            match self.word_of_key(at).cmp(&word_of(key, at)) {
                Order::Equal => at += WORD,
                unequal => return unequal,
            }
        }
        self.key_len.cmp(&key.len())
    }

    /// Bytes that two keys begin with alike.
    pub(super) fn common(&self, other: &Cell<'_>) -> usize {
        let most = self.key_len.min(other.key_len);
        let mut at = 0;
        while at < most {
            let differing = self.word_of_key(at) ^ other.word_of_key(at);
            if differing != 0 {
                return (at + differing.leading_zeros() as usize / 8).min(most);
            }
            at += WORD;
        }
        most
    }

    pub(super) fn copy_key(&self, bytes: &mut Vec<u8>) {
        copy_bytes(self.words, self.key_begin, self.key_len, bytes);
    }

    /// The first four bytes of the value as a number; behind its end zeros.
    pub(crate) fn value_head(&self) -> u32 {
        let bytes = self.value_len.min(size_of::<u32>()) as u32;
        let word = word_at(self.words, self.key_begin + self.key_len);
        (word & ((1 << (8 * bytes)) - 1)) as u32
    }

    #[inline]
    pub(crate) fn copy_value(&self, bytes: &mut Vec<u8>) {
        copy_bytes(self.words, self.key_begin + self.key_len, self.value_len, bytes);
    }
}

/// Eight bytes from a byte on; what is not there is zeros.
#[inline(always)]
pub(super) fn word_at(words: &[AtomicU64], begin: usize) -> u64 {
    let (at, shift) = (begin / WORD, (begin % WORD) as u32 * 8);
    let load = |at: usize| words.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
    let low = load(at) >> shift;
    if shift == 0 {
        low
    } else {
        low | load(at + 1) << (64 - shift)
    }
}

/// Bytes from a byte on, behind what is in `bytes`; none where there are not so many.
#[inline]
pub(super) fn copy_bytes(words: &[AtomicU64], begin: usize, len: usize, bytes: &mut Vec<u8>) {
    if begin + len > words.len() * WORD {
        return;
    }
    let before = bytes.len();
    bytes.resize(before + len, 0);
    let (whole, rest) = bytes.get_mut(before..).unwrap_or_default().as_chunks_mut();
    let words_behind = begin + whole.len() * WORD;
    if begin.is_multiple_of(WORD) {
        let words = words.get(begin / WORD..).unwrap_or_default();
        for (place, word) in whole.iter_mut().zip(words) {
            *place = word.load(Ordering::Relaxed).to_le_bytes();
        }
    } else {
        for (at, place) in whole.iter_mut().enumerate() {
            *place = word_at(words, begin + at * WORD).to_le_bytes();
        }
    }
    if !rest.is_empty() {
        let word = word_at(words, words_behind).to_le_bytes();
        rest.iter_mut().zip(word).for_each(|(place, byte)| *place = byte);
    }
}

/// Writes bytes from a byte on, and leaves those around as they are.
#[inline]
pub(super) fn write_bytes(words: &[AtomicU64], mut begin: usize, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (at, skip) = (begin / WORD, begin % WORD);
        let Some(word) = words.get(at) else { return };
        let len = bytes.len().min(WORD - skip);
        let (now, behind) = bytes.split_at(len);
        let mut whole = [0; WORD];
        if len < WORD {
            whole = word.load(Ordering::Relaxed).to_le_bytes();
        }
        for (place, byte) in whole.iter_mut().skip(skip).zip(now) {
            *place = *byte;
        }
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        (begin, bytes) = (begin + len, behind);
    }
}

/// Eight bytes of a key from `at` on as a number in the order of keys; behind its end zeros.
#[inline]
pub(super) fn word_of(key: &[u8], at: usize) -> u64 {
    let rest = key.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(whole) => u64::from_be_bytes(*whole),
        None => rest
            .iter()
            .enumerate()
            .fold(0, |word, (at, byte)| word | u64::from(*byte) << (56 - 8 * at)),
    }
}
