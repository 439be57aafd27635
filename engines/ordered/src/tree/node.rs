//! What leaves and inner nodes have in common: a lock with a version, a level, bounds and a neighbour.
//!
//! A node knows its neighbour to the right and where its keys end, so that a search that comes late goes on there (Lehman and Yao, 1981).
//! Most reads take no lock: they look at the version before and behind (Leis et al., 2016). Invariant: words are written by who has the lock
//! alone.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::cell::{Cell, word_of};
use super::heap::Heap;
use super::inner::Inner;
use super::leaf::Leaf;
use super::schedule::{pause, point};

use millpond_prefetch::prefetch;

pub(super) const HEAD_WORDS: usize = 8;
/// Of a cache line.
pub(super) const LINE_WORDS: usize = 8;
/// The words of the head.
const LOCK: usize = 0;
const SHAPE: usize = 1;
const RIGHT: usize = 2;
const LOW: usize = 3;
const HIGH: usize = 4;
/// The first eight bytes of the key from which on keys are not this node's.
const HIGH_WORD: usize = 5;
/// What leaves and inner nodes have for themselves.
pub(super) const OWN: usize = 6;
/// In the lock's word; above them it counts changes.
const LOCKED: u64 = 1;
const DEAD: u64 = 2;
const CHANGE: u64 = 4;
/// In the shape: the count of keys, then the level, then the length of what they share.
const LEVEL_SHIFT: u32 = 16;
const SHARED_SHIFT: u32 = 32;

#[derive(Clone, Copy)]
pub(super) struct Node<'t> {
    pub id: u64,
    pub words: &'t [AtomicU64],
}

/// A node as it was when its version was read.
#[derive(Clone, Copy)]
pub(super) struct Seen<'t> {
    pub node: Node<'t>,
    version: u64,
    /// The address of a separator above the key that is searched for, where the node before named this one by it; else 0.
    below: u64,
}

impl<'t> Node<'t> {
    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> u64 {
        point();
        self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn set(&self, at: usize, value: u64) {
        point();
        if let Some(word) = self.words.get(at) {
            word.store(value, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn version(&self, order: Ordering) -> u64 {
        point();
        self.words.first().map_or(DEAD, |lock| lock.load(order))
    }

    fn set_version(&self, version: u64, order: Ordering) {
        point();
        if let Some(lock) = self.words.first() {
            lock.store(version, order);
        }
    }

    /// Has all its memory brought.
    #[inline]
    pub(super) fn bring_whole(&self) {
        let (lines, _) = self.words.as_chunks::<LINE_WORDS>();
        lines.iter().for_each(prefetch);
    }

    #[inline(always)]
    pub(super) fn leaf(&self) -> Leaf<'t> {
        Leaf(*self)
    }

    #[inline(always)]
    pub(super) fn inner(&self) -> Inner<'t> {
        Inner(*self)
    }

    /// The node once nobody writes it, or as it was when it died.
    #[inline]
    pub(super) fn seen(self) -> Seen<'t> {
        let mut turns = 0_u32;
        loop {
            let version = self.version(Ordering::Acquire);
            if version & LOCKED == 0 {
                return self.seen_at(version);
            }
            pause(&mut turns);
        }
    }

    #[inline(always)]
    fn seen_at(self, version: u64) -> Seen<'t> {
        let below = 0;
        Seen {
            node: self,
            version,
            below,
        }
    }

    /// The same, unless somebody writes it now: for whoever holds nodes that others may wait for.
    pub(super) fn seen_now(self) -> Option<Seen<'t>> {
        let version = self.version(Ordering::Acquire);
        (version & LOCKED == 0).then(|| self.seen_at(version))
    }

    /// Lets others see what was changed.
    pub(super) fn unlock(self) {
        let version = self.version(Ordering::Relaxed);
        self.set_version((version & !LOCKED) + CHANGE, Ordering::Release);
    }

    /// The same where nothing was changed.
    pub(super) fn unlock_unchanged(self) {
        let version = self.version(Ordering::Relaxed);
        self.set_version(version & !LOCKED, Ordering::Release);
    }

    /// The end of a node: who sees it begins again. Its versions go on with the node that gets its memory.
    pub(super) fn unlock_dead(self) {
        let version = self.version(Ordering::Relaxed);
        self.set_version(((version & !LOCKED) | DEAD) + CHANGE, Ordering::Release);
    }

    /// Makes a dead node, or one of new memory, an empty one that is locked.
    pub(super) fn begin(self, level: usize) {
        let version = self.version(Ordering::Relaxed);
        self.set_version(((version & !DEAD) + CHANGE) | LOCKED, Ordering::Relaxed);
        fence(Ordering::Release);
        for at in SHAPE..HEAD_WORDS {
            self.set(at, 0);
        }
        self.set(SHAPE, (level as u64) << LEVEL_SHIFT);
        match level {
            0 => self.leaf().begin(),
            _ => self.inner().begin(),
        }
    }

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.word(SHAPE) as usize & 0xffff
    }

    pub(super) fn set_count(&self, count: usize) {
        self.set(SHAPE, self.word(SHAPE) & !0xffff | count as u64);
    }

    #[inline(always)]
    pub(super) fn level(&self) -> usize {
        (self.word(SHAPE) >> LEVEL_SHIFT) as usize & 0xff
    }

    /// Bytes that all its keys begin with alike.
    #[inline(always)]
    pub(super) fn shared(&self) -> usize {
        (self.word(SHAPE) >> SHARED_SHIFT) as usize
    }

    pub(super) fn right(&self) -> Option<u64> {
        self.word(RIGHT).checked_sub(1)
    }

    pub(super) fn set_right(&self, right: Option<u64>) {
        self.set(RIGHT, right.map_or(0, |right| right + 1));
    }

    /// Addresses of the keys from which on and up to which keys are this node's; 0 where nothing bounds them.
    pub(super) fn low(&self) -> u64 {
        self.word(LOW)
    }

    pub(super) fn high(&self) -> u64 {
        self.word(HIGH)
    }

    /// Whether a key is none of this node's, but of one to the right.
    #[inline]
    pub(super) fn is_left_of(&self, heap: &Heap, key: &[u8]) -> bool {
        let high = self.word(HIGH);
        high != 0
            && match word_of(key, 0).cmp(&self.word(HIGH_WORD)) {
                Order::Less => false,
                Order::Greater => true,
                Order::Equal => {
                    Cell::read(heap, high).is_some_and(|high| high.cmp_key(key) != Order::Greater)
                }
            }
    }

    /// Whether its keys end with a separator, or before it.
    pub(super) fn ends_by(&self, heap: &Heap, separator: u64) -> bool {
        let high = self.high();
        let read = |address| Cell::read(heap, address);
        high != 0
            && (high == separator
                || read(high)
                    .zip(read(separator))
                    .is_some_and(|(high, separator)| high.cmp(&separator) != Order::Greater))
    }

    /// Whether the keys right before a key are of a node to the right.
    pub(super) fn ends_before(&self, heap: &Heap, key: &[u8]) -> bool {
        let high = self.word(HIGH);
        high != 0
            && match self.word(HIGH_WORD).cmp(&word_of(key, 0)) {
                Order::Less => true,
                Order::Greater => false,
                Order::Equal => Cell::read(heap, high).is_some_and(|high| high.cmp_key(key) == Order::Less),
            }
    }

    /// Whether a key is of a node to the left.
    pub(super) fn begins_behind(&self, heap: &Heap, key: &[u8]) -> bool {
        let low = Cell::read(heap, self.low()).filter(|_| self.low() != 0);
        low.is_some_and(|low| low.cmp_key(key) == Order::Greater)
    }

    /// The key from which on keys are not this node's.
    pub(super) fn high_key(&self, heap: &Heap) -> Option<Vec<u8>> {
        key_at(heap, self.high())
    }

    /// The key from which on they are.
    pub(super) fn low_key(&self, heap: &Heap) -> Option<Vec<u8>> {
        key_at(heap, self.low())
    }

    /// Bounds the keys, whose addresses are given; whether all of them share another length now, by which their starts are to be made again.
    pub(super) fn bound(&self, heap: &Heap, low: u64, high: u64) -> bool {
        self.set(LOW, low);
        self.set(HIGH, high);
        let read = |address| Cell::read(heap, address).filter(|_| address != 0);
        let (low, high) = (read(low), read(high));
        self.set(HIGH_WORD, high.map_or(0, |high| high.word_of_key(0)));
        let shared = match (low, high) {
            (Some(low), Some(high)) => low.common(&high),
            _ => 0,
        };
        self.set_shared(shared)
    }

    /// Whether that is another length.
    pub(super) fn set_shared(&self, shared: usize) -> bool {
        let is_other = shared != self.shared();
        let others = self.word(SHAPE) & u64::from(u32::MAX);
        self.set(SHAPE, others | (shared as u64) << SHARED_SHIFT);
        is_other
    }
}

impl<'t> Seen<'t> {
    /// The same where it was named by a separator above the key that is searched for.
    #[inline(always)]
    pub(super) fn named_below(self, below: u64) -> Seen<'t> {
        Seen { below, ..self }
    }

    /// [`Node::is_left_of`]. A node that ends with the separator that it was named by was not split since, and no key has to be compared.
    #[inline(always)]
    pub(super) fn is_left_of(&self, heap: &Heap, key: &[u8]) -> bool {
        self.node.high() != self.below && self.node.is_left_of(heap, key)
    }

    /// Whether it is as it was seen. What was read of it before is true then.
    #[inline(always)]
    pub(super) fn is_still(&self) -> bool {
        fence(Ordering::Acquire);
        self.node.version(Ordering::Relaxed) == self.version
    }

    pub(super) fn is_dead(&self) -> bool {
        self.version & DEAD != 0
    }

    /// Locks the node if it is as it was seen, and lives: a dead one is nobody's until it begins anew.
    pub(super) fn try_lock(&self) -> bool {
        if self.is_dead() {
            return false;
        }
        point();
        let locked = self.node.words.get(LOCK).is_some_and(|lock| {
            lock.compare_exchange(
                self.version,
                self.version | LOCKED,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
        });
        // Who reads a word that is written from here on finds the version changed.
        fence(Ordering::Release);
        locked
    }
}

/// Moves each of some words to the place behind it; the last is lost, the first stays. The moves of four words at once take half as long.
#[inline]
pub(super) fn move_up(words: &[AtomicU64]) {
    const AT_ONCE: usize = 4;
    let load = |word: &AtomicU64| {
        point();
        word.load(Ordering::Relaxed)
    };
    let mut end = words.len();
    while end > AT_ONCE {
        let Some([one, two, three, four, five]) = words
            .get(end - AT_ONCE - 1..)
            .and_then(|words| words.first_chunk())
        else {
            return;
        };
        let moved = (load(one), load(two), load(three), load(four));
        // From the last on, as the rest is moved.
        for (place, word) in [(five, moved.3), (four, moved.2), (three, moved.1), (two, moved.0)] {
            point();
            place.store(word, Ordering::Relaxed);
        }
        end -= AT_ONCE;
    }
    while let Some([word, next]) = end
        .checked_sub(2)
        .and_then(|first| words.get(first..)?.first_chunk())
    {
        point();
        next.store(load(word), Ordering::Relaxed);
        end -= 1;
    }
}

/// The key of the entry at an address, 0 for none.
fn key_at(heap: &Heap, address: u64) -> Option<Vec<u8>> {
    let cell = Cell::read(heap, address).filter(|_| address != 0)?;
    let mut key = Vec::new();
    cell.copy_key(&mut key);
    Some(key)
}
