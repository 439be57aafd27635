//! Times counted by powers of two of a microsecond, and how they are printed.
//!
//! It knows no method and no stage. Its invariant: counting a time is two relaxed additions.

use super::Page;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds: powers of two up to 4 s, and one for all longer times.
const BUCKETS: usize = 24;

/// How often which times were seen, and their sum.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// Nanoseconds, so that short times do not round to nothing.
    sum_ns: AtomicU64,
    /// Times of at most 2^i microseconds (and more than 2^(i-1)); the last holds all longer ones.
    counts: [AtomicU64; BUCKETS],
}

impl Histogram {
    pub(super) fn add(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let us = ns.div_ceil(1000);
        let bucket = (64 - us.saturating_sub(1).leading_zeros() as usize).min(BUCKETS - 1);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
    }

    /// Prints the samples `NAME_bucket`, `NAME_sum` and `NAME_count` with `label`.
    pub(super) fn print(&self, page: &mut Page, name: &str, label: (&str, &str)) {
        let bucket = format!("{name}_bucket");
        let mut total = 0;
        for (at, count) in self.counts.iter().enumerate() {
            total += count.load(Ordering::Relaxed);
            let bound = if at == BUCKETS - 1 {
                "+Inf".to_owned()
            } else {
                format!("{}", (1u64 << at) as f64 / 1e6)
            };
            page.sample(&bucket, &[label, ("le", &bound)], total as f64);
        }
        let sum = self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
        page.sample(&format!("{name}_sum"), &[label], sum);
        page.sample(&format!("{name}_count"), &[label], total as f64);
    }
}
