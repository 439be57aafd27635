//! How long a write would wait for its answer, by what groups of the log have taken.
//!
//! It reads no clock: whoever takes and comes says what time it is. Invariant: what was not measured takes no time, so that nothing is
//! refused for a guess.

use std::time::{Duration, Instant};

/// Groups are told apart by their bytes' powers of two, up to 4 GiB.
const SIZES: usize = 33;
/// A group counts so much of the mean of its size.
const SHARE: u32 = 8;

/// When a write is to be answered.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    /// What time it is.
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

/// What groups have taken, from when they were taken until the next may be.
#[derive(Debug)]
pub(crate) struct Waits {
    /// The mean of each size; nothing where there was none.
    took: [Option<Duration>; SIZES],
    /// The group that is being made: since when, and its bytes.
    under_way: Option<(Instant, usize)>,
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
        self.under_way = Some((now, bytes));
        self.group_bytes_max = group_bytes_max.max(1);
    }

    /// Whoever takes them has come for the next.
    pub fn end(&mut self, now: Instant) {
        let Some((since, bytes)) = self.under_way.take() else {
            return;
        };
        let took = now.saturating_duration_since(since);
        if let Some(mean) = self.took.get_mut(size(bytes)) {
            *mean = Some(mean.map_or(took, |mean| mean - mean / SHARE + took / SHARE));
        }
    }

    /// How long it is until a write of so many bytes is answered, behind others that wait; nothing where it is taken at once.
    pub fn wait(&self, now: Instant, waiting: usize, bytes: usize) -> Duration {
        let left = match self.under_way {
            None if waiting == 0 => return Duration::ZERO,
            None => Duration::ZERO,
            Some((since, bytes)) => {
                let run = now.saturating_duration_since(since);
                self.takes(bytes).saturating_sub(run)
            }
        };
        let all = waiting.saturating_add(bytes);
        let (full, rest) = (all / self.group_bytes_max, all % self.group_bytes_max);
        let full = self
            .takes(self.group_bytes_max)
            .saturating_mul(u32::try_from(full).unwrap_or(u32::MAX));
        left.saturating_add(full).saturating_add(self.takes(rest))
    }

    /// What a group of so many bytes takes, or a smaller one where none of its size was measured.
    fn takes(&self, bytes: usize) -> Duration {
        if bytes == 0 {
            return Duration::ZERO;
        }
        let sizes = self.took.iter().take(size(bytes) + 1);
        sizes.rev().flatten().next().copied().unwrap_or_default()
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
        // A larger group takes at least as much as a smaller one has, and a smaller one is not known.
        assert_eq!(log.wait_ms(10, 400, 100), 10);
        assert_eq!(log.wait_ms(10, 2, 1), 0);
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
    fn sizes_and_times_have_no_end() {
        let mut log = Log::new();
        log.group(usize::MAX, (0, 1_000_000_000));
        log.group(1, (0, 1_000_000_000));
        log.0.begin(log.at(0), usize::MAX, 0);
        assert!(log.wait_ms(0, usize::MAX, usize::MAX) > 1_000_000_000);
    }
}
