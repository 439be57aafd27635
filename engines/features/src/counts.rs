//! What lookups in one version count.
//!
//! Not a histogram: two sums. Invariant: counting takes no lock, and threads rarely write to one cache line; every count is
//! in a sum exactly once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Lines that threads spread over; two that share one are slower, and counted all the same.
const LINES: usize = 32;

/// A pair of cache lines, because processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Line {
    hits: AtomicU64,
    misses: AtomicU64,
}

thread_local! {
    /// The line that this thread writes to.
    static LINE: usize = {
        let mut hasher = DefaultHasher::new();
        thread::current().id().hash(&mut hasher);
        hasher.finish() as usize % LINES
    };
}

#[derive(Default)]
pub(crate) struct Counts([Line; LINES]);

impl Counts {
    /// Keys asked for, and found. Most lookups find all of theirs or none, and write to one sum.
    #[inline]
    pub(crate) fn add(&self, keys: usize, hits: usize) {
        let misses = keys.saturating_sub(hits);
        if let Some(line) = self.0.get(LINE.with(|line| *line)) {
            if hits > 0 {
                line.hits.fetch_add(hits as u64, Ordering::Relaxed);
            }
            if misses > 0 {
                line.misses.fetch_add(misses as u64, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn keys(&self) -> u64 {
        self.hits() + self.misses()
    }

    pub(crate) fn hits(&self) -> u64 {
        self.0.iter().map(|line| line.hits.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn misses(&self) -> u64 {
        self.0
            .iter()
            .map(|line| line.misses.load(Ordering::Relaxed))
            .sum()
    }

    pub(crate) fn forget(&self) {
        for line in &self.0 {
            line.hits.store(0, Ordering::Relaxed);
            line.misses.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_adds_up() {
        let counts = Counts::default();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| counts.add(3, 2)));
            }
        });
        counts.add(5, 5);
        counts.add(7, 0);
        let read = || (counts.keys(), counts.hits(), counts.misses());
        assert_eq!(read(), (24_012, 16_005, 8007));
        counts.forget();
        assert_eq!(read(), (0, 0, 0));
    }
}
