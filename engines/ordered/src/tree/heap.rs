//! Runs of words for keys and values: given out, taken back, and given out again.
//!
//! Threads keep some of the runs that were taken back, by their length; the others join the free runs beside them (`free`), so that memory of one
//! length becomes memory of another. It never reads what stands in a run: a reader may still be at one that was taken back, and must find out by
//! itself. Invariant: two runs that are in use never overlap, and 0 is the address of none.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::free::Free;
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
/// Words of runs that a thread keeps for itself at most: 512 KiB.
const KEPT_MAX: u64 = 1 << 16;
/// A run of more words is kept by no thread: those that make room for it may be many.
const KEPT_RUN_MAX: u64 = 1 << 12;

pub(super) struct Heap {
    memory: Memory,
    common: Mutex<Common>,
    shards: [Mutex<Shard>; SHARDS],
}

/// What threads take from when they have no run of a length themselves.
struct Common {
    /// No word from here on was given out.
    next: u64,
    free: Free,
}

struct Shard {
    /// For each class the run that was taken back last, whose first word has the one before.
    kept: Box<[u64]>,
    /// Words of these.
    kept_words: u64,
    /// The class whose runs go to all threads next.
    given: usize,
    span: (u64, u64),
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
    let class = EXACT + ((bits - EXACT.ilog2()) as usize) * (1 << STEPS_BITS) + steps;
    (class, words_of(bits, steps))
}

fn words_of(bits: u32, steps: usize) -> u64 {
    (((1 << STEPS_BITS) + steps) << (bits - STEPS_BITS)) as u64
}

/// The words that runs of a class have.
fn words_of_class(class: usize) -> u64 {
    let Some(behind) = class.checked_sub(EXACT + 1) else {
        return class as u64;
    };
    let bits = EXACT.ilog2() + (behind >> STEPS_BITS) as u32;
    words_of(bits, (behind & ((1 << STEPS_BITS) - 1)) + 1)
}

impl Heap {
    pub(super) fn new() -> Heap {
        Heap {
            memory: Memory::new(),
            common: Mutex::new(Common {
                next: 1,
                free: Free::default(),
            }),
            shards: std::array::from_fn(|_| {
                Mutex::new(Shard {
                    kept: vec![0; CLASSES].into(),
                    kept_words: 0,
                    given: 0,
                    span: (0, 0),
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

    /// Words that were given out once, whether they are in use or free.
    pub(super) fn taken_words(&self) -> u64 {
        locked(&self.common).next
    }

    /// A run of at least `len` words. What a reader that is late finds in it, it will know to be of another.
    pub(super) fn take(&self, len: usize) -> u64 {
        let (class, words) = class(len);
        let at = {
            let mut shard = locked(self.shard(thread_number() % SHARDS));
            match self.popped(&mut shard, class, words) {
                Some(at) => at,
                None if words <= EXACT as u64 => self.cut(&mut shard, words),
                None => self.take_common(words),
            }
        };
        // What is written from here on is behind what took the run from its last owner.
        fence(Ordering::Release);
        at
    }

    fn popped(&self, shard: &mut Shard, class: usize, words: u64) -> Option<u64> {
        let head = shard.kept.get_mut(class).filter(|head| **head != 0)?;
        let at = *head;
        *head = self.memory.from(at)?.first()?.load(Ordering::Relaxed);
        shard.kept_words -= words;
        Some(at)
    }

    /// A short run, cut from words that the thread takes at a time.
    fn cut(&self, shard: &mut Shard, words: u64) -> u64 {
        let (begin, end) = shard.span;
        if end - begin < words {
            if end > begin {
                self.keep(shard, begin, (end - begin) as usize);
            }
            let begin = self.take_common(SPAN);
            shard.span = (begin, begin + SPAN);
        }
        let at = shard.span.0;
        shard.span.0 += words;
        at
    }

    /// The least of the free runs that are long enough, or new words.
    fn take_common(&self, words: u64) -> u64 {
        let mut common = locked(&self.common);
        if let Some(at) = common.free.take(words) {
            return at;
        }
        let mut at = common.next;
        while Memory::left(at) < words {
            let left = Memory::left(at);
            self.memory.make(at);
            common.free.give(at, left, Memory::left);
            at += left;
        }
        self.memory.make(at);
        common.next = at + words;
        at
    }

    /// Keeps a run of the words of a class for the thread.
    fn keep(&self, shard: &mut Shard, at: u64, words: usize) {
        let (class, _) = class(words);
        if let (Some(head), Some(word)) = (
            shard.kept.get_mut(class),
            self.memory.from(at).and_then(|words| words.first()),
        ) {
            // Who finds the next run's address where this one's bytes were finds the node changed that named it.
            fence(Ordering::Release);
            word.store(*head, Ordering::Relaxed);
            *head = at;
            shard.kept_words += words as u64;
        }
        if shard.kept_words > KEPT_MAX {
            self.give_common(shard);
        }
    }

    /// Gives all threads what one has kept beyond its bound, one length after the other.
    fn give_common(&self, shard: &mut Shard) {
        let mut common = locked(&self.common);
        let mut empty = 0;
        while shard.kept_words > KEPT_MAX && empty < CLASSES {
            let words = words_of_class(shard.given);
            match self.popped(shard, shard.given, words) {
                Some(at) => common.free.give(at, words, Memory::left),
                None => {
                    shard.given = (shard.given + 1) % CLASSES;
                    empty += 1;
                }
            }
        }
    }

    /// Takes back a run of that length. Nobody finds its address any more.
    pub(super) fn give(&self, at: u64, len: usize) {
        let (_, words) = class(len);
        if words > KEPT_RUN_MAX {
            return locked(&self.common).free.give(at, words, Memory::left);
        }
        let mut shard = locked(self.shard(thread_number() % SHARDS));
        self.keep(&mut shard, at, words as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    #[test]
    fn classes_have_the_words_that_their_number_says() {
        for len in 1..100_000 {
            let (class, words) = class(len);
            assert!(words >= len as u64 && words <= (len + len / 16 + 1) as u64);
            assert_eq!(words_of_class(class), words);
        }
    }

    #[test]
    fn what_a_thread_keeps_is_bounded_whatever_the_lengths() {
        let heap = Heap::new();
        let small: Vec<u64> = (0..20_000).map(|_| heap.take(8)).collect();
        let large: Vec<u64> = (0..20).map(|_| heap.take(1 << 20)).collect();
        let middle: Vec<u64> = (0..200).map(|_| heap.take(4000)).collect();
        let taken = heap.taken_words();
        small.into_iter().for_each(|at| heap.give(at, 8));
        middle.into_iter().for_each(|at| heap.give(at, 4000));
        large.into_iter().for_each(|at| heap.give(at, 1 << 20));
        for shard in &heap.shards {
            assert!(locked(shard).kept_words <= KEPT_MAX);
        }
        // Nearly all of it serves another length.
        (0..200).for_each(|_| {
            heap.take(100_000);
        });
        assert!(
            heap.taken_words() < taken + taken / 20,
            "{taken}, {}",
            heap.taken_words()
        );
    }

    #[test]
    fn runs_in_use_never_overlap_and_drifting_lengths_take_no_more_memory() {
        let (heap, mut random) = (Heap::new(), StdRng::seed_from_u64(1));
        let (mut live, mut words) = (std::collections::VecDeque::new(), 0);
        let most = 1 << 20;
        for round in 0..60 {
            // From 10 words to 3,000.
            let len = (10.0 * 1.1_f64.powi(round)) as usize;
            let mut written = 0;
            while written < most {
                let len = random.random_range(len..=len + len / 8);
                let at = heap.take(len);
                for word in heap.at(at).into_iter().flatten().take(len) {
                    assert_eq!(word.swap(at, Ordering::Relaxed) & 1 << 63, 0, "it is in use");
                    word.fetch_or(1 << 63, Ordering::Relaxed);
                }
                live.push_back((at, len));
                (words, written) = (words + len, written + len);
                while words > most {
                    let (at, len) = live.pop_front().unwrap_or_default();
                    for word in heap.at(at).into_iter().flatten().take(len) {
                        assert_eq!(word.swap(0, Ordering::Relaxed), 1 << 63 | at, "another wrote it");
                    }
                    heap.give(at, len);
                    words -= len;
                }
            }
        }
        let ratio = heap.taken_words() as f64 / most as f64;
        assert!(ratio < 2.5, "{ratio} times as much as was in use at most");
    }
}
