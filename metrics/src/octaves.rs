//! A histogram with one bucket an octave, for counts of many parts that any thread writes: sizes, or times in nanoseconds.
//!
//! It takes no lock and a fraction of the memory of [`crate::Histogram`], which is finer and has one writer. Its invariant: a value
//! of at most 2^36 is in the bucket whose bounds enclose it, and its sum is exact.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The last bucket's upper bound, as a power of two; values above are counted there too.
const POWER_MAX: usize = 36;
const BUCKETS: usize = POWER_MAX + 1;

/// What threads have counted together.
#[derive(Debug)]
pub struct OctaveHistogram {
    sum: AtomicU64,
    /// Bucket `n` holds what is above 2^(n-1) and up to 2^n.
    counts: [AtomicU64; BUCKETS],
}

impl Default for OctaveHistogram {
    fn default() -> Self {
        OctaveHistogram {
            sum: AtomicU64::new(0),
            counts: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl OctaveHistogram {
    /// Counts a value.
    #[inline]
    pub fn add(&self, value: u64) {
        // Counters stand alone: no other memory is published with them, so relaxed is enough.
        self.sum.fetch_add(value, Ordering::Relaxed);
        self.counts[bucket(value)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a time, in nanoseconds.
    #[inline]
    pub fn add_time(&self, took: Duration) {
        self.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// What was counted so far.
    pub fn read(&self) -> Octaves {
        let mut octaves = Octaves {
            sum: self.sum.load(Ordering::Relaxed),
            ..Octaves::default()
        };
        for (read, count) in octaves.counts.iter_mut().zip(&self.counts) {
            *read = count.load(Ordering::Relaxed);
        }
        octaves
    }

    /// Begins at zero again.
    pub fn clear(&self) {
        self.sum.store(0, Ordering::Relaxed);
        self.counts
            .iter()
            .for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// The bucket of a value.
fn bucket(value: u64) -> usize {
    let power = u64::BITS - value.saturating_sub(1).leading_zeros();
    (power as usize).min(POWER_MAX)
}

/// What an [`OctaveHistogram`] held at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Octaves {
    sum: u64,
    counts: [u64; BUCKETS],
}

impl Default for Octaves {
    fn default() -> Self {
        Octaves {
            sum: 0,
            counts: [0; BUCKETS],
        }
    }
}

impl Octaves {
    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All values together.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// All of them in seconds, where they are times.
    pub fn seconds(&self) -> f64 {
        self.sum as f64 / 1e9
    }

    /// How many were at most 2^`power`.
    pub(crate) fn at_most(&self, power: u32) -> u64 {
        self.counts[..=(power as usize).min(POWER_MAX)].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_bucket_whose_bounds_enclose_them() {
        for (value, expected) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 2),
            (5, 3),
            (1024, 10),
            (1025, 11),
        ] {
            assert_eq!(bucket(value), expected, "{value}");
        }
        assert_eq!((bucket(1 << 36), bucket(u64::MAX)), (36, 36));
    }

    #[test]
    fn threads_add_up_exactly() {
        let histogram = OctaveHistogram::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (1..=1000).for_each(|value| histogram.add(value)));
            }
        });
        let read = histogram.read();
        assert_eq!((read.count(), read.sum()), (4000, 4 * 500_500));
        assert_eq!(
            (read.at_most(3), read.at_most(9), read.at_most(10)),
            (32, 2048, 4000)
        );
        histogram.clear();
        assert_eq!(histogram.read(), Octaves::default());
    }
}
