//! Cells of fresh rows, as many words each: one thread writes them, any copies them, and none waits.
//!
//! Knows no places and looks nothing up. Invariant: words that [`Copied::is_still`] vouches for were all written by one call of
//! [`Cells::write`].

use millpond_prefetch::prefetch;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::heap::{Heap, words_of};
use super::index::Entry;
use super::stamp::Stamp;
use super::stored::VARYING;
use crate::schema::ROW_BYTES_MAX;

/// Words before the row: version, key, sequence; and of a stamp, where cells have one.
const HEAD_WORDS: usize = 3;
const STAMP_WORDS: usize = 2;
pub(super) const WORD_BYTES: usize = size_of::<u64>();
/// In place of a row that varies in length: where it begins in the heap, and in the lowest bits its length.
const PLACE_WORDS: usize = 1;
const LENGTH_BITS: u32 = 20;
const _: () = assert!(ROW_BYTES_MAX < 1 << LENGTH_BITS);
const LINE_WORDS: usize = 64 / WORD_BYTES;
/// About the memory that is made at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// The version of a cell without an entry, or whose entry is being written. Any other is the time of writing in milliseconds above
/// 16 bits: 15 count the entries that the cell has had, from 1 and around, and the lowest is set of a removal. A cell would have to
/// be written 32,767 times in a millisecond to have a version twice.
const UNWRITTEN: u64 = 0;
const TIME_SHIFT: u32 = 16;
const TIME_MAX: u64 = u64::MAX >> TIME_SHIFT;
const COUNT_MAX: u64 = (1 << (TIME_SHIFT - 1)) - 1;
const REMOVED: u64 = 1;

/// Cells by number. Their memory is made when they are written first.
pub(super) struct Cells {
    row_bytes: usize,
    stamp_words: usize,
    words: usize,
    /// The rows, where they vary in length.
    heap: Heap,
    /// Cells of a chunk, as a power of two.
    chunk_bits: u32,
    chunks: Box<[OnceLock<Chunk>]>,
}

struct Chunk {
    words: Box<[AtomicU64]>,
    /// Where its first cache line begins.
    first: usize,
}

/// What was read of a cell, and may have been torn by a writer.
#[derive(Clone, Copy)]
pub(super) struct Copied<'c> {
    /// Its version now.
    cell: &'c AtomicU64,
    version: u64,
    pub entry: Entry<()>,
}

impl Cells {
    /// As many cells as `count`, of rows of so many bytes; where these vary, with room for as many words of them as `heap_words`.
    pub fn new(row_bytes: usize, has_stamps: bool, count: usize, heap_words: usize) -> Cells {
        let stamp_words = if has_stamps { STAMP_WORDS } else { 0 };
        let row_words = match row_bytes {
            VARYING => PLACE_WORDS,
            bytes => bytes.div_ceil(WORD_BYTES),
        };
        let words = HEAD_WORDS + stamp_words + row_words;
        let fitting = (CHUNK_BYTES / (words * WORD_BYTES)).max(1);
        let chunk_bits = fitting.ilog2();
        Cells {
            row_bytes,
            stamp_words,
            words,
            heap: Heap::new(if row_bytes == VARYING { heap_words } else { 0 }),
            chunk_bits,
            chunks: (0..count.div_ceil(1 << chunk_bits))
                .map(|_| OnceLock::new())
                .collect(),
        }
    }

    fn cell(&self, number: u32) -> Option<&[AtomicU64]> {
        let chunk = self.chunks.get((number >> self.chunk_bits) as usize)?.get()?;
        let at = number as usize & ((1 << self.chunk_bits) - 1);
        let begin = chunk.first + at * self.words;
        chunk.words.get(begin..begin + self.words)
    }

    /// Asks for a cell that will be copied.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        let cell = self.cell(number).unwrap_or_default();
        // A long row is followed by the processor itself.
        for line in [cell.first(), cell.get(LINE_WORDS)] {
            line.into_iter().for_each(prefetch);
        }
    }

    /// Copies a cell: its row too, behind what is in `rows`, where the key is the `wanted` one. Nothing where none was ever.
    #[inline]
    pub fn copy(&self, number: u32, wanted: Option<u64>, rows: &mut Vec<u8>) -> Option<Copied<'_>> {
        let [cell, key, sequence, rest @ ..] = self.cell(number)? else {
            return None;
        };
        let (stamp, words) = rest.split_at_checked(self.stamp_words)?;
        let version = cell.load(Ordering::Acquire);
        let key = key.load(Ordering::Relaxed);
        let is_row = version & REMOVED == 0;
        if is_row && wanted == Some(key) {
            self.copy_row(words, rows);
        }
        Some(Copied {
            cell,
            version,
            entry: Entry {
                key,
                sequence: sequence.load(Ordering::Relaxed),
                written_ms: version >> TIME_SHIFT,
                stamp: read_stamp(stamp),
                row: is_row.then_some(()),
            },
        })
    }

    /// Writes a cell that no place names.
    pub fn write<R: AsRef<[u8]>>(&self, number: u32, entry: &Entry<R>) {
        let Some([version, key, sequence, rest @ ..]) = self.made(number) else {
            return;
        };
        let (stamp, words) = rest.split_at_checked(self.stamp_words).unwrap_or_default();
        let count = (version.load(Ordering::Relaxed) >> 1 & COUNT_MAX) % COUNT_MAX + 1;
        version.store(UNWRITTEN, Ordering::Relaxed);
        // A reader that finds a word from below finds the version changed when it looks again.
        fence(Ordering::Release);
        key.store(entry.key, Ordering::Relaxed);
        sequence.store(entry.sequence, Ordering::Relaxed);
        for (word, of_stamp) in stamp.iter().zip([entry.stamp.time, entry.stamp.origin]) {
            word.store(of_stamp, Ordering::Relaxed);
        }
        if let Some(row) = &entry.row {
            self.write_row(words, row.as_ref());
        }
        let removed = if entry.row.is_some() { 0 } else { REMOVED };
        let time = entry.written_ms.min(TIME_MAX) << TIME_SHIFT;
        version.store(time | count << 1 | removed, Ordering::Release);
    }

    /// Writes a cell that was never written as another of `from` is, whose cells may have no stamps. The writer of both calls it.
    pub fn write_as(&self, number: u32, from: &Cells, other: u32) {
        let (Some(to), Some(cell)) = (self.made(number), from.cell(other)) else {
            return;
        };
        let (head, row) = cell
            .split_at_checked(HEAD_WORDS + from.stamp_words)
            .unwrap_or_default();
        let (to_head, to_row) = to
            .split_at_checked(HEAD_WORDS + self.stamp_words)
            .unwrap_or_default();
        for (to, from) in to_head.iter().zip(head).chain(to_row.iter().zip(row)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if self.row_bytes == VARYING && from.heap_words_of(other) > 0 {
            let mut whole = Vec::new();
            from.copy_row(row, &mut whole);
            self.write_row(to_row, &whole);
        }
    }

    #[inline]
    fn copy_row(&self, words: &[AtomicU64], rows: &mut Vec<u8>) {
        let begin = rows.len();
        if self.row_bytes != VARYING {
            rows.resize(begin + self.row_bytes, 0);
            return copy_row(words, rows.get_mut(begin..).unwrap_or_default());
        }
        let place = words.first().map_or(0, |word| word.load(Ordering::Relaxed));
        // A torn one may say anything.
        rows.resize(begin + length_in(place).min(ROW_BYTES_MAX), 0);
        let row = rows.get_mut(begin..).unwrap_or_default();
        self.heap.copy((place >> LENGTH_BITS) as usize, row);
    }

    fn write_row(&self, words: &[AtomicU64], row: &[u8]) {
        if self.row_bytes != VARYING {
            return write_row(words, row);
        }
        let place = (self.heap.append(row) as u64) << LENGTH_BITS | row.len() as u64;
        if let Some(word) = words.first() {
            word.store(place, Ordering::Relaxed);
        }
    }

    /// Words that the row of a cell takes in the heap. The writer's.
    pub fn heap_words_of(&self, number: u32) -> usize {
        let place = self.cell(number).and_then(|cell| {
            let is_row = cell.first()?.load(Ordering::Relaxed) & REMOVED == 0;
            cell.get(HEAD_WORDS + self.stamp_words).filter(|_| is_row)
        });
        match place.filter(|_| self.row_bytes == VARYING) {
            Some(place) => length_in(place.load(Ordering::Relaxed)).div_ceil(WORD_BYTES),
            None => 0,
        }
    }

    /// Words that a row would take there.
    pub fn heap_words(&self, row: &[u8]) -> usize {
        if self.row_bytes == VARYING {
            words_of(row)
        } else {
            0
        }
    }

    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// A cell that is about to be written.
    fn made(&self, number: u32) -> Option<&[AtomicU64]> {
        let chunk = self.chunks.get((number >> self.chunk_bits) as usize)?;
        chunk.get_or_init(|| Chunk::new(self.words << self.chunk_bits));
        self.cell(number)
    }

    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    pub fn has_stamps(&self) -> bool {
        self.stamp_words > 0
    }

    /// Memory of one.
    pub fn cell_bytes(&self) -> u64 {
        (self.words * WORD_BYTES) as u64
    }
}

impl Chunk {
    fn new(words: usize) -> Chunk {
        let made = (0..words + LINE_WORDS - 1).map(|_| AtomicU64::new(UNWRITTEN));
        let made: Box<[AtomicU64]> = made.collect();
        let first = made.as_ptr().align_offset(LINE_WORDS * WORD_BYTES);
        Chunk {
            first: first.min(LINE_WORDS - 1),
            words: made,
        }
    }
}

impl Copied<'_> {
    /// Whether the cell has been as it was copied until now. To be asked behind an acquire fence.
    #[inline]
    pub fn is_still(&self) -> bool {
        let version = self.cell.load(Ordering::Relaxed);
        version == self.version && version != UNWRITTEN
    }
}

#[inline]
fn read_stamp(words: &[AtomicU64]) -> Stamp {
    let [time, origin] = words else {
        return Stamp::default();
    };
    Stamp {
        time: time.load(Ordering::Relaxed),
        origin: origin.load(Ordering::Relaxed),
    }
}

fn length_in(place: u64) -> usize {
    (place & ((1 << LENGTH_BITS) - 1)) as usize
}

#[inline]
pub(super) fn copy_row(words: &[AtomicU64], row: &mut [u8]) {
    let (whole, rest) = row.as_chunks_mut();
    for (place, word) in whole.iter_mut().zip(words) {
        *place = word.load(Ordering::Relaxed).to_le_bytes();
    }
    if let Some(word) = words.get(whole.len()) {
        let bytes = word.load(Ordering::Relaxed).to_le_bytes();
        rest.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    }
}

pub(super) fn write_row(words: &[AtomicU64], row: &[u8]) {
    for (word, bytes) in words.iter().zip(row.chunks(WORD_BYTES)) {
        let mut whole = [0; WORD_BYTES];
        whole
            .iter_mut()
            .zip(bytes)
            .for_each(|(place, byte)| *place = *byte);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
}
