//! What lookups in one version count.
//!
//! Every lookup is in the sums, and one of [`TIMED_OF`] has its time taken. Invariant: counting takes no lock, and threads
//! rarely write to one cache line; every count is in a sum exactly once.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use millpond_metrics::{OctaveHistogram, Octaves};

/// Lookups of which one has its time taken: to read the clock twice costs about as much as to look one key up.
const TIMED_OF: u32 = 16;

/// Lines that threads spread over; two that share one are slower, and counted all the same.
const LINES: usize = 32;

/// A pair of cache lines, because processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Line {
    hits: AtomicU64,
    misses: AtomicU64,
}

fn of_thread() -> u64 {
    let mut hasher = DefaultHasher::new();
    thread::current().id().hash(&mut hasher);
    hasher.finish()
}

thread_local! {
    /// The line that this thread writes to.
    static LINE: usize = of_thread() as usize % LINES;
    /// Where this thread's draws are. To count to sixteen would time the same table of every call that asks sixteen.
    static DRAWN: Cell<u32> = Cell::new(of_thread() as u32);
}

/// Whether the time of a lookup that begins is taken.
#[inline]
fn is_drawn() -> bool {
    DRAWN.with(|drawn| {
        // A linear congruential generator (Numerical Recipes, 7.1): its upper bits, which are compared, are good enough.
        let next = drawn.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        drawn.set(next);
        next < u32::MAX / TIMED_OF
    })
}

/// A lookup that has begun; when, if its time is taken.
#[derive(Debug, Clone, Copy)]
pub struct LookupStart(Option<Instant>);

/// Hits, misses and sampled times of the lookups in one version.
#[derive(Default)]
pub(crate) struct Counts {
    lines: [Line; LINES],
    /// Of the lookups that were drawn.
    times: OctaveHistogram,
}

impl Counts {
    #[inline]
    pub(crate) fn begin(&self) -> LookupStart {
        LookupStart(is_drawn().then(Instant::now))
    }

    pub(crate) fn times(&self) -> Octaves {
        self.times.read()
    }

    /// Keys asked for, and found. Most lookups find all of theirs or none, and write to one sum.
    #[inline]
    pub(crate) fn add(&self, begun: LookupStart, keys: usize, hits: usize) {
        if let Some(began) = begun.0 {
            self.times.add_time(began.elapsed());
        }
        let misses = keys.saturating_sub(hits);
        if let Some(line) = self.lines.get(LINE.with(|line| *line)) {
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
        self.lines
            .iter()
            .map(|line| line.hits.load(Ordering::Relaxed))
            .sum()
    }

    pub(crate) fn misses(&self) -> u64 {
        self.lines
            .iter()
            .map(|line| line.misses.load(Ordering::Relaxed))
            .sum()
    }

    pub(crate) fn forget(&self) {
        self.times.clear();
        for line in &self.lines {
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
                scope.spawn(|| (0..1000).for_each(|_| counts.add(counts.begin(), 3, 2)));
            }
        });
        counts.add(LookupStart(None), 5, 5);
        counts.add(LookupStart(None), 7, 0);
        let read = || (counts.keys(), counts.hits(), counts.misses());
        assert_eq!(read(), (24_012, 16_005, 8007));
        let timed = counts.times().count();
        assert!((250..1000).contains(&timed), "{timed} of 8000 are timed");
        counts.forget();
        assert_eq!(counts.times().count(), 0);
        assert_eq!(read(), (0, 0, 0));
    }
}
