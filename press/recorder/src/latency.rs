//! Latencies of one thread in a high dynamic range histogram: 1 ns to 60 s, three digits, no lock.
//!
//! A load thread ends its second between two requests: packing and forgetting a second walk only the buckets between the lowest
//! and the highest that hold samples, which takes some ten microseconds.
//! Its invariant: merging loses nothing, and no percentile is named that fewer than ten samples stand behind.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::PackedLatency;
use crate::buckets::{BUCKETS, NS_MAX, index, upper_edge};

/// A percentile is named only when at least this many samples lie beyond it.
pub const SAMPLES_BEYOND_MIN: u64 = 10;

/// Points of a curve between a part of the samples and half of what lies beyond it.
const CURVE_TICKS: u32 = 5;

/// Where a part of some requests lies of which not all have a latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reached {
    /// Fewer than [`SAMPLES_BEYOND_MIN`] requests lie beyond that part.
    TooFew,
    /// Within these microseconds.
    Us(f64),
    /// The part holds requests without a latency.
    Never,
}

/// A histogram of latencies with an exact sum and an exact maximum beside it; equal when all three are. In JSON it is what
/// [`PackedLatency`] is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "PackedLatency", from = "PackedLatency")]
pub struct Latency {
    /// By bucket.
    counts: Box<[u64]>,
    /// Of all buckets, so that a percentile needs no walk over them.
    count: u64,
    /// The lowest and the highest bucket that hold samples; the lowest is above the highest when none does.
    low: usize,
    high: usize,
    /// Kept apart because the mean of a histogram is rounded by its buckets.
    sum_ns: u128,
    /// Kept apart for the same reason, and because it may lie above the range.
    ns_max: u64,
}

/// The figures of a histogram, in microseconds; a figure that the samples cannot carry is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencySummary {
    /// How many samples.
    pub count: u64,
    /// Their exact mean.
    pub us_mean: Option<f64>,
    /// The median.
    pub us_p50: Option<f64>,
    /// The 70th percentile; absent in results that were made before it was told, as the 80th and the 97th.
    #[serde(default)]
    pub us_p70: Option<f64>,
    /// The 75th percentile.
    pub us_p75: Option<f64>,
    /// The 80th percentile.
    #[serde(default)]
    pub us_p80: Option<f64>,
    /// The 90th percentile.
    pub us_p90: Option<f64>,
    /// The 95th percentile.
    pub us_p95: Option<f64>,
    /// The 97th percentile.
    #[serde(default)]
    pub us_p97: Option<f64>,
    /// The 99th percentile.
    pub us_p99: Option<f64>,
    /// The 99.9th percentile.
    pub us_p99_9: Option<f64>,
    /// The 99.99th percentile.
    pub us_p99_99: Option<f64>,
    /// The exact maximum.
    pub us_max: Option<f64>,
}

impl LatencySummary {
    /// The named percentiles, each with its figure in microseconds.
    pub fn percentiles(&self) -> [(f64, Option<f64>); 7] {
        [
            (50.0, self.us_p50),
            (75.0, self.us_p75),
            (90.0, self.us_p90),
            (95.0, self.us_p95),
            (99.0, self.us_p99),
            (99.9, self.us_p99_9),
            (99.99, self.us_p99_99),
        ]
    }
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

impl From<PackedLatency> for Latency {
    fn from(packed: PackedLatency) -> Latency {
        let mut latency = Latency::new();
        latency.add(&packed);
        latency
    }
}

impl From<Latency> for PackedLatency {
    fn from(latency: Latency) -> PackedLatency {
        latency.pack()
    }
}

impl Latency {
    /// An empty histogram, about 220 KB.
    pub fn new() -> Latency {
        Latency {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            low: BUCKETS,
            high: 0,
            sum_ns: 0,
            ns_max: 0,
        }
    }

    /// Adds one sample.
    #[inline]
    pub fn record(&mut self, took: Duration) {
        self.record_ns(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds one sample of `ns` nanoseconds; its bucket is that of 1 ns to 60 s, sum and maximum stay exact.
    #[inline]
    pub fn record_ns(&mut self, ns: u64) {
        self.count_ns(ns, 1);
        self.sum_ns += u128::from(ns);
        self.ns_max = self.ns_max.max(ns);
    }

    /// Counts samples in their bucket.
    #[inline]
    fn count_ns(&mut self, ns: u64, samples: u64) {
        let index = index(ns.clamp(1, NS_MAX));
        self.counts[index] = self.counts[index].saturating_add(samples);
        self.count = self.count.saturating_add(samples);
        self.low = self.low.min(index);
        self.high = self.high.max(index);
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Latency) {
        other
            .buckets()
            .for_each(|(ns, samples)| self.count_ns(ns, samples));
        self.sum_ns += other.sum_ns;
        self.ns_max = self.ns_max.max(other.ns_max);
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        if let Some(touched) = self.counts.get_mut(self.low..=self.high) {
            touched.fill(0);
        }
        (self.low, self.high) = (BUCKETS, 0);
        (self.count, self.sum_ns, self.ns_max) = (0, 0, 0);
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all samples in nanoseconds, exact.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The latency in microseconds that the part `quantile` (0 to 1) of the samples does not exceed, or nothing when fewer
    /// than [`SAMPLES_BEYOND_MIN`] samples lie beyond it or it is no such part.
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        // The hair's breadth forgives what 1 - 0.9 loses.
        let beyond = self.count() as f64 * (1.0 - quantile) + 1e-6;
        let is_part = (0.0..=1.0).contains(&quantile);
        (is_part && beyond >= SAMPLES_BEYOND_MIN as f64).then(|| self.us_at(quantile))
    }

    /// The latency that the part `quantile` of `population` requests does not exceed, where these samples stand for
    /// `counted` of them and all others are slower than any limit.
    pub fn reached_by(&self, quantile: f64, counted: u64, population: u64) -> Reached {
        let rank = (population as f64 * quantile - 1e-6).ceil().max(1.0);
        // Without those that are slower than any limit it exists at no count.
        if population > 0 && rank > counted as f64 {
            return Reached::Never;
        }
        // As in `quantile_us`.
        let beyond = population as f64 * (1.0 - quantile) + 1e-6;
        if !(0.0..=1.0).contains(&quantile) || beyond < SAMPLES_BEYOND_MIN as f64 {
            return Reached::TooFew;
        }
        if self.count() == 0 {
            return Reached::Never;
        }
        // The middle between two ranks, so that no rounding leads to the next one.
        Reached::Us(self.us_at((rank - 0.5) / counted as f64))
    }

    fn us_at(&self, quantile: f64) -> f64 {
        let rank = ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut reached = 0u64;
        let bucket = self.touched().find(|(_, samples)| {
            reached = reached.saturating_add(*samples);
            reached >= rank
        });
        let ns = match bucket {
            None => 0,
            Some((index, _)) if quantile == 0.0 => upper_edge(index - 1) + 1,
            Some((index, _)) => upper_edge(index),
        };
        // A bucket's upper edge may lie above every sample in it.
        microseconds(ns.min(self.ns_max))
    }

    /// Points `(percentile, us)` for a plot over 1 / (1 - p): five for each halving of what lies beyond, as long as ten
    /// samples do. Percentiles are of 100, the first is 0.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        for halving in 0..64 {
            let beyond = 0.5f64.powi(halving);
            for tick in 0..CURVE_TICKS {
                let part = 1.0 - beyond * (1.0 - f64::from(tick) / f64::from(2 * CURVE_TICKS));
                match self.quantile_us(part) {
                    Some(us) => points.push((100.0 * part, us)),
                    None => return points,
                }
            }
        }
        points
    }

    /// All figures at once.
    pub fn summary(&self) -> LatencySummary {
        let count = self.count();
        LatencySummary {
            count,
            us_mean: (count > 0).then(|| self.sum_ns as f64 / 1_000.0 / count as f64),
            us_p50: self.quantile_us(0.5),
            us_p70: self.quantile_us(0.7),
            us_p75: self.quantile_us(0.75),
            us_p80: self.quantile_us(0.8),
            us_p90: self.quantile_us(0.9),
            us_p95: self.quantile_us(0.95),
            us_p97: self.quantile_us(0.97),
            us_p99: self.quantile_us(0.99),
            us_p99_9: self.quantile_us(0.999),
            us_p99_99: self.quantile_us(0.9999),
            us_max: (count > 0).then(|| microseconds(self.ns_max)),
        }
    }

    /// The buckets that hold samples, with sum and maximum: all there is, in a fraction of the memory.
    pub fn pack(&self) -> PackedLatency {
        // Counted first, so that the buckets are allocated once.
        let mut buckets = Vec::with_capacity(self.touched().count());
        buckets.extend(self.buckets());
        PackedLatency {
            buckets,
            sum_ns: self.sum_ns,
            ns_max: self.ns_max,
        }
    }

    /// Adds all samples of `other`.
    pub(crate) fn add(&mut self, other: &PackedLatency) {
        for &(ns, count) in &other.buckets {
            self.count_ns(ns, count);
        }
        self.sum_ns += other.sum_ns;
        self.ns_max = self.ns_max.max(other.ns_max);
    }

    /// Upper edge in nanoseconds and count of every bucket that holds a sample, ascending.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.touched()
            .map(|(index, samples)| (upper_edge(index), samples))
    }

    /// Every bucket that holds a sample, with how many, ascending.
    fn touched(&self) -> impl Iterator<Item = (usize, u64)> {
        let touched = self.counts.get(self.low..=self.high).unwrap_or_default();
        let counted = (self.low..).zip(touched.iter().copied());
        counted.filter(|(_, samples)| *samples > 0)
    }

    /// Every bucket that holds a sample as a line `ns,count`, where `ns` is the upper edge of the bucket.
    pub fn to_csv(&self) -> String {
        let mut text = String::from("ns,count\n");
        for (ns, count) in self.buckets() {
            text.push_str(&format!("{ns},{count}\n"));
        }
        text
    }
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

#[cfg(test)]
mod tests;
