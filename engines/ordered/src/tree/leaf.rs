//! A leaf: a page of entries. Slots in the order of keys grow from its begin, and the entries themselves from its end.
//!
//! A slot has the first bytes of a key behind what all keys share, and where the entry begins. Entries that are too large have their place
//! in the heap, and the page has the address. Only who has the leaf's lock changes it.

use std::cmp::Ordering as Order;
use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cell::{Cell, Encoded, word_of, write_bytes};
use super::heap::Heap;
use super::node::{HEAD_WORDS, LINE_WORDS, Node, OWN, move_up};
use super::schedule::point;

use millpond_prefetch::prefetch;

pub(super) const LEAF_WORDS: usize = 256;
const PAGE_BYTES: usize = LEAF_WORDS * WORD;
const WORD: usize = size_of::<u64>();
pub(super) const SLOTS: usize = HEAD_WORDS;
/// Bytes that slots and entries have.
pub(super) const ROOM: usize = PAGE_BYTES - HEAD_WORDS * WORD;
/// Larger entries are in the heap.
pub(super) const INLINE_MAX: usize = 64;
/// A slot: 51 bits of the key, its start, whether the entry is in the heap, and the byte at which it, or its address, begins.
const START_MASK: u64 = u64::MAX << 13;
pub(super) const OUTSIDE: u64 = 1 << 12;
pub(super) const PLACE_MASK: u64 = OUTSIDE - 1;

#[derive(Clone, Copy)]
pub(super) struct Leaf<'t>(pub Node<'t>);

#[inline(always)]
fn start_of(word: u64) -> u64 {
    word & START_MASK
}

impl<'t> Leaf<'t> {
    pub(super) fn begin(&self) {
        self.set_room(PAGE_BYTES, 0);
    }

    /// The first byte of an entry, and bytes between entries that are no more.
    fn room(&self) -> (usize, usize) {
        let word = self.0.word(OWN);
        (word as usize & 0xffff, (word >> 16) as usize & 0xffff)
    }

    fn set_room(&self, first: usize, lost: usize) {
        self.0.set(OWN, (lost << 16 | first) as u64);
    }

    /// The word behind its slots, and the one in which its entries begin.
    pub(super) fn used_words(&self) -> (usize, usize) {
        let (first, _) = self.room();
        (SLOTS + self.count(), (first / WORD).min(LEAF_WORDS))
    }

    /// Bytes that slots and entries take.
    pub(super) fn used(&self) -> usize {
        let (first, lost) = self.room();
        (PAGE_BYTES - first) + self.count() * WORD - lost
    }

    /// The lines that a search reads, as far as they are known.
    #[inline(always)]
    pub(super) fn lines(&self) -> impl Iterator<Item = &'t [AtomicU64; LINE_WORDS]> {
        let (lines, _) = self.page().as_chunks();
        lines.iter().take((SLOTS + 40) / LINE_WORDS)
    }

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.0.count().min(ROOM / WORD)
    }

    /// Its words, of which the compiler knows how many there are.
    #[inline(always)]
    pub(super) fn page(&self) -> &'t [AtomicU64; LEAF_WORDS] {
        static NONE: [AtomicU64; LEAF_WORDS] = [const { AtomicU64::new(0) }; LEAF_WORDS];
        self.0.words.first_chunk().unwrap_or(&NONE)
    }

    #[inline(always)]
    fn slot(&self, at: usize) -> u64 {
        point();
        let slot = self.page().get((SLOTS + at) % LEAF_WORDS);
        slot.map_or(0, |slot| slot.load(Ordering::Relaxed))
    }

    /// The slots between two places.
    #[inline(always)]
    fn slots(&self, from: usize, to: usize) -> &'t [AtomicU64] {
        // Of the node itself: they are written too.
        self.0.words.get(SLOTS + from..SLOTS + to).unwrap_or_default()
    }

    #[inline(always)]
    pub(super) fn cell(&self, heap: &'t Heap, at: usize) -> Option<Cell<'t>> {
        let slot = self.slot(at);
        let place = (slot & PLACE_MASK) as usize;
        if slot & OUTSIDE == 0 {
            return Some(Cell::read_at(self.0.words, place));
        }
        Cell::read(heap, self.outside(place))
    }

    fn outside(&self, place: usize) -> u64 {
        super::cell::word_at(self.0.words, place)
    }

    /// How many starts are lower than this one: uniform binary search (Knuth, The Art of Computer Programming 3, 6.2.1).
    #[inline(always)]
    fn starts_below(&self, start: u64, count: usize) -> usize {
        let page = self.page();
        let is_below = |at: usize| {
            point();
            let slot = page.get((SLOTS + at) % LEAF_WORDS);
            // What a slot has behind its start makes it no lower.
            slot.is_some_and(|slot| slot.load(Ordering::Relaxed) < start)
        };
        let Some(bits) = count.checked_ilog2() else {
            return 0;
        };
        // Of a jump half the guesses would be wrong.
        let mut half = 1 << bits;
        let mut begin = select_unpredictable(is_below(half - 1), count - half, 0);
        while half > 1 {
            half /= 2;
            begin = select_unpredictable(is_below(begin + half - 1), begin + half, begin);
        }
        begin + usize::from(is_below(begin))
    }

    /// Has the memory brought where the key's entry is, if it is in the page.
    pub(super) fn prefetch_entry(&self, key: &[u8]) {
        let at = self.starts_below(start_of(word_of(key, self.0.shared())), self.count());
        let place = (self.slot(at) & PLACE_MASK) as usize;
        // An entry may begin at a line's end.
        let lines = [place / WORD, place / WORD + INLINE_MAX / WORD - 1];
        let page = self.page();
        lines.iter().filter_map(|at| page.get(*at)).for_each(prefetch);
    }

    /// Has the memory brought where the next entry will be written.
    pub(super) fn prefetch_room(&self) {
        let (first, _) = self.room();
        let places = [first.wrapping_sub(1), first.wrapping_sub(INLINE_MAX / 2)];
        let page = self.page();
        places
            .iter()
            .filter_map(|place| page.get(place / WORD))
            .for_each(prefetch);
    }

    /// Where a key is that lies within the leaf's bounds, or where it would come.
    #[inline]
    pub(super) fn find_within(&self, heap: &Heap, key: &[u8]) -> Result<usize, usize> {
        let (count, shared) = (self.count(), self.0.shared());
        let start = start_of(word_of(key, shared));
        let mut begin = self.starts_below(start, count);
        // Most often the key itself, or nothing.
        let is_alike = |at: usize| at < count && start_of(self.slot(at)) == start;
        if !is_alike(begin) {
            return Err(begin);
        }
        let compared = |at| {
            self.cell(heap, at)
                .map_or(Order::Less, |cell| cell.cmp_key_from(key, shared))
        };
        if !is_alike(begin + 1) {
            return match compared(begin) {
                Order::Equal => Ok(begin),
                Order::Less => Err(begin + 1),
                Order::Greater => Err(begin),
            };
        }
        let above = start.checked_add(!START_MASK + 1);
        let mut end = above.map_or(count, |above| self.starts_below(above, count));
        while begin < end {
            let middle = begin + (end - begin) / 2;
            match compared(middle) {
                Order::Equal => return Ok(middle),
                Order::Less => begin = middle + 1,
                Order::Greater => end = middle,
            }
        }
        Err(begin)
    }

    /// How many entries have a key that is lower, which may be outside of the leaf's bounds.
    pub(super) fn entries_below(&self, heap: &Heap, key: &[u8]) -> usize {
        if self.0.is_left_of(heap, key) {
            return self.count();
        }
        match self.0.begins_behind(heap, key) {
            true => 0,
            false => match self.find_within(heap, key) {
                Ok(at) | Err(at) => at,
            },
        }
    }

    /// Room for one more entry of so many bytes, beside its slot; its place. It may be made by moving entries.
    fn room_for(&self, len: usize) -> Option<usize> {
        let least = self.slots_end(1) + len;
        let (first, lost) = self.room();
        if first + lost < least {
            return None;
        }
        if first < least {
            self.close_gaps();
        }
        Some(self.room().0 - len)
    }

    /// Whether one more entry fits.
    pub(super) fn has_room(&self, encoded: &Encoded<'_>) -> bool {
        let (first, lost) = self.room();
        first + lost >= self.slots_end(1) + encoded.len()
    }

    /// The byte behind the slots, with some more of them.
    fn slots_end(&self, more: usize) -> usize {
        (SLOTS + self.count() + more) * WORD
    }

    /// Moves entries to the end of the page, so that nothing is between them.
    fn close_gaps(&self) {
        let mut run = Run::before(PAGE_BYTES);
        let bytes = self.bytes();
        for at in 0..self.count() {
            let slot = self.slot(at);
            let first = run.add(self.entry_in(&bytes, slot));
            self.0.set(SLOTS + at, slot & !PLACE_MASK | first as u64);
        }
        write_bytes(self.0.words, run.first, run.bytes());
        self.set_room(run.first, 0);
    }

    /// Its bytes as they are now, for whoever has its lock.
    fn bytes(&self) -> [u8; PAGE_BYTES] {
        let mut bytes = [0; PAGE_BYTES];
        let (places, _) = bytes.as_chunks_mut();
        for (place, word) in places.iter_mut().zip(self.page()) {
            *place = word.load(Ordering::Relaxed).to_le_bytes();
        }
        bytes
    }

    /// The entry of a slot, or its address, in the bytes of the page.
    fn entry_in<'b>(&self, bytes: &'b [u8; PAGE_BYTES], slot: u64) -> &'b [u8] {
        let place = (slot & PLACE_MASK) as usize;
        let len = self.len_in_page(slot);
        bytes.get(place..place + len).unwrap_or_default()
    }

    /// Bytes that the entry of a slot takes in the page.
    fn len_in_page(&self, slot: u64) -> usize {
        let place = (slot & PLACE_MASK) as usize;
        match slot & OUTSIDE {
            0 => Cell::read_at(self.0.words, place).len_bytes(),
            _ => WORD,
        }
    }

    /// Puts an entry at a place; there is room.
    pub(super) fn insert(&self, at: usize, key: &[u8], encoded: &Encoded<'_>) {
        let start = start_of(word_of(key, self.0.shared()));
        self.insert_start(at, start, encoded);
    }

    fn put(&self, at: usize, start: u64, place: usize, encoded: &Encoded<'_>) {
        write_bytes(self.0.words, place, encoded.bytes());
        let (first, lost) = self.room();
        self.set_room(first.min(place), lost);
        let outside = if encoded.is_outside() { OUTSIDE } else { 0 };
        self.0.set(SLOTS + at, start | outside | place as u64);
    }

    /// The address of the entry at a place where it is in the heap, else 0.
    pub(super) fn address(&self, at: usize) -> u64 {
        let slot = self.slot(at);
        if slot & OUTSIDE == 0 {
            0
        } else {
            self.outside((slot & PLACE_MASK) as usize)
        }
    }

    /// Writes another entry of the key at a place, if there is room.
    pub(super) fn replace(&self, at: usize, encoded: &Encoded<'_>) -> bool {
        let slot = self.slot(at);
        let (len, place) = (self.len_in_page(slot), (slot & PLACE_MASK) as usize);
        let start = start_of(slot);
        if len == encoded.len() {
            self.put(at, start, place, encoded);
            return true;
        }
        let (first, lost) = self.room();
        let slots_end = self.slots_end(0);
        if first + lost + len < slots_end + encoded.len() {
            return false;
        }
        if first < slots_end + encoded.len() {
            // Without the one that goes.
            self.remove(at);
            self.insert_start(at, start, encoded);
            return true;
        }
        self.set_room(first, lost + len);
        self.put(at, start, first - encoded.len(), encoded);
        true
    }

    fn insert_start(&self, at: usize, start: u64, encoded: &Encoded<'_>) {
        let Some(place) = self.room_for(encoded.len()) else {
            return;
        };
        let count = self.count();
        move_up(self.slots(at, count + 1));
        self.0.set_count(count + 1);
        self.put(at, start, place, encoded);
    }

    /// Takes away the entry at a place. What it has in the heap is the caller's.
    pub(super) fn remove(&self, at: usize) {
        let (count, len) = (self.count(), self.len_in_page(self.slot(at)));
        let (first, lost) = self.room();
        self.set_room(first, lost + len);
        let slots = self.slots(at, count).iter();
        for (slot, next) in slots.clone().zip(slots.skip(1)) {
            point();
            slot.store(next.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.0.set_count(count - 1);
        if count == 1 {
            self.begin();
        }
    }

    /// [`Node::bound`].
    pub(super) fn bound(&self, heap: &Heap, low: u64, high: u64) {
        if self.0.bound(heap, low, high) {
            for at in 0..self.count() {
                let word = self
                    .cell(heap, at)
                    .map_or(0, |cell| cell.word_of_key(self.0.shared()));
                let rest = self.slot(at) & !START_MASK;
                self.0.set(SLOTS + at, start_of(word) | rest);
            }
        }
    }

    /// The place from which on entries go to another leaf, so that both have about as much.
    pub(super) fn middle(&self) -> usize {
        let (mut used, half, count) = (0, self.used() / 2, self.count());
        for at in 0..count {
            used += WORD + self.len_in_page(self.slot(at));
            if used >= half {
                return (at + 1).clamp(1, count.max(2) - 1);
            }
        }
        count.max(2) - 1
    }

    /// Moves the entries from a place on behind those of another leaf, which has room.
    pub(super) fn move_to(&self, heap: &Heap, from: usize, other: &Leaf<'_>) {
        let (count, begin) = (self.count(), other.count());
        let bytes = self.bytes();
        let slots = (from..count).map(|at| self.slot(at));
        let moved: usize = slots.map(|slot| self.entry_in(&bytes, slot).len()).sum();
        if other.room().0 < other.slots_end(count - from) + moved {
            other.close_gaps();
        }
        let (first, lost) = other.room();
        let mut run = Run::before(first);
        let is_alike = self.0.shared() == other.0.shared();
        for (at, place) in (from..count).zip(begin..) {
            let slot = self.slot(at);
            let first = run.add(self.entry_in(&bytes, slot));
            let word = match is_alike {
                true => slot,
                false => self
                    .cell(heap, at)
                    .map_or(0, |cell| cell.word_of_key(other.0.shared())),
            };
            other
                .0
                .set(SLOTS + place, start_of(word) | slot & OUTSIDE | first as u64);
        }
        write_bytes(other.0.words, run.first, run.bytes());
        other.set_room(run.first, lost);
        other.0.set_count(begin + count - from);
        let (first, lost) = self.room();
        self.set_room(first, lost + moved);
        self.0.set_count(from);
        if from == 0 {
            self.begin();
        }
    }
}

/// Entries that are put together before they are written to a page, from its end on.
struct Run {
    page: [u8; PAGE_BYTES],
    first: usize,
    end: usize,
}

impl Run {
    fn before(end: usize) -> Run {
        Run {
            page: [0; PAGE_BYTES],
            first: end,
            end,
        }
    }

    /// Adds an entry before the others; where it begins.
    fn add(&mut self, entry: &[u8]) -> usize {
        let Some(first) = self.first.checked_sub(entry.len()) else {
            return self.first;
        };
        if let Some(place) = self.page.get_mut(first..self.first) {
            place.copy_from_slice(entry);
        }
        self.first = first;
        first
    }

    fn bytes(&self) -> &[u8] {
        self.page.get(self.first..self.end).unwrap_or_default()
    }
}
