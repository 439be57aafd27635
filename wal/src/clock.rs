//! The time by which what a log keeps grows old.
//!
//! Not the system's clock, which people set. Invariant: it never goes backwards, within a process or from one to the next that
//! reads its log; and it does not jump while a process runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds of Unix time as the system said them at the start, or as the log's last record did where that is later; from there on
/// counted by the clock that nobody sets.
#[derive(Debug)]
pub struct Clock {
    start_ms: u64,
    since: Instant,
    /// How far a leader's log (`observe`) or a test has moved the clock ahead.
    ahead_ms: AtomicU64,
}

impl Clock {
    /// `last_ms` is the latest time that the log has.
    pub fn new(last_ms: u64) -> Clock {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_millis() as u64);
        Clock {
            start_ms: now.max(last_ms),
            since: Instant::now(),
            ahead_ms: AtomicU64::new(0),
        }
    }

    /// Milliseconds of Unix time.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        let run = self.since.elapsed().as_millis() as u64;
        self.start_ms
            .saturating_add(run)
            .saturating_add(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Is no earlier than that from here on, as a log says it that another clock writes.
    pub fn observe(&self, last_ms: u64) {
        let missing = last_ms.saturating_sub(self.now_ms());
        if missing > 0 {
            self.ahead_ms.fetch_add(missing, Ordering::Relaxed);
        }
    }

    /// Lets time pass, for tests.
    #[cfg(feature = "faults")]
    pub fn skip(&self, ms: u64) {
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_clock_that_was_set_back_begins_where_the_log_ends() {
        let future = 10_000_000_000_000;
        assert!((future..future + 60_000).contains(&Clock::new(future).now_ms()));
        assert!(Clock::new(1).now_ms() > 1_700_000_000_000);
    }
}
