//! The latencies of the second that has not ended, laid out so that ending it takes some ten microseconds.
//!
//! A load thread ends its second between two requests, so that must not delay the next one; walking a histogram of the
//! library takes several times as long. Its invariant: the buckets are those of [`crate::Latency`], edge for edge.

use crate::PackedLatency;
use crate::latency::NS_MAX;

/// Values below twice this have a bucket each; every doubling above shares this many: three digits.
const SUB_BUCKETS: usize = 1 << SUB_BITS;
const SUB_BITS: u32 = 10;

/// As many buckets as 60 s needs.
pub(crate) const BUCKETS: usize = index(NS_MAX) + 1;

/// Counts by bucket, with the range of those that were touched.
#[derive(Debug, Clone)]
pub(crate) struct OpenSecond {
    counts: Box<[u64]>,
    /// The lowest and the highest bucket that hold samples; the lowest is above the highest when none does.
    low: usize,
    high: usize,
    sum_ns: u128,
    ns_max: u64,
}

impl Default for OpenSecond {
    fn default() -> OpenSecond {
        OpenSecond {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            low: BUCKETS,
            high: 0,
            sum_ns: 0,
            ns_max: 0,
        }
    }
}

impl OpenSecond {
    /// As [`crate::Latency::record_ns`].
    #[inline]
    pub(crate) fn record_ns(&mut self, ns: u64) {
        let index = index(ns.clamp(1, NS_MAX));
        self.counts[index] += 1;
        self.low = self.low.min(index);
        self.high = self.high.max(index);
        self.sum_ns += u128::from(ns);
        self.ns_max = self.ns_max.max(ns);
    }

    /// What it holds so far.
    pub(crate) fn pack(&self) -> PackedLatency {
        let touched = self.counts.get(self.low..=self.high).unwrap_or_default();
        // Counted first, so that the buckets are allocated once.
        let mut buckets = Vec::with_capacity(touched.iter().filter(|&&count| count > 0).count());
        for (index, &count) in (self.low..).zip(touched) {
            if count > 0 {
                buckets.push((upper_edge(index), count));
            }
        }
        PackedLatency {
            buckets,
            sum_ns: self.sum_ns,
            ns_max: self.ns_max,
        }
    }

    /// Forgets all samples.
    pub(crate) fn clear(&mut self) {
        if let Some(touched) = self.counts.get_mut(self.low..=self.high) {
            touched.fill(0);
        }
        (self.low, self.high) = (BUCKETS, 0);
        (self.sum_ns, self.ns_max) = (0, 0);
    }
}

/// The bucket of `ns`, which is at least 1.
pub(crate) const fn index(ns: u64) -> usize {
    // How often the value is halved until it has its eleven bits.
    let shift = match ns.ilog2() {
        bits if bits > SUB_BITS => bits - SUB_BITS,
        _ => 0,
    };
    shift as usize * SUB_BUCKETS + (ns >> shift) as usize
}

/// The largest value of a bucket.
pub(crate) const fn upper_edge(index: usize) -> u64 {
    let shift = (index / SUB_BUCKETS).saturating_sub(1);
    let sub = (index - shift * SUB_BUCKETS) as u64;
    ((sub + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Latency;
    use proptest::prelude::*;

    #[test]
    fn every_bucket_is_the_librarys() {
        let mut latency = Latency::new();
        let mut open = OpenSecond::default();
        for index in 1..BUCKETS {
            let edge = upper_edge(index).min(NS_MAX);
            assert_eq!(super::index(edge), index);
            latency.record_ns(edge);
            open.record_ns(edge);
        }
        let packed = open.pack();
        assert_eq!(packed, latency.pack());
        assert_eq!(packed.count(), BUCKETS as u64 - 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_records_and_forgets_as_a_histogram(
            first in prop::collection::vec(0u64..70_000_000_000, 0..100),
            then in prop::collection::vec((0u32..40).prop_flat_map(|bits| 0u64..=1 << bits), 0..100),
        ) {
            let mut open = OpenSecond::default();
            for samples in [first, then] {
                let mut latency = Latency::new();
                for ns in samples {
                    open.record_ns(ns);
                    latency.record_ns(ns);
                }
                prop_assert_eq!(open.pack(), latency.pack());
                prop_assert_eq!(&Latency::from(open.pack()), &latency);
                open.clear();
                prop_assert_eq!(open.pack(), PackedLatency::default());
            }
        }
    }
}
