//! The clock of a load, which all its threads share, those of other processes too.
//!
//! Its invariant: a clock that went to another process as a number tells the same time there, as well as two readings can say.

use std::io;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Readings of two clocks, of which the closest pair counts.
const READINGS: usize = 9;

/// Nanoseconds since a moment that all threads share, those of other processes too.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// The clock whose 0 is now.
    pub fn start() -> Clock {
        Clock {
            epoch: Instant::now(),
        }
    }

    /// The clock whose 0 is at this reading of the system's own.
    ///
    /// # Errors
    /// That moment is none of this machine's clock.
    pub fn of(epoch_ns: u64) -> io::Result<Clock> {
        let (at, ns) = both_clocks()?;
        let since = Duration::from_nanos(ns.saturating_sub(epoch_ns));
        let epoch = at.checked_sub(since);
        Ok(Clock {
            epoch: epoch.ok_or_else(|| io::Error::other("the clock of the press is not this machine's"))?,
        })
    }

    /// Its 0 as the system's own clock reads it.
    ///
    /// # Errors
    /// The system's clock cannot be read.
    pub fn epoch_ns(&self) -> io::Result<u64> {
        let (at, ns) = both_clocks()?;
        let since = at.saturating_duration_since(self.epoch);
        Ok(ns.saturating_sub(since.as_nanos() as u64))
    }

    /// Nanoseconds since its 0.
    #[inline]
    pub fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

/// One moment by both clocks, as well as it can be told.
fn both_clocks() -> io::Result<(Instant, u64)> {
    let mut closest = (Duration::MAX, Instant::now(), 0);
    for _ in 0..READINGS {
        let before = Instant::now();
        let ns = monotonic_ns()?;
        let width = before.elapsed();
        if width < closest.0 {
            closest = (width, before + width / 2, ns);
        }
    }
    Ok((closest.1, closest.2))
}

/// The clock behind `Instant`, in nanoseconds: a number that means the same in every process.
fn monotonic_ns() -> io::Result<u64> {
    let time = clock_gettime(ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).map_err(io::Error::other);
    Ok(part(time.tv_sec)? * 1_000_000_000 + part(time.tv_nsec)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_clock_that_went_through_its_epoch_tells_the_same_time() {
        let clock = Clock::start();
        let same = Clock::of(clock.epoch_ns().unwrap()).unwrap();
        // Whatever happens between two readings, they come in order, but for what the conversion cannot tell.
        let slack = 1_000_000;
        let (first, then, last) = (clock.now(), same.now(), clock.now());
        assert!(
            first <= then + slack && then <= last + slack,
            "{first} {then} {last}"
        );
        assert!(Clock::of(u64::MAX).unwrap().now() < 1_000_000_000);
    }
}
