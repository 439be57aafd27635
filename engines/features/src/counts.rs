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
    keys: AtomicU64,
    hits: AtomicU64,
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
    #[inline]
    pub(crate) fn add(&self, keys: usize, hits: usize) {
        if let Some(line) = self.0.get(LINE.with(|line| *line)) {
            line.keys.fetch_add(keys as u64, Ordering::Relaxed);
            line.hits.fetch_add(hits as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn keys(&self) -> u64 {
        self.0.iter().map(|line| line.keys.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn hits(&self) -> u64 {
        self.0.iter().map(|line| line.hits.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn forget(&self) {
        for line in &self.0 {
            line.keys.store(0, Ordering::Relaxed);
            line.hits.store(0, Ordering::Relaxed);
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
        assert_eq!((counts.keys(), counts.hits()), (24_000, 16_000));
        counts.forget();
        assert_eq!((counts.keys(), counts.hits()), (0, 0));
    }
}
