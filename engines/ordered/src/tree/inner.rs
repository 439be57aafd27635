//! An inner node: up to 128 separators in order, each with the node behind it and its first bytes behind what all of them share.
//!
//! Where the node has bounds on both sides, that is what these share. In the first and the last node of a level it is what the separators do,
//! and a key that is searched for may begin otherwise. Separators are in the heap. Only who has the node's lock changes it.

use std::cmp::Ordering as Order;
use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cell::{Cell, word_of};
use super::heap::Heap;
use super::node::{HEAD_WORDS, LINE_WORDS, Node, OWN, move_up};
use super::schedule::point;

use millpond_prefetch::prefetch;

/// Separators of a full node.
pub(super) const FULL: usize = 128;
pub(super) const INNER_WORDS: usize = SLOTS + FULL;
const HEADS: usize = HEAD_WORDS;
const SLOTS: usize = HEADS + FULL;
/// A slot: the address of a separator, below it the number of a child.
pub(super) const CHILD_BITS: u32 = 28;
const CHILD_MASK: u64 = (1 << CHILD_BITS) - 1;

#[derive(Clone, Copy)]
pub(super) struct Inner<'t>(pub Node<'t>);

impl<'t> Inner<'t> {
    /// The lines that a search reads.
    #[inline(always)]
    pub(super) fn lines(&self) -> impl Iterator<Item = &'t AtomicU64> {
        let words = self.0.words.first_chunk::<SLOTS>();
        words
            .into_iter()
            .flat_map(|words| words.iter().step_by(LINE_WORDS))
    }

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.0.count().min(FULL)
    }

    #[inline(always)]
    fn head(&self, at: usize) -> u64 {
        point();
        let head = self.heads().get(at % FULL);
        head.map_or(0, |head| head.load(Ordering::Relaxed))
    }

    /// Its heads, of which the compiler knows how many there are.
    #[inline(always)]
    fn heads(&self) -> &'t [AtomicU64; FULL] {
        static NONE: [AtomicU64; FULL] = [const { AtomicU64::new(0) }; FULL];
        let heads = self.0.words.get(HEADS..).and_then(|heads| heads.first_chunk());
        heads.unwrap_or(&NONE)
    }

    fn set_head(&self, at: usize, head: u64) {
        self.0.set(HEADS + at, head);
    }

    #[inline(always)]
    fn slot(&self, at: usize) -> u64 {
        self.0.word(SLOTS + at)
    }

    /// The address of a separator.
    pub(super) fn address(&self, at: usize) -> u64 {
        self.slot(at) >> CHILD_BITS
    }

    pub(super) fn cell(&self, heap: &'t Heap, at: usize) -> Option<Cell<'t>> {
        Cell::read(heap, self.address(at))
    }

    /// Has the memory brought of what is behind so many separators.
    #[inline(always)]
    pub(super) fn prefetch_child(&self, separators: usize) {
        let places = [separators.wrapping_sub(1), separators];
        let slots = self.0.words.get(SLOTS..).unwrap_or_default();
        places.iter().filter_map(|at| slots.get(*at)).for_each(prefetch);
    }

    /// The child for keys behind so many separators.
    #[inline(always)]
    pub(super) fn child(&self, separators: usize) -> u64 {
        match separators.checked_sub(1) {
            None => self.0.word(OWN),
            Some(at) => self.slot(at) & CHILD_MASK,
        }
    }

    /// The address of the separator behind that child; 0 where the node's keys have no end.
    #[inline(always)]
    pub(super) fn separator_behind(&self, separators: usize) -> u64 {
        if separators < self.count() {
            self.address(separators)
        } else {
            self.0.high()
        }
    }

    pub(super) fn set_first_child(&self, child: u64) {
        self.0.set(OWN, child);
    }

    /// How many heads are lower than this one.
    #[inline(always)]
    fn heads_below(&self, head: u64, count: usize) -> usize {
        let heads = self.heads();
        let is_below = |at: usize| {
            point();
            let other = heads.get(at % FULL);
            other.is_some_and(|other| other.load(Ordering::Relaxed) < head)
        };
        let (mut begin, mut len) = (0, count);
        while len > 1 {
            let half = len / 2;
            // Of a jump half the guesses would be wrong.
            begin = select_unpredictable(is_below(begin + half - 1), begin + half, begin);
            len -= half;
        }
        begin + usize::from(len == 1 && is_below(begin))
    }

    /// The first bytes of a key behind what all keys share.
    #[inline(always)]
    fn head_of(&self, key: &[u8]) -> u64 {
        word_of(key, self.0.shared())
    }

    /// Whether keys are not bounded on one side.
    #[inline(always)]
    fn is_open(&self) -> bool {
        self.0.low() == 0 || self.0.high() == 0
    }

    /// Where a key comes that does not begin as all separators do: before them or behind them.
    #[inline(always)]
    fn outside(&self, heap: &Heap, key: &[u8]) -> Option<usize> {
        let shared = self.0.shared();
        if shared == 0 || !self.is_open() {
            return None;
        }
        match self.cell(heap, 0)?.cmp_begin(key, shared) {
            Order::Greater => Some(0),
            Order::Less => Some(self.count()),
            Order::Equal => None,
        }
    }

    /// Where a separator is, or where it would come.
    pub(super) fn find(&self, heap: &Heap, key: &[u8]) -> Result<usize, usize> {
        if let Some(at) = self.outside(heap, key) {
            return Err(at);
        }
        self.find_alike(heap, key)
    }

    /// The same of a key that begins as all separators do.
    fn find_alike(&self, heap: &Heap, key: &[u8]) -> Result<usize, usize> {
        let (count, head) = (self.count(), self.head_of(key));
        let first = self.heads_below(head, count);
        if first == count || self.head(first) != head {
            return Err(first);
        }
        let end = head
            .checked_add(1)
            .map_or(count, |above| self.heads_below(above, count));
        let (mut begin, mut end) = (first, end);
        while begin < end {
            let middle = begin + (end - begin) / 2;
            match self
                .cell(heap, middle)
                .map_or(Order::Less, |cell| cell.cmp_key(key))
            {
                Order::Equal => return Ok(middle),
                Order::Less => begin = middle + 1,
                Order::Greater => end = middle,
            }
        }
        Err(begin)
    }

    /// How many separators are not above a key: the child with that number is the one for it, as far as this node knows.
    #[inline(always)]
    pub(super) fn separators_up_to(&self, heap: &Heap, key: &[u8]) -> usize {
        if let Some(at) = self.outside(heap, key) {
            return at;
        }
        let (count, head) = (self.count(), self.head_of(key));
        let first = self.heads_below(head, count);
        // Most often no head is the key's.
        if first == count || self.head(first) != head {
            return first;
        }
        match self.find_alike(heap, key) {
            Ok(at) => at + 1,
            Err(at) => at,
        }
    }

    /// Puts a separator and the child behind it at a place; there is room.
    pub(super) fn insert(&self, heap: &Heap, at: usize, key: &[u8], address: u64, child: u64) {
        let (count, node) = (self.count(), &self.0);
        for first in [HEADS, SLOTS] {
            move_up(node.words.get(first + at..=first + count).unwrap_or_default());
        }
        self.set_head(at, self.head_of(key));
        node.set(SLOTS + at, address << CHILD_BITS | child);
        node.set_count(count + 1);
        if at == 0 || at == count {
            self.fit(heap);
        }
    }

    /// Takes away the separator at a place and the child behind it; the separator's address.
    pub(super) fn remove(&self, at: usize) -> u64 {
        let (count, address) = (self.count(), self.address(at));
        for at in at..count - 1 {
            self.set_head(at, self.head(at + 1));
            self.0.set(SLOTS + at, self.slot(at + 1));
        }
        self.0.set_count(count - 1);
        address
    }

    /// [`Node::bound`].
    pub(super) fn bound(&self, heap: &Heap, low: u64, high: u64) {
        if self.0.bound(heap, low, high) {
            self.set_starts(heap);
        }
        self.fit(heap);
    }

    /// Where the bounds do not say what all keys share, the separators do.
    fn fit(&self, heap: &Heap) {
        if !self.is_open() {
            return;
        }
        let last = self.count().checked_sub(1);
        let ends = last.and_then(|last| self.cell(heap, 0).zip(self.cell(heap, last)));
        let shared = ends.map_or(0, |(first, last)| first.common(&last));
        if self.0.set_shared(shared) {
            self.set_starts(heap);
        }
    }

    fn set_starts(&self, heap: &Heap) {
        (0..self.count()).for_each(|at| self.set_start(heap, at));
    }

    fn set_start(&self, heap: &Heap, at: usize) {
        let word = self
            .cell(heap, at)
            .map_or(0, |cell| cell.word_of_key(self.0.shared()));
        self.set_head(at, word);
    }

    /// Moves the separators from a place on, with the children behind them, behind those of another node.
    pub(super) fn move_to(&self, heap: &Heap, from: usize, other: &Inner<'_>) {
        let (count, begin) = (self.count(), other.count());
        for (at, to) in (from..count).zip(begin..FULL) {
            other.0.set(SLOTS + to, self.slot(at));
            other.set_start(heap, to);
        }
        other.0.set_count(begin + (count - from));
        other.fit(heap);
        self.0.set_count(from);
    }
}
