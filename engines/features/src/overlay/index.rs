//! The fresh rows in memory, by key: written by one thread, read by any without a lock.
//!
//! Not durable, and blind to time and versions: a reader judges what it finds. Invariant: a reader finds an entry whole, the one
//! before or the one after a write, whatever the writer does, and waits for no writer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};

use super::cells::WORD_BYTES;
use super::heap::CHUNK_WORDS;
use super::renewal::Renewal;
use super::seed::Seed;
use super::slots::{GROUP, Slots, Sought, Spot};
use super::stamp::Stamp;

/// Groups of the smallest index, and behind the last home, or twice as many until all keys have a place.
const HOMES_MIN: usize = 8;
const TAIL: usize = 8;
/// Places that are used, of sixteen: with more a search would go over many groups.
const USED_OF_16: usize = 13;
/// What an entry's place takes: a seventh of a word, the number of a cell and two bytes of the filter, twice over right after a growth.
const PLACE_BYTES: u64 = 15;
/// Cells that were left rest while so many others were: a reader in the midst of one finds it as it was.
const RESTING: usize = 64;
/// Left cells are given back where they are three of four, and more than those.
const LEFT_MIN: u32 = 1024;

/// What was written of a key last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<R = Box<[u8]>> {
    pub key: u64,
    /// Of the upsert that wrote it.
    pub sequence: u64,
    /// When, by the overlay's clock.
    pub written_ms: u64,
    /// Which of two servers' upserts it is of; none where one server takes them all.
    pub stamp: Stamp,
    /// As stored; none where the key was removed.
    pub row: Option<R>,
}

/// The index.
pub(crate) struct Index {
    slots: ArcSwap<Slots>,
    entries: AtomicU64,
    /// Of rows that vary in length.
    row_words: AtomicU64,
}

/// The places that readers have. Entries change meanwhile, until the index has others.
pub(crate) type Pinned = Guard<Arc<Slots>>;

/// The writer's side: what it counts beside the places.
pub(crate) struct Writer {
    index: Arc<Index>,
    /// Those of the index.
    slots: Arc<Slots>,
    /// How many eighths of groups have come to lead searches on since the index has these places. Keys that went leave them so.
    led: usize,
    renewal: Renewal,
    /// Cells that were written ever.
    cells: u32,
    /// Those of them that no place names, the longest left first.
    left: VecDeque<u32>,
}

impl Index {
    /// Without an entry, and the one writer it has. Rows have so many bytes, or each its own where these are
    /// [`VARYING`](super::stored::VARYING).
    pub(crate) fn new(row_bytes: usize) -> (Arc<Index>, Writer) {
        Index::with_seed(Seed::of_process(), row_bytes)
    }

    /// The same whose keys lie by that seed.
    pub(super) fn with_seed(seed: Seed, row_bytes: usize) -> (Arc<Index>, Writer) {
        let slots = Arc::new(Slots::new(
            seed,
            (row_bytes, false),
            (HOMES_MIN, TAIL),
            (RESTING + 1, CHUNK_WORDS),
        ));
        let index = Arc::new(Index {
            slots: ArcSwap::new(Arc::clone(&slots)),
            entries: AtomicU64::new(0),
            row_words: AtomicU64::new(0),
        });
        let writer = Writer {
            index: Arc::clone(&index),
            slots,
            led: 0,
            renewal: Renewal::default(),
            cells: 0,
            left: VecDeque::new(),
        };
        (index, writer)
    }

    /// Rows and removals. One atomic load.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = self.row_words.load(Ordering::Relaxed) * WORD_BYTES as u64;
        self.len().saturating_mul(self.entry_bytes()).saturating_add(rows)
    }

    /// Memory that one takes, a row or a removal, beside a row that varies in length.
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.slots.load().cells.cell_bytes() + PLACE_BYTES
    }

    /// Memory beside it of such a row of so many bytes.
    pub(crate) fn row_bytes(bytes: usize) -> u64 {
        bytes.next_multiple_of(WORD_BYTES) as u64
    }

    #[inline]
    pub(crate) fn pin(&self) -> Pinned {
        self.slots.load()
    }
}

impl Writer {
    /// What was written of a key last, without its row.
    pub(crate) fn get(&self, key: u64) -> Option<Entry<()>> {
        self.slots.head(key)
    }

    /// Asks for what writing these keys, 64 at most, reads first.
    pub(crate) fn prefetch(&self, keys: impl Iterator<Item = u64>) {
        let (mut sought, mut asked) = ([Sought::default(); 64], 0_u64);
        for (place, key) in sought.iter_mut().zip(keys) {
            *place = self.slots.sought(self.slots.hash(key));
            asked = asked << 1 | 1;
        }
        if asked > 1 {
            self.slots.candidates(&mut sought, asked);
        }
    }

    /// Memory beside the entry of what was written of a key last, where rows vary in length; nothing where nothing was.
    pub(crate) fn row_bytes_of(&self, key: u64) -> Option<u64> {
        match self.slots.spot(key, self.slots.hash(key)) {
            Spot::There(place) => {
                let cell = self.slots.number_at(place).checked_sub(1)?;
                Some((self.slots.cells.heap_words_of(cell) * WORD_BYTES) as u64)
            }
            _ => None,
        }
    }

    pub(crate) fn put<R: AsRef<[u8]>>(&mut self, entry: &Entry<R>) {
        let (cells, row) = (&self.slots.cells, entry.row.as_ref());
        let words = row.map_or(0, |row| cells.heap_words(row.as_ref()));
        // From the first one on that has a stamp, all cells have room for one.
        if entry.stamp.is_some() && !cells.has_stamps() || !cells.heap().has_room(words) {
            self.move_all(entry.stamp.is_some(), words, None::<&Entry<R>>);
        }
        self.index.row_words.fetch_add(words as u64, Ordering::Relaxed);
        let hash = self.slots.hash(entry.key);
        match self.slots.spot(entry.key, hash) {
            Spot::There(place) => {
                let cell = self.free_cell();
                self.slots.cells.write(cell, entry);
                if let Some(cell) = self.slots.replace(place, cell) {
                    self.leave(cell);
                }
            }
            spot => {
                // Counted first: a reader that sees the count looks, and one that does not finds the entry the next time.
                let entries = self.index.entries.fetch_add(1, Ordering::Release) as usize;
                let capacity = self.slots.capacity();
                match spot {
                    Spot::Free(place)
                        if entries < capacity * USED_OF_16 / 16 && self.led <= capacity / GROUP =>
                    {
                        let cell = self.free_cell();
                        self.slots.cells.write(cell, entry);
                        self.led += self.slots.occupy(place, entry.key, cell);
                        self.renewal.added(&self.slots, entry.key);
                    }
                    _ => self.move_all(false, words, Some(entry)),
                }
            }
        }
    }

    /// A cell that no place names.
    fn free_cell(&mut self) -> u32 {
        let rested = if self.left.len() > RESTING {
            self.left.pop_front()
        } else {
            None
        };
        rested.unwrap_or_else(|| {
            self.cells += 1;
            self.cells - 1
        })
    }

    /// No place names a cell any more.
    fn leave(&mut self, cell: u32) {
        let words = self.slots.cells.heap_words_of(cell) as u64;
        self.index.row_words.fetch_sub(words, Ordering::Relaxed);
        self.left.push_back(cell);
    }

    /// Moves everything to as many places as it needs, and one entry more there. There is room for a row of `words` then.
    fn move_all<R: AsRef<[u8]>>(&mut self, has_stamps: bool, words: usize, more: Option<&Entry<R>>) {
        let entries = usize::try_from(self.index.len()).unwrap_or(usize::MAX);
        let homes = entries.saturating_mul(2).div_ceil(GROUP).max(HOMES_MIN);
        let row_words = self.index.row_words.load(Ordering::Relaxed) as usize;
        let heap_words = (row_words + words) * 2 + CHUNK_WORDS;
        let mut tail = TAIL;
        loop {
            let cells = &self.slots.cells;
            let kind = (cells.row_bytes(), has_stamps || cells.has_stamps());
            let slots = Slots::new(self.slots.seed, kind, (homes, tail), (RESTING + 1, heap_words));
            if let Some(cells) = moved(&slots, &self.slots, more) {
                self.led = 0;
                self.renewal = Renewal::default();
                self.cells = cells;
                self.left.clear();
                self.slots = Arc::new(slots);
                self.index.slots.store(Arc::clone(&self.slots));
                return;
            }
            // Too many keys behind the last homes. However many homes there were, those keys could share the last one.
            tail *= 2;
        }
    }

    /// The lowest sequence of an entry. Looks at all places.
    pub(crate) fn first_sequence(&self) -> Option<u64> {
        let entries = (0..self.slots.places()).filter_map(|place| self.slots.head_at(place));
        entries.map(|entry| entry.sequence).min()
    }

    /// Takes away what `goes` of the entries in some places, from `from` on. Where the next call goes on, or nothing at the end.
    pub(crate) fn take_away(
        &mut self,
        from: usize,
        places: usize,
        goes: impl Fn(&Entry<()>) -> bool,
    ) -> (u64, Option<usize>) {
        let (end, last) = (from.saturating_add(places), self.slots.places());
        let mut count = 0;
        for place in from..end.min(last) {
            if !self.slots.head_at(place).is_some_and(|entry| goes(&entry)) {
                continue;
            }
            if let Some(cell) = self.slots.empty(place) {
                self.leave(cell);
                self.index.entries.fetch_sub(1, Ordering::Release);
                count += 1;
            }
        }
        let has_few = self.cells > LEFT_MIN && self.index.len() < u64::from(self.cells / 4);
        let heap_used = self.slots.cells.heap().used();
        let row_words = self.index.row_words.load(Ordering::Relaxed) as usize;
        if count > 0 && (has_few || heap_used > LEFT_MIN as usize * WORD_BYTES && row_words < heap_used / 4) {
            self.move_all(false, 0, None::<&Entry>);
        }
        (count, (end < last).then_some(end))
    }
}

/// Puts all that is in `from` and one entry more into slots that are empty; how many cells they take, or nothing where they have no place.
fn moved<R: AsRef<[u8]>>(to: &Slots, from: &Slots, more: Option<&Entry<R>>) -> Option<u32> {
    let cells = to.take_over(from)?;
    let Some(entry) = more else { return Some(cells) };
    let Spot::Free(place) = to.spot(entry.key, to.hash(entry.key)) else {
        return None;
    };
    to.cells.write(cells, entry);
    to.occupy(place, entry.key, cells);
    Some(cells + 1)
}

#[cfg(test)]
mod tests;
