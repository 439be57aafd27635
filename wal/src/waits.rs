//! Predicts how long a write will wait for its answer, from how long recent groups of the log took.
//!
//! It reads no clock; callers pass the time. Invariants: what was not measured of late counts as no time, so that no write is refused on a
//! guess or for ever; and the prediction for a larger write is no shorter than that for a smaller one.

use std::time::{Duration, Instant};

/// Groups are told apart by their bytes' powers of two, up to 4 GiB.
const SIZES: usize = 33;
/// A group counts so much of the mean of its size.
const SHARE: u32 = 8;
/// A mean is forgotten where no group of its size has ended for so long: what it refuses brings no newer one.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// When a write is to be answered.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    /// A time that was read shortly before.
    pub now: Instant,
    /// Until then.
    pub at: Instant,
}

impl Deadline {
    /// How long it is until then.
    pub(crate) fn left(&self) -> Duration {
        self.at.saturating_duration_since(self.now)
    }
}

/// What groups of a size take.
#[derive(Debug, Clone, Copy)]
struct Mean {
    took: Duration,
    /// When the last of them ended.
    at: Instant,
}

impl Mean {
    fn holds(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < FORGOTTEN_AFTER
    }
}

/// A group that was taken.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    since: Instant,
    bytes: usize,
    /// How long it was predicted to take.
    takes: Duration,
}

/// What groups have taken, from when they were taken until the next may be.
#[derive(Debug)]
pub(crate) struct Waits {
    /// The mean of each size; nothing where there was none.
    took: [Option<Mean>; SIZES],
    /// The group that is being made.
    under_way: Option<UnderWay>,
    /// What a group may have.
    group_bytes_max: usize,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            took: [None; SIZES],
            under_way: None,
            group_bytes_max: usize::MAX,
        }
    }
}

fn size(bytes: usize) -> usize {
    ((usize::BITS - bytes.leading_zeros()) as usize).min(SIZES - 1)
}

impl Waits {
    /// A group was taken.
    pub fn begin(&mut self, now: Instant, bytes: usize, group_bytes_max: usize) {
        let takes = self.takes(now, bytes);
        self.under_way = Some(UnderWay {
            since: now,
            bytes,
            takes,
        });
        self.group_bytes_max = group_bytes_max.max(1);
    }

    /// Whoever takes them has come for the next.
    pub fn end(&mut self, now: Instant) {
        let Some(UnderWay { since, bytes, .. }) = self.under_way.take() else {
            return;
        };
        let took = now.saturating_duration_since(since);
        if let Some(mean) = self.took.get_mut(size(bytes)) {
            let before = mean.filter(|mean| mean.holds(now));
            let took = before.map_or(took, |mean| mean.took - mean.took / SHARE + took / SHARE);
            *mean = Some(Mean { took, at: now });
        }
    }

    /// The group that was taken is not counted: what it waited for is no matter of its size.
    pub fn pass_over(&mut self) {
        self.under_way = None;
    }

    /// How long it is until a write of so many bytes is answered, behind others that wait; nothing where it is taken at once.
    pub fn wait(&self, now: Instant, waiting: usize, bytes: usize) -> Duration {
        let left = match self.under_way {
            None if waiting == 0 => return Duration::ZERO,
            None => Duration::ZERO,
            Some(UnderWay { since, takes, .. }) => takes.saturating_sub(now.saturating_duration_since(since)),
        };
        let all = waiting.saturating_add(bytes);
        let (full, rest) = (all / self.group_bytes_max, all % self.group_bytes_max);
        // Mostly all fit in the next group.
        let full = match u32::try_from(full).unwrap_or(u32::MAX) {
            0 => Duration::ZERO,
            groups => self.takes(now, self.group_bytes_max).saturating_mul(groups),
        };
        left.saturating_add(full).saturating_add(self.takes(now, rest))
    }

    /// What a group of so many bytes takes: no more than any of its size or larger that was measured, or else as the next smaller one.
    fn takes(&self, now: Instant, bytes: usize) -> Duration {
        if bytes == 0 {
            return Duration::ZERO;
        }
        let took = |mean: &Option<Mean>| mean.filter(|mean| mean.holds(now)).map(|mean| mean.took);
        let (smaller, others) = self.took.split_at(size(bytes));
        let least = others.iter().filter_map(took).min();
        let next = || smaller.iter().rev().find_map(took);
        least.or_else(next).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock of its own, in milliseconds.
    struct Log(Waits, Instant);

    impl Log {
        fn new() -> Log {
            Log(Waits::default(), Instant::now())
        }

        fn at(&self, ms: u64) -> Instant {
            self.1 + Duration::from_millis(ms)
        }

        /// Groups of up to 1,000 bytes.
        fn group(&mut self, bytes: usize, (begin, end): (u64, u64)) {
            self.0.begin(self.at(begin), bytes, 1000);
            self.0.end(self.at(end));
        }

        fn wait_ms(&self, now: u64, waiting: usize, bytes: usize) -> u128 {
            self.0.wait(self.at(now), waiting, bytes).as_millis()
        }
    }

    #[test]
    fn what_was_not_measured_takes_no_time_and_an_idle_log_none() {
        let mut log = Log::new();
        assert_eq!(log.wait_ms(0, 0, 100), 0);
        log.0.begin(log.at(0), 100, 1000);
        assert_eq!(log.wait_ms(5, 800, 100), 0);
        log.0.end(log.at(10));
        assert_eq!(log.wait_ms(10, 0, 100), 0, "it is idle");
        assert_eq!(log.wait_ms(10, 50, 50), 10, "one group");
        // A larger group takes at least as much, and a smaller one no more.
        assert_eq!(log.wait_ms(10, 400, 100), 10);
        assert_eq!(log.wait_ms(10, 2, 1), 10);
    }

    #[test]
    fn a_wait_is_the_rest_of_the_group_under_way_and_those_behind_it() {
        let mut log = Log::new();
        log.group(100, (0, 10));
        log.group(1000, (10, 50));
        log.0.begin(log.at(100), 100, 1000);
        assert_eq!(log.wait_ms(103, 0, 100), 7 + 10);
        assert_eq!(log.wait_ms(103, 2000, 100), 7 + 2 * 40 + 10);
        // One that takes longer than the others is taken to end now.
        assert_eq!(log.wait_ms(500, 0, 100), 10);
    }

    #[test]
    fn the_mean_follows_what_groups_take() {
        let mut log = Log::new();
        log.group(100, (0, 8));
        log.group(100, (10, 34));
        assert_eq!(log.wait_ms(50, 50, 50), 7 + 3);
        for turn in 0..100 {
            log.group(100, (100 + turn * 30, 102 + turn * 30));
        }
        assert_eq!(log.wait_ms(9999, 50, 50), 2);
    }

    #[test]
    fn a_stall_counts_no_longer_than_larger_groups_take_less_or_it_is_forgotten() {
        let mut log = Log::new();
        log.group(100, (0, 5000));
        assert_eq!(log.wait_ms(5000, 50, 50), 5000);
        log.group(500, (5000, 5004));
        assert_eq!(log.wait_ms(5004, 50, 50), 4, "a larger group took less");
        assert_eq!(log.wait_ms(14_999, 50, 50), 4);
        log.group(500, (15_000, 15_007));
        assert_eq!(log.wait_ms(25_006, 50, 50), 7, "it counts alone");
        assert_eq!(log.wait_ms(25_007, 50, 50), 0, "nothing is known any more");
        log.group(500, (30_000, 30_009));
        assert_eq!(
            log.wait_ms(30_009, 400, 50),
            9,
            "nor does it count with what follows"
        );
    }

    #[test]
    fn a_larger_write_waits_no_shorter_than_a_smaller_one() {
        let mut log = Log::new();
        // Sizes in any order, of which some take less than smaller ones.
        for (turn, (bytes, ms)) in [(3, 9), (20, 2), (70, 8), (300, 5), (900, 6)]
            .into_iter()
            .enumerate()
        {
            let begin = turn as u64 * 10;
            log.group(bytes, (begin, begin + ms));
        }
        let waits: Vec<u128> = (1..999).map(|bytes| log.wait_ms(50, 1, bytes)).collect();
        assert!(waits.is_sorted(), "{waits:?}");
        assert_eq!((waits[0], waits[200], waits[900]), (2, 5, 6));
    }

    #[test]
    fn a_group_that_is_passed_over_counts_for_nothing() {
        let mut log = Log::new();
        log.group(100, (0, 8));
        log.0.begin(log.at(10), 100, 1000);
        log.0.pass_over();
        log.0.end(log.at(5010));
        assert_eq!(log.wait_ms(5010, 50, 50), 8);
    }

    #[test]
    fn sizes_and_times_have_no_end() {
        let mut log = Log::new();
        log.group(usize::MAX, (0, 1_000_000_000));
        log.group(1, (0, 1_000_000_000));
        log.0.begin(log.at(0), usize::MAX, 0);
        assert!(log.wait_ms(0, usize::MAX, usize::MAX) > 1_000_000_000);
    }
}
