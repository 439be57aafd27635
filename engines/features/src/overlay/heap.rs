//! Fresh rows that vary in length, one behind the other in words: one thread appends them, any copies them.
//!
//! Knows no keys, and gives nothing back: the index makes another heap. Invariant: the words of a row are written once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::cells::{WORD_BYTES, copy_row, write_row};

/// Words that are made at a time, as a power of two. A row may begin in one chunk and end in another.
const CHUNK_BITS: u32 = 13;
pub(super) const CHUNK_WORDS: usize = 1 << CHUNK_BITS;

pub(super) struct Heap {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    /// Words that are used. The writer's.
    end: AtomicUsize,
}

/// Words of a row.
pub(super) fn words_of(row: &[u8]) -> usize {
    row.len().div_ceil(WORD_BYTES)
}

impl Heap {
    /// Of at least so many words, whose memory is made when they are written.
    pub fn new(words: usize) -> Heap {
        let chunks = words.div_ceil(CHUNK_WORDS);
        Heap {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            end: AtomicUsize::new(0),
        }
    }

    /// Words that are used.
    pub fn used(&self) -> usize {
        self.end.load(Ordering::Relaxed)
    }

    pub fn has_room(&self, words: usize) -> bool {
        self.used() + words <= self.chunks.len() << CHUNK_BITS
    }

    /// Appends a row; where it begins. Nobody reads it before they know that.
    pub fn append(&self, row: &[u8]) -> usize {
        let begin = self.used();
        let (mut at, mut row) = (begin, row);
        while !row.is_empty() {
            let Some(chunk) = self.chunks.get(at >> CHUNK_BITS) else {
                break;
            };
            let chunk = chunk.get_or_init(|| (0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect());
            let words = chunk.get(at % CHUNK_WORDS..).unwrap_or_default();
            let (now, rest) = row.split_at(row.len().min(words.len() * WORD_BYTES));
            write_row(words, now);
            at += now.len().div_ceil(WORD_BYTES);
            row = rest;
        }
        self.end.store(at, Ordering::Relaxed);
        begin
    }

    /// Copies the row that begins there and is as long as `row`; where there is none, some bytes or nothing.
    pub fn copy(&self, begin: usize, row: &mut [u8]) {
        let (mut at, mut row) = (begin, row);
        while !row.is_empty() {
            let Some(chunk) = self.chunks.get(at >> CHUNK_BITS).and_then(OnceLock::get) else {
                return;
            };
            let words = chunk.get(at % CHUNK_WORDS..).unwrap_or_default();
            let (now, rest) = row.split_at_mut(row.len().min(words.len() * WORD_BYTES));
            copy_row(words, now);
            at += words.len();
            row = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_across_chunks() {
        let rows: Vec<Vec<u8>> = (0..20_u8)
            .map(|at| vec![at; usize::from(at) * 5000 + 3])
            .collect();
        let words: usize = rows.iter().map(|row| words_of(row)).sum();
        let heap = Heap::new(words);
        let begins: Vec<usize> = rows.iter().map(|row| heap.append(row)).collect();
        assert_eq!(heap.used(), words);
        assert!(heap.has_room(0) && !heap.has_room(CHUNK_WORDS));
        for (begin, row) in begins.into_iter().zip(rows) {
            let mut copied = vec![99; row.len()];
            heap.copy(begin, &mut copied);
            assert_eq!(copied, row);
        }
        // What a reader makes of a torn cell.
        heap.copy(usize::MAX >> 20, &mut [0; 9]);
        heap.copy(words - 1, &mut vec![0; 200_000]);
    }
}
