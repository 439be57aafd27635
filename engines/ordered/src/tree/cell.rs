//! An entry in the heap: version, when it expires, key, value.
//!
//! Short entries have one word before their key. Read by threads that may be late: whatever stands there, reading ends and stays within
//! bounds. Invariant: what a reader copied is one entry if the node that named it has not changed meanwhile.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU64, Ordering};

use super::heap::Heap;
use super::leaf::INLINE_MAX;
use super::schedule::point;
use crate::put::VALUE_BYTES_MAX;

const WORD: usize = size_of::<u64>();
/// Words before a key at most.
const HEAD_MAX: usize = 3;
/// In the lowest bits of the first word: whether the entry is long, whether it expires (the last word before the key says when), and
/// whether its value is a list.
const LONG: u64 = 1;
const EXPIRES: u64 = 2;
const LIST: u64 = 4;
const FORM_BITS: u32 = 3;
const FORM_MASK: u64 = LONG | EXPIRES | LIST;
/// Of a short entry: length of the value, length of the key, version.
const SHORT_VALUE_BITS: u32 = 9;
const SHORT_KEY_BITS: u32 = 5;
const SHORT_VERSION_SHIFT: u32 = FORM_BITS + SHORT_VALUE_BITS + SHORT_KEY_BITS;
/// Bytes of a plain entry at most.
pub(super) const PLAIN_BYTES_MAX: usize = WORD + (1 << SHORT_KEY_BITS) + (1 << SHORT_VALUE_BITS) - 2;
/// Of a long one: length of the key, length of the value. Its version has a word.
const LONG_KEY_BITS: u32 = 20;

/// Lengths of key and value, and the version, of a plain entry, by the word before its key: most are short, do not expire and are no lists.
#[inline(always)]
pub(super) fn plain(word: u64) -> Option<(usize, usize, u64)> {
    let lengths = || {
        let key = bits(word, FORM_BITS + SHORT_VALUE_BITS, SHORT_KEY_BITS);
        (
            key,
            bits(word, FORM_BITS, SHORT_VALUE_BITS),
            word >> SHORT_VERSION_SHIFT,
        )
    };
    (word & FORM_MASK == 0).then(lengths)
}

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
        let at = heap.take(run_words(self.len_bytes(), self.is_list));
        let words = heap.at(at).unwrap_or_default();
        let ((head, len), mut begin) = (self.head(), 0);
        for (word, value) in words.iter().zip(head).take(len) {
            point();
            word.store(value, Ordering::Relaxed);
            begin += WORD;
        }
        write_bytes(words, begin, self.key);
        write_bytes(words, begin + self.key.len(), self.value);
        at
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
        let (head, words) = match is_outside {
            true => ([content.write(heap), 0, 0], 1),
            false => content.head(),
        };
        let (places, _) = buffer.as_chunks_mut();
        for (place, word) in places.iter_mut().zip(head).take(words) {
            *place = word.to_le_bytes();
        }
        let mut len = words * WORD;
        let parts = [content.key, content.value].into_iter();
        for bytes in parts.take_while(|_| !is_outside) {
            if let Some(place) = buffer.get_mut(len..len + bytes.len()) {
                place.copy_from_slice(bytes);
                len += bytes.len();
            }
        }
        Encoded {
            bytes: buffer.get(..len).unwrap_or_default(),
            is_outside,
        }
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

/// Words of the run that an entry of so many bytes has in the heap. Those of lists are of few lengths, a half or a third apart: what a list
/// has outgrown fits others that grow behind it.
fn run_words(bytes: usize, is_list: bool) -> usize {
    let words = bytes.div_ceil(WORD);
    if !is_list {
        return words;
    }
    let whole = words.next_power_of_two();
    let between = whole / 4 * 3;
    if words <= between { between } else { whole }
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
        Some(Cell::read_at(heap.at(at)?, 0))
    }

    /// The entry that begins at a byte.
    #[inline(always)]
    pub(super) fn read_at(words: &'h [AtomicU64], begin: usize) -> Cell<'h> {
        let parts = Parts::read(begin, |at| word_at(words, at));
        Cell {
            words,
            version: parts.version,
            expires_ms: parts.expires_ms,
            is_list: parts.is_list,
            key_len: parts.key_len,
            value_len: parts.value_len,
            begin,
            key_begin: parts.key_begin,
        }
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

    /// Words of its run, where it is in the heap.
    pub(super) fn run_words(&self) -> usize {
        run_words(self.len_bytes(), self.is_list)
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
        self.cmp_key_from(key, 0)
    }

    /// The same where they are known to begin with so many bytes alike.
    #[inline]
    pub(super) fn cmp_key_from(&self, key: &[u8], alike: usize) -> Order {
        let mut at = alike;
        while at < self.key_len.min(key.len()) {
            match self.word_of_key(at).cmp(&word_of(key, at)) {
                Order::Equal => at += WORD,
                unequal => return unequal,
            }
        }
        self.key_len.cmp(&key.len())
    }

    /// How its key compares with another entry's.
    pub(super) fn cmp(&self, other: &Cell<'_>) -> Order {
        let alike = self.common(other);
        let words = (self.word_of_key(alike), other.word_of_key(alike));
        words.0.cmp(&words.1).then(self.key_len.cmp(&other.key_len))
    }

    /// How the first bytes of its key, so many, compare with those of another; where that is shorter, with zeros behind it.
    #[inline(always)]
    pub(super) fn cmp_begin(&self, key: &[u8], bytes: usize) -> Order {
        let mut at = 0;
        while at < bytes {
            let behind = 8 * WORD.saturating_sub(bytes - at) as u32;
            let (own, other) = (self.word_of_key(at) >> behind, word_of(key, at) >> behind);
            match own.cmp(&other) {
                Order::Equal => at += WORD,
                unequal => return unequal,
            }
        }
        Order::Equal
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

    /// Whether it is longer than any entry: what a reader that is late has found.
    #[inline(always)]
    pub(super) fn is_none(&self) -> bool {
        self.value_len > VALUE_BYTES_MAX
    }

    /// Its value; none of it where it is no entry, but what a reader that is late has found.
    #[inline]
    pub(crate) fn value(&self) -> Vec<u8> {
        let begin = self.key_begin + self.key_len;
        if self.is_none() || begin + self.value_len > self.words.len() * WORD {
            return Vec::new();
        }
        let mut value = Vec::with_capacity(self.value_len);
        copy_bytes(self.words, begin, self.value_len, &mut value);
        value
    }
}

/// Eight bytes from a byte on; what is not there is zeros.
#[inline(always)]
pub(super) fn word_at(words: &[AtomicU64], begin: usize) -> u64 {
    let (at, shift) = (begin / WORD, (begin % WORD) as u32 * 8);
    let load = |at: usize| {
        point();
        words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    };
    // Shifted in two steps, the second word is nothing where the first has all bytes.
    load(at) >> shift | load(at + 1) << 1 << (63 - shift)
}

/// Words that are put together before they are copied.
const COPIED_WORDS: usize = 8;

/// Bytes from a byte on, behind what is in `bytes`; none where there are not so many.
#[inline]
pub(super) fn copy_bytes(words: &[AtomicU64], begin: usize, len: usize, bytes: &mut Vec<u8>) {
    if begin + len > words.len() * WORD {
        return;
    }
    bytes.reserve(len);
    let (words, shift) = (
        words.get(begin / WORD..).unwrap_or_default(),
        (begin % WORD) as u32 * 8,
    );
    let mut words = words.iter().map(|word| {
        point();
        word.load(Ordering::Relaxed)
    });
    let mut low = words.next().unwrap_or_default();
    let (mut left, mut some) = (len, [[0; WORD]; COPIED_WORDS]);
    while left > 0 {
        let now = left.min(COPIED_WORDS * WORD);
        for place in some.iter_mut().take(now.div_ceil(WORD)) {
            let high = words.next().unwrap_or_default();
            *place = (low >> shift | high << 1 << (63 - shift)).to_le_bytes();
            low = high;
        }
        bytes.extend_from_slice(some.as_flattened().get(..now).unwrap_or_default());
        left -= now;
    }
}

/// Writes bytes from a byte on, and leaves those around as they are.
#[inline]
pub(super) fn write_bytes(words: &[AtomicU64], begin: usize, mut bytes: &[u8]) {
    let mut words = words.get(begin / WORD..).unwrap_or_default();
    let skip = begin % WORD;
    if let (true, [word, behind @ ..]) = (skip != 0, words) {
        let (now, later) = bytes.split_at(bytes.len().min(WORD - skip));
        write_part(word, skip, now);
        (words, bytes) = (behind, later);
    }
    let (whole, rest) = bytes.as_chunks();
    for (word, bytes) in words.iter().zip(whole) {
        point();
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if let (false, Some(word)) = (rest.is_empty(), words.get(whole.len())) {
        write_part(word, 0, rest);
    }
}

/// Writes fewer than eight bytes of a word, behind so many of them.
#[inline]
fn write_part(word: &AtomicU64, skip: usize, bytes: &[u8]) {
    let shift = 8 * skip as u32;
    let value = match (bytes.first_chunk(), bytes.last_chunk()) {
        // They overlap.
        (Some(first), Some(last)) => {
            let behind = 8 * (bytes.len() - size_of::<u32>()) as u32;
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << behind
        }
        _ => bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)),
    };
    let mask = !(u64::MAX << (8 * bytes.len() as u32)) << shift;
    point();
    let others = word.load(Ordering::Relaxed) & !mask;
    word.store(others | value << shift, Ordering::Relaxed);
}

/// Eight bytes of a key from `at` on as a number in the order of keys; behind its end zeros.
#[inline]
pub(super) fn word_of(key: &[u8], at: usize) -> u64 {
    let rest = key.get(at..).unwrap_or_default();
    if let Some(whole) = rest.first_chunk() {
        return u64::from_be_bytes(*whole);
    }
    let behind = 8 * (WORD - rest.len()) as u32;
    if let (Some(last), false) = (key.last_chunk(), rest.is_empty()) {
        // With bytes before `at`, which are shifted out.
        return u64::from_be_bytes(*last) << behind;
    }
    match (rest.first_chunk(), rest.last_chunk()) {
        // They overlap where there are fewer than eight.
        (Some(first), Some(last)) => {
            u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << behind
        }
        _ => rest
            .iter()
            .enumerate()
            .fold(0, |word, (at, byte)| word | u64::from(*byte) << (56 - 8 * at)),
    }
}
