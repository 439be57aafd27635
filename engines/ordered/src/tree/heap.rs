//! Runs of words for keys and values: given out, taken back, and given out again by their length.
//!
//! It never reads what stands in them: a reader may still be at one that was taken back, and must find out by itself. Invariant: two runs
//! that are in use never overlap, and 0 is the address of none.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::words::Words;
use crate::counter::thread_number;

/// 64 KiB at first, 64 MiB at most.
type Memory = Words<1, 13, 23>;
/// Runs up to so many words have a list for each length.
const EXACT: usize = 64;
/// Longer ones are rounded up to a sixteenth of a power of two.
const STEPS_BITS: u32 = 4;
const CLASSES: usize = EXACT + 1 + (1 << STEPS_BITS) * 24;
/// Words that a thread takes at a time for its short runs.
const SPAN: u64 = 512;
const SHARDS: usize = 8;

pub(super) struct Heap {
    memory: Memory,
    next: Mutex<u64>,
    shards: [Mutex<Shard>; SHARDS],
}

struct Shard {
    /// For each class the run that was taken back last, whose first word has the one before.
    free: Box<[u64]>,
    span: (u64, u64),
    /// Words of runs that were taken and not given back, by this thread. It goes around: a run may be given back by another.
    used: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class of a length, and the words that runs of it have.
fn class(len: usize) -> (usize, u64) {
    if len <= EXACT {
        return (len, len as u64);
    }
    let bits = (len - 1).ilog2();
    let step_bits = bits - STEPS_BITS;
    let steps = ((len - 1) >> step_bits) + 1 - (1 << STEPS_BITS);
    let words = ((1 << STEPS_BITS) + steps) << step_bits;
    let class = EXACT + ((bits - EXACT.ilog2()) as usize) * (1 << STEPS_BITS) + steps;
    (class, words as u64)
}

impl Heap {
    pub(super) fn new() -> Heap {
        Heap {
            memory: Memory::new(),
            next: Mutex::new(1),
            shards: std::array::from_fn(|_| {
                Mutex::new(Shard {
                    free: vec![0; CLASSES].into(),
                    span: (0, 0),
                    used: 0,
                })
            }),
        }
    }

    /// The words from an address on, as far as they could belong to it.
    #[inline(always)]
    pub(super) fn at(&self, at: u64) -> Option<&[AtomicU64]> {
        self.memory.from(at)
    }

    fn shard(&self, of_thread: usize) -> &Mutex<Shard> {
        let [first, ..] = &self.shards;
        self.shards.get(of_thread).unwrap_or(first)
    }

    /// Words that are in use.
    pub(super) fn used_words(&self) -> u64 {
        let shards = self.shards.iter();
        let sum = shards.fold(0, |sum: u64, shard| sum.wrapping_add(locked(shard).used));
        // Shards are read one behind the other.
        sum.cast_signed().max(0).cast_unsigned()
    }

    /// A run of at least `len` words. What a reader that is late finds in it, it will know to be of another.
    pub(super) fn take(&self, len: usize) -> u64 {
        let (class, words) = class(len);
        let own = thread_number() % SHARDS;
        let at = {
            let mut shard = locked(self.shard(own));
            shard.used = shard.used.wrapping_add(words);
            match self.popped(&mut shard, class) {
                Some(at) => at,
                None => self.cut(&mut shard, own, (class, words)),
            }
        };
        // What is written from here on is behind what took the run from its last owner.
        fence(Ordering::Release);
        at
    }

    fn popped(&self, shard: &mut Shard, class: usize) -> Option<u64> {
        let head = shard.free.get_mut(class).filter(|head| **head != 0)?;
        let at = *head;
        *head = self.memory.from(at)?.first()?.load(Ordering::Relaxed);
        Some(at)
    }

    /// A run that another thread gave back, or new words: short runs are cut from those that the thread has taken at a time.
    fn cut(&self, shard: &mut Shard, own: usize, (class, words): (usize, u64)) -> u64 {
        let (begin, end) = shard.span;
        let is_short = words <= EXACT as u64;
        if !is_short || end - begin < words {
            if let Some(at) = self.of_others(own, class) {
                return at;
            }
            if !is_short {
                return self.bump(words);
            }
            if end > begin {
                self.push(shard, begin, (end - begin) as usize);
            }
            let begin = self.bump(SPAN);
            shard.span = (begin, begin + SPAN);
        }
        let at = shard.span.0;
        shard.span.0 += words;
        at
    }

    fn of_others(&self, own: usize, class: usize) -> Option<u64> {
        let others = self.shards.iter().enumerate().filter(|(at, _)| *at != own);
        others
            .filter_map(|(_, shard)| shard.try_lock().ok())
            .find_map(|mut shard| self.popped(&mut shard, class))
    }

    fn bump(&self, words: u64) -> u64 {
        let mut next = locked(&self.next);
        let mut at = *next;
        while Memory::left(at) < words {
            at += Memory::left(at);
        }
        self.memory.make(at);
        *next = at + words;
        at
    }

    fn push(&self, shard: &mut Shard, at: u64, words: usize) {
        let (class, _) = class(words);
        if let (Some(head), Some(word)) = (
            shard.free.get_mut(class),
            self.memory.from(at).and_then(|words| words.first()),
        ) {
            word.store(*head, Ordering::Relaxed);
            *head = at;
        }
    }

    /// Takes back a run of that length. Nobody finds its address any more.
    pub(super) fn give(&self, at: u64, len: usize) {
        let (_, words) = class(len);
        // Who finds the next run's address where this one's bytes were finds the node changed that named it.
        fence(Ordering::Release);
        let mut shard = locked(self.shard(thread_number() % SHARDS));
        shard.used = shard.used.wrapping_sub(words);
        self.push(&mut shard, at, words as usize);
    }
}
