//! The latencies of one second, packed: the buckets that hold samples and no others.
//!
//! An open histogram takes 220 KB whatever is in it; a run keeps one for each second and thread. Its invariant: packing
//! and merging lose nothing, so what is unpacked equals what was packed.

use serde::{Deserialize, Serialize};

use crate::{Latency, LatencySummary, SAMPLES_BEYOND_MIN};

/// A [`Latency`] that takes no more samples, in 16 bytes a bucket that holds one. In JSON it is a text of base64, in some
/// three bytes a bucket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PackedLatency {
    /// Upper edge in nanoseconds and count, ascending, no count 0.
    pub(crate) buckets: Vec<(u64, u64)>,
    pub(crate) sum_ns: u128,
    pub(crate) ns_max: u64,
}

impl PackedLatency {
    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &PackedLatency) {
        let mut both = Vec::with_capacity(self.buckets.len() + other.buckets.len());
        let (mut mine, mut theirs) = (self.buckets.as_slice(), other.buckets.as_slice());
        while let (Some((&(a, a_count), a_rest)), Some((&(b, b_count), b_rest))) =
            (mine.split_first(), theirs.split_first())
        {
            if a == b {
                both.push((a, a_count + b_count));
                (mine, theirs) = (a_rest, b_rest);
            } else if a < b {
                both.push((a, a_count));
                mine = a_rest;
            } else {
                both.push((b, b_count));
                theirs = b_rest;
            }
        }
        both.extend_from_slice(mine);
        both.extend_from_slice(theirs);
        self.buckets = both;
        self.sum_ns += other.sum_ns;
        self.ns_max = self.ns_max.max(other.ns_max);
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|&(_, count)| count).sum()
    }

    /// The 99th percentile in microseconds, to the width of its bucket: a walk over the buckets and nothing else, for a line
    /// of progress. Nothing when fewer than ten samples lie beyond it.
    pub fn us_p99_at_a_glance(&self) -> Option<f64> {
        let count = self.count();
        if count / 100 < SAMPLES_BEYOND_MIN {
            return None;
        }
        let mut left = count - count / 100;
        let beyond = |&&(_, samples): &&(u64, u64)| {
            let is_there = samples >= left;
            left = left.saturating_sub(samples);
            is_there
        };
        self.buckets
            .iter()
            .find(beyond)
            .map(|&(ns, _)| ns as f64 / 1_000.0)
    }

    /// As [`Latency::summary`].
    pub fn summary(&self) -> LatencySummary {
        let mut latency = Latency::new();
        latency.add(self);
        latency.summary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: &[u64]) -> Latency {
        let mut latency = Latency::new();
        samples.iter().for_each(|&ns| latency.record_ns(ns));
        latency
    }

    #[test]
    fn packing_and_merging_lose_nothing() {
        let check = |left: &[u64], right: &[u64]| {
            let whole = of(&[left, right].concat());
            let mut packed = of(left).pack();
            packed.merge(&of(right).pack());
            assert_eq!(Latency::from(packed.clone()), whole, "{left:?} {right:?}");
            assert_eq!(packed, whole.pack());
            assert_eq!(packed.count(), whole.count());
            assert_eq!(packed.summary(), whole.summary());
        };
        check(&[], &[]);
        check(&[1, 1, 5], &[]);
        check(&[], &[0, 99_000_000_000]);
        check(
            &[3, 5_000, 5_001, 60_000_000_000],
            &[2, 3, 5_000, 7_000_000, 70_000_000_000],
        );
    }
}
