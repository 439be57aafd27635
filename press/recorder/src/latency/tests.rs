//! Histograms of samples whose percentiles are known.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use hdrhistogram::Histogram;
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
    // How many of these seven percentiles are named; lower ones always are when a higher one is.
    let check = |count: u64, expected: usize| {
        let latency = of(1..=count);
        let s = latency.summary();
        let named = [
            s.us_p50,
            s.us_p75,
            s.us_p90,
            s.us_p95,
            s.us_p99,
            s.us_p99_9,
            s.us_p99_99,
        ];
        assert_eq!(named.iter().flatten().count(), expected, "{count} samples");
        let quantiles = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999].map(|q| latency.quantile_us(q));
        assert_eq!(quantiles, named, "{count} samples");
    };
    check(0, 0);
    check(19, 0);
    check(20, 1);
    check(39, 1);
    check(40, 2);
    check(99, 2);
    check(100, 3);
    check(200, 4);
    check(999, 4);
    check(1_000, 5);
    check(10_000, 6);
    check(99_999, 6);
    check(100_000, 7);
    assert_eq!(of(1..=1_000).quantile_us(f64::NAN), None);
    assert_eq!(of(1..=1_000).quantile_us(-0.1), None);
}

#[test]
fn the_curve_ends_where_ten_samples_lie_beyond() {
    assert_eq!(of(1..=9).curve(), []);
    let curve = of(1..=1_000).curve();
    let (first, last) = (curve[0], curve[curve.len() - 1]);
    assert_eq!(first.0, 0.0);
    // 1 - 2^-6 leaves 15.6 samples, its fourth tick 9.4.
    assert!((last.0 - 100.0 * (1.0 - 0.7 / 64.0)).abs() < 1e-9, "{last:?}");
    assert!((last.1 - 990.0).abs() < 1.0, "{last:?}");
    assert!(
        curve
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
    );
}

#[test]
fn clearing_leaves_what_is_new() {
    let mut latency = of([5, 6_000_000, 90_000_000]);
    latency.clear();
    assert_eq!(latency, Latency::new());
    assert_eq!(latency.summary(), LatencySummary::default());
    latency.record_ns(7);
    let mut other = Latency::new();
    other.record_ns(7);
    assert_eq!(latency, other);
}

#[test]
fn figures_are_exact_to_three_digits() {
    let summary = of(1..=100_000).summary();
    let near = |figure: Option<f64>, expected: f64| {
        let figure = figure.unwrap();
        assert!(
            (figure - expected).abs() <= expected / 1_000.0,
            "{figure} is not {expected}"
        );
    };
    near(summary.us_p50, 50_000.0);
    near(summary.us_p70, 70_000.0);
    near(summary.us_p75, 75_000.0);
    near(summary.us_p80, 80_000.0);
    near(summary.us_p95, 95_000.0);
    near(summary.us_p97, 97_000.0);
    near(summary.us_p99_9, 99_900.0);
    near(summary.us_p99_99, 99_990.0);
    assert_eq!(summary.us_max, Some(100_000.0));
    assert_eq!(summary.us_mean, Some(50_000.5));
}

#[test]
fn what_lies_outside_the_range_is_kept_at_its_edge() {
    let mut latency = of([]);
    latency.record(Duration::ZERO);
    latency.record(Duration::from_secs(65));
    latency.record(Duration::from_secs(100));
    assert_eq!(latency.count(), 3);
    assert_eq!(latency.summary().us_max, Some(100_000_000.0));
    assert_eq!(latency.sum_ns(), 165_000_000_000);
    let buckets: Vec<(u64, u64)> = latency.buckets().collect();
    assert_eq!((buckets[0], buckets.len(), buckets[1].1), ((1, 1), 2, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merging_and_storing_lose_nothing(
        left in prop::collection::vec(0u64..70_000_000_000, 0..300),
        right in prop::collection::vec(1u64..5_000, 0..300),
    ) {
        let of = |samples: &[u64]| {
            let mut latency = Latency::new();
            samples.iter().for_each(|&ns| latency.record_ns(ns));
            latency
        };
        let whole = of(&[&left[..], &right[..]].concat());
        let mut merged = of(&left);
        merged.merge(&of(&right));
        prop_assert_eq!(&merged, &whole);
        prop_assert_eq!(merged.summary(), whole.summary());
        prop_assert_eq!(merged.to_csv(), whole.to_csv());
    }
}

#[test]
fn requests_without_a_latency_are_beyond_every_percentile() {
    let mut latency = Latency::new();
    (1..=1_000).for_each(|us| latency.record_ns(us * 1_000));
    let near = |found: Reached, us: f64| {
        assert!(
            matches!(found, Reached::Us(found) if (found - us).abs() < 1.0),
            "{found:?} is not {us}"
        );
    };
    near(latency.reached_by(0.99, 1_000, 1_000), 990.0);
    near(latency.reached_by(0.5, 1_000, 1_000), 500.0);
    // Of 1010 requests the ten slowest have none: the 1000 others are as far as 99 % go.
    near(latency.reached_by(0.99, 1_000, 1_010), 1_000.0);
    assert_eq!(latency.reached_by(0.99, 1_000, 1_011), Reached::Never);
    near(latency.reached_by(0.5, 1_000, 1_900), 950.0);
    assert_eq!(latency.reached_by(0.5, 1_000, 2_001), Reached::Never);
    assert_eq!(latency.reached_by(0.99, 990, 999), Reached::TooFew);
    assert_eq!(
        latency.reached_by(0.99, 900, 999),
        Reached::Never,
        "too few at any count"
    );
    assert_eq!(Latency::new().reached_by(0.5, 0, 0), Reached::TooFew);
    assert_eq!(Latency::new().reached_by(0.5, 0, 100), Reached::Never);
}

/// The library's histogram of the same range.
fn library(samples: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, NS_MAX, 3).unwrap();
    for ns in samples {
        histogram.saturating_record((*ns).clamp(1, NS_MAX));
    }
    histogram
}

fn buckets(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let steps = histogram.iter_recorded();
    steps
        .map(|step| (step.value_iterated_to(), step.count_at_value()))
        .collect()
}

#[test]
fn every_bucket_is_the_librarys() {
    let edges: Vec<u64> = (1..BUCKETS).map(|index| upper_edge(index).min(NS_MAX)).collect();
    let mut latency = Latency::new();
    for (at, edge) in (1..).zip(&edges) {
        assert_eq!(index(*edge), at);
        latency.record_ns(*edge);
    }
    assert_eq!(latency.pack().buckets, buckets(&library(&edges)));
    assert_eq!(latency.pack().count(), BUCKETS as u64 - 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_records_and_forgets_as_the_librarys(
        first in prop::collection::vec(0u64..70_000_000_000, 0..100),
        then in prop::collection::vec((0u32..40).prop_flat_map(|bits| 0u64..=1 << bits), 0..100),
        quantile in 0.0f64..1.1,
    ) {
        let mut latency = Latency::new();
        for samples in [first, then] {
            samples.iter().for_each(|&ns| latency.record_ns(ns));
            let library = library(&samples);
            prop_assert_eq!(latency.pack().buckets, buckets(&library));
            prop_assert_eq!(latency.count(), library.len());
            prop_assert_eq!(&Latency::from(latency.pack()), &latency);
            let ns_max = samples.iter().copied().max().unwrap_or(0);
            for quantile in [0.0, quantile, 1.0] {
                let ns = library.value_at_quantile(quantile).min(ns_max);
                prop_assert_eq!(latency.us_at(quantile), microseconds(ns));
            }
            latency.clear();
            prop_assert_eq!(latency.pack(), PackedLatency::default());
        }
    }
}
