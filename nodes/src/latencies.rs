//! The 95th percentile of recent latencies, in 4 KiB. Not a record of a run: press has that. Its invariant: the figure is of the
//! last 512 latencies and lags at most 32 of them.

use std::time::Duration;

/// The latencies that the percentile is of.
const SAMPLES_MAX: usize = 512;
/// Fewer say too little.
const SAMPLES_MIN: usize = 100;
/// So many new ones make the percentile worth counting again.
const SAMPLES_FRESH: usize = 32;

/// A window of latencies.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// The last ones in microseconds, in a ring.
    samples_us: Box<[u32; SAMPLES_MAX]>,
    /// Where the percentile is sought, which changes the order.
    sorted_us: Box<[u32; SAMPLES_MAX]>,
    /// Of the ring.
    next: usize,
    count: usize,
    fresh: usize,
    p95: Option<Duration>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            samples_us: Box::new([0; SAMPLES_MAX]),
            sorted_us: Box::new([0; SAMPLES_MAX]),
            next: 0,
            count: 0,
            fresh: 0,
            p95: None,
        }
    }
}

impl Latencies {
    /// Counts a latency in; one above an hour and eleven minutes counts as that.
    pub fn record(&mut self, latency: Duration) {
        if let Some(sample) = self.samples_us.get_mut(self.next) {
            *sample = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX);
        }
        self.next = (self.next + 1) % SAMPLES_MAX;
        self.count = (self.count + 1).min(SAMPLES_MAX);
        self.fresh += 1;
        if self.count >= SAMPLES_MIN && (self.fresh >= SAMPLES_FRESH || self.p95.is_none()) {
            self.fresh = 0;
            self.p95 = self.count_again();
        }
    }

    /// What 95 of 100 latencies were at most; `None` until there were 100.
    pub fn p95(&self) -> Option<Duration> {
        self.p95
    }

    fn count_again(&mut self) -> Option<Duration> {
        self.sorted_us.copy_from_slice(&*self.samples_us);
        let sorted = self.sorted_us.get_mut(..self.count)?;
        let rank = (self.count * 95).div_ceil(100).checked_sub(1)?;
        let (_, p95_us, _) = sorted.select_nth_unstable(rank);
        Some(Duration::from_micros(u64::from(*p95_us)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_of_the_window_and_follows_it() {
        let mut latencies = Latencies::default();
        let us = |us| Some(Duration::from_micros(us));
        for n in 1..=99 {
            latencies.record(Duration::from_micros(n));
            assert_eq!(latencies.p95(), None);
        }
        latencies.record(Duration::from_micros(100));
        assert_eq!(latencies.p95(), us(95));
        for _ in 0..SAMPLES_MAX {
            latencies.record(Duration::from_micros(7000));
        }
        assert_eq!(latencies.p95(), us(7000));
        latencies.record(Duration::MAX);
        assert_eq!(latencies.p95(), us(7000));
    }
}
