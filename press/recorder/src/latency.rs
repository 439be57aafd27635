//! Latencies of one thread in a high dynamic range histogram: 1 µs to 60 s, three digits, no lock.
//!
//! Its invariant: merging loses nothing, and no percentile is named that fewer than ten samples stand behind.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The largest latency that is told apart; longer ones are recorded as this.
const US_MAX: u64 = 60_000_000;

/// A percentile is named only when at least this many samples lie beyond it.
pub const SAMPLES_BEYOND_MIN: u64 = 10;

/// The percentiles a report names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    /// Half of the samples.
    P50,
    /// 90 %.
    P90,
    /// 99 %.
    P99,
    /// 99.9 %.
    P99_9,
}

impl Percentile {
    fn per_mille(self) -> u64 {
        match self {
            Percentile::P50 => 500,
            Percentile::P90 => 900,
            Percentile::P99 => 990,
            Percentile::P99_9 => 999,
        }
    }

    /// Whether `count` samples are enough to name this percentile.
    pub fn has_enough(self, count: u64) -> bool {
        u128::from(count) * u128::from(1_000 - self.per_mille()) >= u128::from(SAMPLES_BEYOND_MIN) * 1_000
    }
}

/// A histogram of latencies with an exact sum and an exact maximum beside it.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
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
    pub us_p50: Option<u64>,
    /// The 90th percentile.
    pub us_p90: Option<u64>,
    /// The 99th percentile.
    pub us_p99: Option<u64>,
    /// The 99.9th percentile.
    pub us_p99_9: Option<u64>,
    /// The exact maximum.
    pub us_max: Option<u64>,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

impl Latency {
    /// An empty histogram, about 140 KB.
    pub fn new() -> Latency {
        // Constants that the library accepts, as every test of this file shows.
        #[allow(clippy::expect_used)]
        let histogram = Histogram::new_with_bounds(1, US_MAX, 3).expect("1 < 2 × 1 <= 60 s, three digits");
        Latency {
            histogram,
            sum_ns: 0,
            ns_max: 0,
        }
    }

    /// Adds one sample, rounded to the nearest microsecond and at least 1.
    #[inline]
    pub fn record(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(microseconds(ns));
        self.sum_ns += u128::from(ns);
        self.ns_max = self.ns_max.max(ns);
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Latency) {
        for step in other.histogram.iter_recorded() {
            self.histogram
                .saturating_record_n(step.value_iterated_to(), step.count_at_value());
        }
        self.sum_ns += other.sum_ns;
        self.ns_max = self.ns_max.max(other.ns_max);
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The percentile in microseconds, or nothing when fewer than [`SAMPLES_BEYOND_MIN`] samples lie beyond it.
    pub fn percentile_us(&self, percentile: Percentile) -> Option<u64> {
        if !percentile.has_enough(self.count()) {
            return None;
        }
        let us = self
            .histogram
            .value_at_quantile(percentile.per_mille() as f64 / 1_000.0);
        // A bucket's upper edge may lie above every sample in it.
        Some(us.min(microseconds(self.ns_max)))
    }

    /// All figures at once.
    pub fn summary(&self) -> LatencySummary {
        let count = self.count();
        LatencySummary {
            count,
            us_mean: (count > 0).then(|| self.sum_ns as f64 / 1_000.0 / count as f64),
            us_p50: self.percentile_us(Percentile::P50),
            us_p90: self.percentile_us(Percentile::P90),
            us_p99: self.percentile_us(Percentile::P99),
            us_p99_9: self.percentile_us(Percentile::P99_9),
            us_max: (count > 0).then(|| microseconds(self.ns_max)),
        }
    }

    /// Every bucket that holds a sample as a line `us,count`, where `us` is the upper edge of the bucket.
    pub fn to_csv(&self) -> String {
        let mut text = String::from("us,count\n");
        for step in self.histogram.iter_recorded() {
            text.push_str(&format!(
                "{},{}\n",
                step.value_iterated_to(),
                step.count_at_value()
            ));
        }
        text
    }

    /// Reads what [`Latency::to_csv`] wrote. The buckets come back exactly; sum and maximum come back as the buckets say.
    ///
    /// # Errors
    /// A line that is not two whole numbers in range.
    pub fn from_csv(text: &str) -> Result<Latency, Error> {
        let mut latency = Latency::new();
        for (index, line) in text.lines().enumerate() {
            if index == 0 && line == "us,count" {
                continue;
            }
            let parsed = line.split_once(',').and_then(|(us, count)| {
                let us = us
                    .parse::<u64>()
                    .ok()
                    .filter(|us| (1..=2 * US_MAX).contains(us))?;
                Some((us, count.parse::<u64>().ok()?))
            });
            let Some((us, count)) = parsed else {
                return Err(Error::BadLatencies {
                    line: index + 1,
                    found: line.chars().take(60).collect(),
                });
            };
            latency.histogram.saturating_record_n(us, count);
            latency.sum_ns += u128::from(us) * 1_000 * u128::from(count);
            latency.ns_max = latency.ns_max.max(us * 1_000);
        }
        Ok(latency)
    }
}

fn microseconds(ns: u64) -> u64 {
    (ns.saturating_add(500) / 1_000).max(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    fn of(us: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::new();
        for us in us {
            latency.record(Duration::from_micros(us));
        }
        latency
    }

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let check = |count: u64, expected: [bool; 4]| {
            let summary = of(1..=count).summary();
            let named = [summary.us_p50, summary.us_p90, summary.us_p99, summary.us_p99_9];
            assert_eq!(named.map(|figure| figure.is_some()), expected, "{count} samples");
        };
        check(0, [false; 4]);
        check(19, [false; 4]);
        check(20, [true, false, false, false]);
        check(99, [true, false, false, false]);
        check(100, [true, true, false, false]);
        check(999, [true, true, false, false]);
        check(1_000, [true, true, true, false]);
        check(10_000, [true; 4]);
    }

    #[test]
    fn figures_are_exact_to_three_digits() {
        let summary = of(1..=100_000).summary();
        let near = |figure: Option<u64>, expected: f64| {
            let figure = figure.unwrap() as f64;
            assert!(
                (figure - expected).abs() <= expected / 1_000.0,
                "{figure} is not {expected}"
            );
        };
        near(summary.us_p50, 50_000.0);
        near(summary.us_p99_9, 99_900.0);
        assert_eq!(summary.us_max, Some(100_000));
        assert_eq!(summary.us_mean, Some(50_000.5));
    }

    #[test]
    fn what_lies_outside_the_range_is_kept_at_its_edge() {
        let mut latency = of([]);
        latency.record(Duration::from_nanos(1));
        latency.record(Duration::from_secs(100));
        assert_eq!(latency.count(), 2);
        assert_eq!(latency.summary().us_max, Some(100_000_000));
    }

    proptest! {
        #[test]
        fn merging_and_storing_lose_nothing(
            left in prop::collection::vec(1u64..70_000_000, 0..300),
            right in prop::collection::vec(1u64..5_000, 0..300),
        ) {
            let whole = of(left.iter().chain(&right).copied());
            let mut merged = of(left);
            merged.merge(&of(right));
            prop_assert_eq!(merged.summary(), whole.summary());
            prop_assert_eq!(merged.to_csv(), whole.to_csv());
            let read = Latency::from_csv(&whole.to_csv()).unwrap();
            prop_assert_eq!(read.to_csv(), whole.to_csv());
        }
    }

    #[test]
    fn a_bad_stored_line_is_named() {
        for bad in [
            "us,count\n12",
            "us,count\n0,1",
            "us,count\nx,1",
            "us,count\n99999999999,1",
        ] {
            let said = Latency::from_csv(bad).expect_err("refused").to_string();
            assert!(said.starts_with("line 2"), "{said}");
        }
    }
}
