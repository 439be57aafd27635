//! A histogram of times in buckets that grow with the time: 32 of equal width an octave, so that none is wider than 3.2 % of
//! what it holds.
//!
//! It is written by one thread and read by any. Its invariant: a time of at most [`NS_MAX`] is in the bucket whose bounds
//! enclose it, and sums and counts of several histograms add up to those of one that saw everything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets an octave, as a power of two.
const FINE_BITS: u32 = 5;
const FINE: usize = 1 << FINE_BITS;
/// Longer times (68 s) count as this in their bucket; their sum stays true.
const NS_MAX: u64 = 1 << 36;
const BUCKETS: usize = (36 - FINE_BITS as usize + 1) << FINE_BITS;

/// Adds to a number that this thread alone writes.
pub fn bump(cell: &AtomicU64, by: u64) {
    // No read-modify-write: no other thread writes, and a concurrent reader reads the sum before or after.
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// The bucket of a time: it holds what is above its lower and up to its upper bound.
fn bucket(ns: u64) -> usize {
    let below = ns.saturating_sub(1).min(NS_MAX - 1);
    if below < FINE as u64 {
        return below as usize;
    }
    let octave = 63 - below.leading_zeros() - FINE_BITS;
    ((octave as usize) << FINE_BITS) + (below >> octave) as usize
}

/// The lower and the upper bound of a bucket, in nanoseconds.
fn bounds(bucket: usize) -> (u64, u64) {
    if bucket < FINE {
        return (bucket as u64, bucket as u64 + 1);
    }
    let octave = (bucket >> FINE_BITS) - 1;
    let low = ((bucket & (FINE - 1)) + FINE) as u64;
    (low << octave, (low + 1) << octave)
}

/// One thread's times.
#[derive(Debug)]
pub struct Histogram {
    sum_ns: AtomicU64,
    counts: [AtomicU64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            sum_ns: AtomicU64::new(0),
            counts: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl Histogram {
    /// Counts a time; for the thread that owns it.
    pub fn add(&self, took: Duration) {
        self.add_all(took, 1);
    }

    /// Counts a duration `times` times; for the thread that owns the histogram.
    pub fn add_all(&self, took: Duration, count: u32) {
        let ns = nanoseconds(took);
        bump(&self.sum_ns, ns.wrapping_mul(u64::from(count)));
        bump(&self.counts[bucket(ns)], u64::from(count));
    }
}

/// A time in nanoseconds, as far as they go.
fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

/// What the histograms of several threads saw together.
#[derive(Debug, Clone)]
pub struct Times {
    sum_ns: u64,
    counts: Vec<u64>,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            sum_ns: 0,
            counts: vec![0; BUCKETS],
        }
    }
}

impl Times {
    /// Takes in what a thread saw.
    pub fn add(&mut self, part: &Histogram) {
        self.sum_ns = self.sum_ns.wrapping_add(part.sum_ns.load(Ordering::Relaxed));
        for (sum, count) in self.counts.iter_mut().zip(&part.counts) {
            *sum += count.load(Ordering::Relaxed);
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// All of them, in seconds.
    pub fn seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// How many took at most 2^`power` nanoseconds: exact from 32 ns on.
    pub(crate) fn at_most(&self, power: u32) -> u64 {
        self.counts[..=bucket(1 << power)].iter().sum()
    }

    /// The time that a share of them stayed within, in microseconds: the middle of its bucket. None where there are none.
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let total = self.count();
        let rank = ((total as f64 * share).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        let (low, high) = bounds(at);
        Some((low + high) as f64 / 2e3)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn buckets_enclose_what_they_hold_and_are_narrow() {
        let mut ns = 1_u64;
        while ns < NS_MAX {
            for near in [ns - 1, ns, ns + 1] {
                let (low, high) = bounds(bucket(near));
                assert!(
                    (low < near && near <= high) || near == 0,
                    "{near} is not in ({low}, {high}]"
                );
                let width = (high - low) as f64;
                assert!(width <= 1.0 || width / low as f64 <= 1.0 / 32.0, "{low}..{high}");
            }
            ns += ns / 7 + 1;
        }
        assert_eq!(bucket(NS_MAX), BUCKETS - 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bounds(BUCKETS - 1).1, NS_MAX);
    }

    #[test]
    fn quantiles_are_within_two_percent() {
        let histogram = Histogram::default();
        (1..=10_000).for_each(|us| histogram.add(Duration::from_micros(us)));
        let mut times = Times::default();
        assert_eq!(times.quantile_us(0.5), None);
        times.add(&histogram);
        for (share, expected) in [
            (0.5, 5000.0),
            (0.9, 9000.0),
            (0.99, 9900.0),
            (0.999, 9990.0),
            (1.0, 10_000.0),
        ] {
            let found = times.quantile_us(share).unwrap();
            assert!((found / expected - 1.0_f64).abs() < 0.02, "{share}: {found}");
        }
        assert_eq!(times.at_most(10), 1);
        assert_eq!(times.at_most(36), 10_000);
    }
}
