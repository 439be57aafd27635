//! When a slow call is tried a second time elsewhere, and how often that may happen.
//!
//! It sends nothing (`client.rs` does), and decides as `nodes` does for several nodes. Its invariant: second attempts are at most `percent_max` of the calls made through
//! [`crate::Client::call_hedged`] so far, so that a server which is slow for everybody is not given double the work.

use crate::CallError;
use millpond_nodes::{Action, Attempt, Event, HedgeOptions, Hedging, Sent};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Second attempts that can be saved up in quiet times.
const ATTEMPTS_SAVED_MAX: u32 = 10;

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
    hedging: Mutex<Hedging>,
    sent: AtomicU64,
    won: AtomicU64,
    held_back: AtomicU64,
}

impl Hedger {
    pub(crate) fn new(hedge: Hedge) -> Hedger {
        let options = HedgeOptions {
            share_permille: hedge.percent_max.min(100) * 10,
            saved_max: ATTEMPTS_SAVED_MAX,
            delay_min: Duration::ZERO,
            delay_fixed: match hedge.after {
                HedgeAfter::Delay(delay) => Some(delay),
                HedgeAfter::P95 => None,
            },
        };
        Hedger {
            hedging: Mutex::new(Hedging::new(options)),
            sent: AtomicU64::new(0),
            won: AtomicU64::new(0),
            held_back: AtomicU64::new(0),
        }
    }

    fn hedging(&self) -> MutexGuard<'_, Hedging> {
        self.hedging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins; it lets others be repeated.
    pub(crate) fn begin(&self) -> Timed<'_> {
        Timed {
            hedger: self,
            attempt: self.hedging().begin(Instant::now().into_std()),
            says_nothing: false,
        }
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

/// Measures a first attempt. One that is given up, because its caller left or the second attempt won, counts as long as
/// it had taken: it would have taken longer.
pub(crate) struct Timed<'h> {
    hedger: &'h Hedger,
    attempt: Attempt,
    /// How long it took says nothing of how long answers take.
    says_nothing: bool,
}

impl Timed<'_> {
    /// When the second attempt is due; `None` where there is none.
    pub(crate) fn second_at(&self) -> Option<Instant> {
        self.attempt.timer_at().map(Instant::from_std)
    }

    /// Whether a second attempt may be sent now; it is counted either way.
    pub(crate) fn may_send(&mut self) -> bool {
        let now = Instant::now().into_std();
        let action = self.hedger.hedging().on(&mut self.attempt, Event::Timer, now);
        let may = action == Action::SendSecond;
        let count = if may {
            &self.hedger.sent
        } else {
            &self.hedger.held_back
        };
        count.fetch_add(1, Ordering::Relaxed);
        may
    }

    /// The first attempt has ended; an attempt that failed without an answer is not measured.
    pub(crate) fn ended<T>(&mut self, result: &Result<T, CallError>) {
        self.says_nothing |= !matches!(result, Ok(_) | Err(CallError::Status(_)));
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        if !self.says_nothing {
            let now = Instant::now().into_std();
            let answered = Event::Answered(Sent::First);
            self.hedger.hedging().on(&mut self.attempt, answered, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn second_attempts_are_a_share_of_the_calls_and_are_not_saved_up_without_end() {
        let hedger = |percent_max| {
            Hedger::new(Hedge {
                after: HedgeAfter::Delay(Duration::ZERO),
                percent_max,
            })
        };
        let five = hedger(5);
        let sent = (0..1000).filter(|_| five.begin().may_send()).count();
        assert_eq!(sent, 50);
        assert_eq!(
            five.counts(),
            HedgeCounts {
                sent: 50,
                won: 0,
                held_back: 950
            }
        );
        (0..10_000).for_each(|_| drop(five.begin()));
        // A hundred calls more earn five.
        let sent = (0..100).filter(|_| five.begin().may_send()).count();
        assert_eq!(sent, ATTEMPTS_SAVED_MAX as usize + 4);

        let (all, none) = (hedger(u32::MAX), hedger(0));
        for _ in 0..100 {
            assert!(all.begin().may_send());
            assert_eq!(none.begin().second_at(), None);
        }
    }
}
