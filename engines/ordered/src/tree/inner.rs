//! An inner node: up to 128 separators in order, each with the node behind it and its first bytes behind what all of them share.
//!
//! These heads lie in lines of eight, all ones behind the last of them, and the node begins with the last word of each line: a search reads
//! those, one line of heads, and the slots beside it.
//!
//! Where the node has bounds on both sides, that is what these share. In the first and the last node of a level it is what the separators do,
//! and a key that is searched for may begin otherwise. Separators are in the heap. Only who has the node's lock changes it.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cell::{Cell, word_of};
use super::heap::Heap;
use super::node::{HEAD_WORDS, LINE_WORDS, Node, OWN, move_up};
use super::schedule::point;

use millpond_prefetch::prefetch;

/// Separators of a full node.
pub(super) const FULL: usize = 128;
pub(super) const INNER_WORDS: usize = SLOTS + FULL;
/// The last head of each line.
const TOPS: usize = HEAD_WORDS;
const LINES: usize = FULL / LINE_WORDS;
const HEADS: usize = TOPS + LINES;
const SLOTS: usize = HEADS + FULL;
/// A slot: the address of a separator, below it the number of a child.
pub(super) const CHILD_BITS: u32 = 28;
const CHILD_MASK: u64 = (1 << CHILD_BITS) - 1;

/// How many words are lower than a value. None of them is jumped over: half of the jumps would be guessed wrong.
#[inline(always)]
fn below_in(words: &[AtomicU64], value: u64) -> usize {
    let is_below = |word: &AtomicU64| {
        point();
        usize::from(word.load(Ordering::Relaxed) < value)
    };
    words.iter().map(is_below).sum()
}

/// What is looked for in a node: the first bytes of a key behind what all keys share, and the line in which the search goes on.
#[derive(Clone, Copy, Default)]
pub(super) struct Sought {
    head: u64,
    line: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Inner<'t>(pub Node<'t>);

impl<'t> Inner<'t> {
    /// The lines that a search begins with.
    #[inline(always)]
    pub(super) fn lines(&self) -> impl Iterator<Item = &'t [AtomicU64; LINE_WORDS]> {
        let words = self.0.words.get(..HEADS).unwrap_or_default();
        words.as_chunks().0.iter()
    }

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.0.count().min(FULL)
    }

    #[inline(always)]
    fn head(&self, at: usize) -> u64 {
        self.0.word(HEADS + at % FULL)
    }

    /// The last head of each line.
    #[inline(always)]
    fn tops(&self) -> &'t [AtomicU64; LINES] {
        static NONE: [AtomicU64; LINES] = [const { AtomicU64::new(0) }; LINES];
        let tops = self.0.words.get(TOPS..).and_then(|words| words.first_chunk());
        tops.unwrap_or(&NONE)
    }

    /// A line of heads; none behind the last.
    #[inline(always)]
    fn head_line(&self, line: usize) -> Option<&'t [AtomicU64; LINE_WORDS]> {
        self.0.words.get(HEADS..SLOTS)?.as_chunks().0.get(line)
    }

    /// Of new memory, or that of a dead node.
    pub(super) fn begin(&self) {
        (TOPS..SLOTS).for_each(|at| self.0.set(at, u64::MAX));
    }

    /// Fewer separators than there were.
    fn cut(&self, count: usize) {
        (count..self.count()).for_each(|at| self.set_head(at, u64::MAX));
        self.set_tops(count, self.count());
        self.0.set_count(count);
    }

    fn set_head(&self, at: usize, head: u64) {
        self.0.set(HEADS + at, head);
    }

    /// Notes the last heads of the lines in which heads from one place to another are.
    fn set_tops(&self, from: usize, to: usize) {
        for line in from / LINE_WORDS..to.div_ceil(LINE_WORDS) {
            let last = self.head(line * LINE_WORDS + LINE_WORDS - 1);
            self.0.set(TOPS + line, last);
        }
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
    fn heads_below(&self, head: u64) -> usize {
        self.heads_below_sought(self.sought(head))
    }

    /// The line of the first head that is not lower.
    #[inline(always)]
    fn sought(&self, head: u64) -> Sought {
        let line = below_in(self.tops(), head);
        Sought { head, line }
    }

    #[inline(always)]
    fn heads_below_sought(&self, sought: Sought) -> usize {
        let line = self.head_line(sought.line);
        sought.line * LINE_WORDS + line.map_or(0, |line| below_in(line, sought.head))
    }

    /// Begins to look for a key. What the search reads next is on its way.
    #[inline(always)]
    pub(super) fn seek(&self, key: &[u8]) -> Sought {
        let sought = self.sought(self.head_of(key));
        let first = sought.line * LINE_WORDS;
        // The child before the first head is named by the slot before.
        let places = [HEADS + first, SLOTS + first - 1, SLOTS + first];
        let words = places.iter().filter_map(|at| self.0.words.get(*at));
        words.for_each(prefetch);
        sought
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
        let first = self.heads_below(head);
        if first == count || self.head(first) != head {
            return Err(first);
        }
        let end = head.checked_add(1).map_or(count, |above| self.heads_below(above));
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
    pub(super) fn separators_up_to(&self, heap: &Heap, key: &[u8]) -> usize {
        self.separators_sought(heap, key, self.seek(key))
    }

    /// The same where it was begun to look for the key.
    #[inline(always)]
    pub(super) fn separators_sought(&self, heap: &Heap, key: &[u8], sought: Sought) -> usize {
        if let Some(at) = self.outside(heap, key) {
            return at;
        }
        let first = self.heads_below_sought(sought);
        // Most often no head is the key's.
        if first == self.count() || self.head(first) != sought.head {
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
        self.set_tops(at, count + 1);
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
        self.cut(count - 1);
        self.set_tops(at, count);
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
        self.set_tops(0, self.count());
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
        other.set_tops(begin, other.count());
        other.fit(heap);
        self.cut(from);
    }
}

#[cfg(test)]
impl Inner<'_> {
    /// Holds what searches read, its heads and the last of each line, against the separators.
    pub(super) fn check(&self, heap: &Heap) {
        let count = self.count();
        for at in 0..FULL {
            let cell = self.cell(heap, at).filter(|_| at < count);
            let head = cell.map_or(u64::MAX, |cell| cell.word_of_key(self.0.shared()));
            assert_eq!(self.head(at), head, "{at} of {count}");
            if at % LINE_WORDS == LINE_WORDS - 1 {
                assert_eq!(self.0.word(TOPS + at / LINE_WORDS), head, "{at} of {count}");
            }
            if let Some(cell) = cell {
                let mut key = Vec::new();
                cell.copy_key(&mut key);
                assert_eq!(self.find(heap, &key), Ok(at), "of {count}");
                assert_eq!(self.separators_up_to(heap, &key), at + 1, "of {count}");
            }
        }
    }
}
