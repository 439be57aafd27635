//! Stamps for upserts: a hybrid logical clock, which is near the time and above every stamp that this server has seen.
//!
//! It reads no clock; time is passed in. What a stamp decides is the engine's. The invariant: the stamps that it gives ascend, whatever
//! becomes of the time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a stamp's time below its milliseconds: they count the stamps within one.
const COUNT_BITS: u32 = 16;

/// What gives a server's upserts their stamps.
#[derive(Debug)]
pub struct StampClock {
    last: AtomicU64,
    origin: u64,
}

impl StampClock {
    /// A clock of that number, which no other server's should have.
    pub fn new(origin: u64) -> StampClock {
        StampClock {
            last: AtomicU64::new(0),
            origin,
        }
    }

    /// Its number: it decides between stamps of one time.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// The next time; `now_ms` is in milliseconds of Unix time.
    pub fn next(&self, now_ms: u64) -> u64 {
        let now = now_ms.saturating_mul(1 << COUNT_BITS);
        let after = |last: u64| now.max(last.saturating_add(1));
        let before = self
            .last
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(after(last)));
        after(before.unwrap_or_else(|last| last))
    }

    /// Another server gave that time: the next is above it, unless it is behind `ms_max`, in milliseconds of Unix time. A clock that
    /// far ahead would put this server's ahead too, and then those of all others.
    pub fn observe(&self, time: u64, ms_max: u64) {
        if time >> COUNT_BITS <= ms_max {
            self.last.fetch_max(time, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ascend_with_the_clock_and_without_it() {
        let clock = StampClock::new(7);
        assert_eq!(clock.next(5), 5 << 16);
        assert_eq!(clock.next(5), (5 << 16) + 1);
        assert_eq!(clock.next(4), (5 << 16) + 2);
        clock.observe(11 << 16, 10);
        assert_eq!(clock.next(4), (5 << 16) + 3, "it is too far ahead");
        clock.observe(9 << 16, 10);
        assert_eq!(clock.next(6), (9 << 16) + 1);
        clock.observe(3, 10);
        assert_eq!(clock.next(10), 10 << 16);
        assert_eq!(clock.next(u64::MAX), u64::MAX);
        assert_eq!(clock.origin(), 7);
    }
}
