//! When a slow call is tried a second time elsewhere, and how often that may happen.
//!
//! It sends nothing (`client.rs` does). Its invariant: second attempts are at most `percent_max` of the calls made through
//! [`crate::Client::call_hedged`] so far, so that a server which is slow for everybody is not given double the work.

use crate::CallError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What one second attempt costs; a call earns `percent_max` of it.
const ATTEMPT_COST: u64 = 100;
/// Second attempts that can be saved up in quiet times.
const ATTEMPTS_SAVED_MAX: u64 = 10;
/// The calls that the 95th percentile is of.
const SAMPLES_MAX: usize = 512;
/// Fewer calls say too little.
const SAMPLES_MIN: usize = 100;
/// So many new calls make the percentile worth counting again.
const SAMPLES_FRESH: usize = 32;

/// Second attempts for slow calls that are safe to repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hedge {
    /// How long the first attempt has to itself.
    pub after: HedgeAfter,
    /// Second attempts, in percent of calls; more than 100 counts as 100.
    pub percent_max: u32,
}

/// How long the first attempt of a hedged call has to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HedgeAfter {
    /// Always as long.
    Delay(Duration),
    /// As long as 95 of the last 100 took: measured over the last 512 hedged calls, whatever their methods. Until 100
    /// calls were measured there are no second attempts.
    P95,
}

impl Default for Hedge {
    /// After the measured 95th percentile, at most 5 % of calls.
    fn default() -> Self {
        Hedge {
            after: HedgeAfter::P95,
            percent_max: 5,
        }
    }
}

/// What hedging has done since the client was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HedgeCounts {
    /// Second attempts sent.
    pub sent: u64,
    /// Of these, those whose answer was used.
    pub won: u64,
    /// Second attempts that were not sent, because they would have been more than [`Hedge::percent_max`].
    pub held_back: u64,
}

/// The hedging of one client.
pub(crate) struct Hedger {
    hedge: Hedge,
    /// What second attempts may cost now.
    credit: AtomicU64,
    times: Mutex<Times>,
    sent: AtomicU64,
    won: AtomicU64,
    held_back: AtomicU64,
}

/// How long the last calls took.
#[derive(Default)]
struct Times {
    /// A ring, once it is full.
    us: Vec<u64>,
    oldest: usize,
    fresh: usize,
    p95: Option<Duration>,
}

impl Hedger {
    pub(crate) fn new(hedge: Hedge) -> Hedger {
        Hedger {
            hedge,
            credit: AtomicU64::new(0),
            times: Mutex::default(),
            sent: AtomicU64::new(0),
            won: AtomicU64::new(0),
            held_back: AtomicU64::new(0),
        }
    }

    /// A call begins; it lets others be repeated.
    pub(crate) fn begin(&self) -> Timed<'_> {
        let earned = u64::from(self.hedge.percent_max).min(ATTEMPT_COST);
        let saved = |credit: u64| Some((credit + earned).min(ATTEMPTS_SAVED_MAX * ATTEMPT_COST));
        let _ = self
            .credit
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, saved);
        Timed {
            hedger: self,
            started: Some(Instant::now()),
        }
    }

    /// How long the first attempt has to itself; `None` where there is no second.
    pub(crate) fn delay(&self) -> Option<Duration> {
        match self.hedge.after {
            HedgeAfter::Delay(delay) => Some(delay),
            HedgeAfter::P95 => self.times.lock().unwrap_or_else(PoisonError::into_inner).p95,
        }
    }

    /// Whether a second attempt may be sent now; it is counted either way.
    pub(crate) fn may_send(&self) -> bool {
        let spent = |credit: u64| credit.checked_sub(ATTEMPT_COST);
        let may = self
            .credit
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent)
            .is_ok();
        let count = if may { &self.sent } else { &self.held_back };
        count.fetch_add(1, Ordering::Relaxed);
        may
    }

    /// A second attempt's answer was used.
    pub(crate) fn second_won(&self) {
        self.won.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> HedgeCounts {
        HedgeCounts {
            sent: self.sent.load(Ordering::Relaxed),
            won: self.won.load(Ordering::Relaxed),
            held_back: self.held_back.load(Ordering::Relaxed),
        }
    }
}

impl Times {
    fn add(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if self.us.len() < SAMPLES_MAX {
            self.us.push(us);
        } else {
            self.us[self.oldest] = us;
            self.oldest = (self.oldest + 1) % SAMPLES_MAX;
        }
        self.fresh += 1;
        if self.us.len() >= SAMPLES_MIN && (self.p95.is_none() || self.fresh >= SAMPLES_FRESH) {
            self.fresh = 0;
            let mut sorted = self.us.clone();
            let at = sorted.len() * 95 / 100;
            let (_, p95, _) = sorted.select_nth_unstable(at);
            self.p95 = Some(Duration::from_micros(*p95));
        }
    }
}

/// Measures a first attempt. One that is given up, because its caller left or the second attempt won, counts as long as
/// it had taken: it would have taken longer.
pub(crate) struct Timed<'h> {
    hedger: &'h Hedger,
    /// `None` when it says nothing of how long answers take.
    started: Option<Instant>,
}

impl Timed<'_> {
    /// The first attempt has ended; an attempt that failed without an answer is not measured.
    pub(crate) fn ended<T>(&mut self, result: &Result<T, CallError>) {
        if !matches!(result, Ok(_) | Err(CallError::Status(_))) {
            self.started = None;
        }
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        if let Some(started) = self.started {
            let mut times = self.hedger.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.add(started.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn p95_of(times_ms: impl IntoIterator<Item = u64>) -> Option<Duration> {
        let mut times = Times::default();
        times_ms
            .into_iter()
            .for_each(|ms| times.add(Duration::from_millis(ms)));
        times.p95
    }

    #[test]
    fn the_percentile_is_that_of_the_last_calls() {
        assert_eq!(p95_of(1..=99), None);
        assert_eq!(p95_of(1..=100), Some(Duration::from_millis(96)));
        // Four of a hundred are slow: the ninety-fifth is not.
        assert_eq!(
            p95_of((1..=100).map(|at| if at > 96 { 900 } else { 2 })),
            Some(Duration::from_millis(2))
        );
        // What was measured long ago has gone from the ring.
        let slow_then_quick = [900; SAMPLES_MAX]
            .into_iter()
            .chain([3; SAMPLES_MAX + SAMPLES_FRESH]);
        assert_eq!(p95_of(slow_then_quick), Some(Duration::from_millis(3)));
    }

    #[test]
    fn second_attempts_are_a_share_of_the_calls_and_are_not_saved_up_without_end() {
        let hedger = |percent_max| {
            Hedger::new(Hedge {
                after: HedgeAfter::Delay(Duration::ZERO),
                percent_max,
            })
        };
        let five = hedger(5);
        assert!(!five.may_send());
        let sent = (0..1000)
            .filter(|_| {
                drop(five.begin());
                five.may_send()
            })
            .count();
        assert_eq!(sent, 50);
        assert_eq!(
            five.counts(),
            HedgeCounts {
                sent: 50,
                won: 0,
                held_back: 951
            }
        );
        (0..100_000).for_each(|_| drop(five.begin()));
        assert_eq!(
            (0..100).filter(|_| five.may_send()).count() as u64,
            ATTEMPTS_SAVED_MAX
        );

        let (all, none) = (hedger(u32::MAX), hedger(0));
        for _ in 0..100 {
            drop((all.begin(), none.begin()));
            assert!(all.may_send() && !none.may_send());
        }
    }
}
