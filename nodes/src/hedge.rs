//! When a call that may be repeated is sent to a second replica: after the 95th percentile of recent latencies where the budget
//! allows it, and at once where the first replica failed.
//!
//! A state machine driven by events; it sends nothing and starts no timer. A failure's second copy is not charged to the budget:
//! it replaces a copy, so it adds no load; nor is one that leaves a replica which stands still, as no other call goes there
//! meanwhile. The invariant: a call is sent at most twice, it ends once, and other copies sent because of the time are at most
//! `share_permille` of the calls and the `saved` ones (and those of the last hedge, where it went to several nodes).

use crate::Latencies;
use std::time::{Duration, Instant};

/// What a hedge costs; a call earns `share_permille` of it.
const HEDGE_COST: i64 = 1000;
/// A call that the budget refused is due again no sooner.
const AGAIN_MIN: Duration = Duration::from_micros(100);

/// How often calls are hedged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HedgeOptions {
    /// Hedges in a thousand calls; more than 1000 counts as 1000, and 0 switches hedging off.
    pub share_permille: u32,
    /// Hedges that can be saved up in quiet times.
    pub saved_max: u32,
    /// No call is hedged earlier: below it, the scatter of latencies is the machine's, not a replica's.
    pub delay_min: Duration,
    /// Calls are hedged after this, whatever is measured; after the 95th percentile where it is `None`.
    pub delay_fixed: Option<Duration>,
}

impl Default for HedgeOptions {
    /// 5 %, 10 saved, from 200 µs on.
    fn default() -> HedgeOptions {
        HedgeOptions {
            share_permille: 50,
            saved_max: 10,
            delay_min: Duration::from_micros(200),
            delay_fixed: None,
        }
    }
}

/// One of the two copies of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Sent when the call began.
    First,
    /// Sent because the first was slow or failed.
    Second,
}

/// What happened to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The time of [`Attempt::timer_at`] has come.
    Timer,
    /// It has come, the replica of the first copy stands still, and another one answers.
    Standing,
    /// It has come, and the other replicas stand still.
    Later,
    /// A copy was answered.
    Answered(Sent),
    /// A copy failed as calls to a node that is gone do.
    Failed(Sent),
    /// The second copy could not be sent: there was no other replica.
    NotSent,
}

/// What is to be done with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Wait,
    /// Send the second copy to another replica, or say [`Event::NotSent`].
    SendSecond,
    /// Give the caller this copy's answer. The call has ended; what the other copy brings is dropped.
    Answer(Sent),
    /// Give the caller the error. The call has ended.
    Fail,
}

/// What is known from all calls, and the budget of hedges.
#[derive(Debug, Clone)]
pub struct Hedging {
    options: HedgeOptions,
    latencies: Latencies,
    /// Of the budget, in thousandths of a hedge; below zero where a hedge went to several nodes.
    saved: i64,
}

/// One call, from when its first copy is sent.
#[derive(Debug)]
pub struct Attempt {
    sent_at: Instant,
    hedge_at: Option<Instant>,
    first: State,
    second: State,
    ended: bool,
    /// Whether the budget paid for the second copy.
    paid: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    NotSent,
    Outstanding,
    Failed,
    /// It cannot be sent.
    Impossible,
}

impl Hedging {
    /// Begins with nothing known and nothing saved.
    pub fn new(options: HedgeOptions) -> Hedging {
        Hedging {
            options,
            latencies: Latencies::default(),
            saved: 0,
        }
    }

    /// How long a first copy has to itself; `None` while too little is known, or where hedging is off.
    pub fn delay(&self) -> Option<Duration> {
        if self.options.share_permille == 0 {
            return None;
        }
        let measured = || Some(self.latencies.p95()?.max(self.options.delay_min));
        self.options.delay_fixed.or_else(measured)
    }

    /// A call's first copy is sent.
    pub fn begin(&mut self, now: Instant) -> Attempt {
        let share = i64::from(self.options.share_permille).min(HEDGE_COST);
        let most = i64::from(self.options.saved_max) * HEDGE_COST;
        self.saved = (self.saved + share).min(most);
        Attempt {
            sent_at: now,
            hedge_at: self.delay().and_then(|delay| now.checked_add(delay)),
            first: State::Outstanding,
            second: State::NotSent,
            ended: false,
            paid: false,
        }
    }

    /// Says what an event means for a call. Events after its end mean nothing.
    pub fn on(&mut self, attempt: &mut Attempt, event: Event, now: Instant) -> Action {
        if attempt.ended {
            return Action::Wait;
        }
        match event {
            Event::Timer => self.timer(attempt, now),
            Event::Standing if attempt.is_due(now) => {
                attempt.second = State::Outstanding;
                Action::SendSecond
            }
            Event::Answered(copy) if attempt.state(copy) == State::Outstanding => {
                attempt.ended = true;
                // From the first sending: where the second copy wins, the first took at least as long. A call whose first copy
                // failed would count a failure as a latency.
                if attempt.first != State::Failed {
                    self.latencies
                        .record(now.saturating_duration_since(attempt.sent_at));
                }
                Action::Answer(copy)
            }
            Event::Failed(copy) if attempt.state(copy) == State::Outstanding => {
                *attempt.state_mut(copy) = State::Failed;
                attempt.after_failure()
            }
            Event::NotSent if attempt.second == State::Outstanding => {
                attempt.second = State::Impossible;
                if std::mem::take(&mut attempt.paid) {
                    self.saved += HEDGE_COST;
                }
                attempt.after_failure()
            }
            Event::Later if attempt.is_due(now) => {
                self.postpone(attempt, now);
                Action::Wait
            }
            _ => Action::Wait,
        }
    }

    /// The second copy that the time sent went to so many nodes, as the replicas of its keys differ: each after the first costs
    /// a hedge too. Hedges that follow wait until they are earned.
    pub fn spread(&mut self, nodes: usize) {
        let extra = i64::try_from(nodes.saturating_sub(1)).unwrap_or(i64::MAX);
        self.saved = self.saved.saturating_sub(extra.saturating_mul(HEDGE_COST));
    }

    fn timer(&mut self, attempt: &mut Attempt, now: Instant) -> Action {
        if !attempt.is_due(now) {
            return Action::Wait;
        }
        if self.saved < HEDGE_COST {
            self.postpone(attempt, now);
            return Action::Wait;
        }
        self.saved -= HEDGE_COST;
        attempt.paid = true;
        attempt.second = State::Outstanding;
        Action::SendSecond
    }

    /// It is due again, ever more seldom.
    fn postpone(&self, attempt: &mut Attempt, now: Instant) {
        let waited = now.saturating_duration_since(attempt.sent_at);
        let again = |delay: Duration| now.checked_add(delay.max(waited / 2).max(AGAIN_MIN));
        attempt.hedge_at = self.delay().and_then(again);
    }
}

impl Attempt {
    /// When the caller is to say [`Event::Timer`], if at all; it changes with events.
    pub fn timer_at(&self) -> Option<Instant> {
        let waits = !self.ended && self.first == State::Outstanding && self.second == State::NotSent;
        self.hedge_at.filter(|_| waits)
    }

    /// Whether [`Attempt::timer_at`] has come.
    pub fn is_due(&self, now: Instant) -> bool {
        self.timer_at().is_some_and(|at| at <= now)
    }

    /// Whether the call was answered or failed.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    fn state(&self, copy: Sent) -> State {
        match copy {
            Sent::First => self.first,
            Sent::Second => self.second,
        }
    }

    fn state_mut(&mut self, copy: Sent) -> &mut State {
        match copy {
            Sent::First => &mut self.first,
            Sent::Second => &mut self.second,
        }
    }

    /// A copy is lost: the other one goes on, is sent, or there is none.
    fn after_failure(&mut self) -> Action {
        match (self.first, self.second) {
            (State::Outstanding, _) | (_, State::Outstanding) => Action::Wait,
            (_, State::NotSent) => {
                self.second = State::Outstanding;
                Action::SendSecond
            }
            _ => {
                self.ended = true;
                Action::Fail
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use Action::{Answer, Fail, SendSecond, Wait};
    use Event::{Answered, Failed, Later, NotSent, Standing, Timer};
    use Sent::{First, Second};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Knows 200 calls of 10 ms, so that ten hedges are saved.
    fn experienced(now: Instant) -> Hedging {
        let mut hedging = Hedging::new(HedgeOptions::default());
        for _ in 0..200 {
            let mut attempt = hedging.begin(now);
            assert_eq!(
                hedging.on(&mut attempt, Answered(First), now + ms(10)),
                Answer(First)
            );
        }
        hedging
    }

    #[test]
    fn what_happens_to_a_call_says_what_is_done() {
        let check = |events: &[(u64, Event, Action)]| {
            let now = Instant::now();
            let mut hedging = experienced(now);
            let mut attempt = hedging.begin(now);
            for (at_ms, event, expected) in events {
                let action = hedging.on(&mut attempt, *event, now + ms(*at_ms));
                assert_eq!(action, *expected, "{event:?} of {events:?}");
            }
        };
        check(&[
            (2, Answered(First), Answer(First)),
            (10, Timer, Wait),
            (11, Failed(First), Wait),
        ]);
        check(&[
            (9, Timer, Wait),
            (10, Timer, SendSecond),
            (11, Timer, Wait),
            (12, Answered(Second), Answer(Second)),
        ]);
        check(&[
            (10, Timer, SendSecond),
            (11, Answered(First), Answer(First)),
            (12, Answered(Second), Wait),
        ]);
        check(&[
            (10, Timer, SendSecond),
            (11, Failed(First), Wait),
            (12, Failed(Second), Fail),
        ]);
        check(&[
            (10, Timer, SendSecond),
            (11, Failed(Second), Wait),
            (12, Answered(First), Answer(First)),
        ]);
        check(&[
            (10, Timer, SendSecond),
            (10, NotSent, Wait),
            (12, Failed(First), Fail),
        ]);
        check(&[
            (1, Failed(First), SendSecond),
            (10, Timer, Wait),
            (11, Answered(Second), Answer(Second)),
        ]);
        check(&[
            (1, Failed(First), SendSecond),
            (1, NotSent, Fail),
            (2, Answered(Second), Wait),
        ]);
        // Nothing is outstanding that could answer.
        check(&[
            (1, Answered(Second), Wait),
            (1, Failed(Second), Wait),
            (1, NotSent, Wait),
        ]);
    }

    #[test]
    fn a_call_that_the_budget_refuses_is_due_again_and_leaves_a_replica_that_stands_still() {
        let now = Instant::now();
        let mut hedging = experienced(now);
        hedging.saved = 0;
        let (mut attempt, mut other) = (hedging.begin(now), hedging.begin(now));
        hedging.saved = 0;
        for (due, next) in [(10, 20), (20, 30), (30, 45), (45, 67)] {
            assert_eq!(hedging.on(&mut attempt, Timer, now + ms(due)), Wait);
            let at = attempt.timer_at().unwrap();
            assert!(at >= now + ms(next) && at < now + ms(next + 1), "{:?}", at - now);
        }
        assert_eq!(hedging.on(&mut attempt, Standing, now + ms(50)), Wait);
        assert_eq!(hedging.on(&mut attempt, Standing, now + ms(70)), SendSecond);
        assert_eq!((hedging.saved, attempt.timer_at()), (0, None));
        // Where the other replica stands still, nothing is spent.
        hedging.saved = HEDGE_COST;
        assert_eq!(hedging.on(&mut other, Later, now + ms(10)), Wait);
        assert_eq!(hedging.saved, HEDGE_COST);
        assert_eq!(hedging.on(&mut other, Timer, now + ms(70)), SendSecond);
        assert_eq!(hedging.saved, 0);
    }

    #[test]
    fn nothing_is_hedged_before_something_is_known_or_where_it_is_off() {
        let now = Instant::now();
        let off = HedgeOptions {
            share_permille: 0,
            ..HedgeOptions::default()
        };
        for (options, delay) in [(HedgeOptions::default(), Some(ms(10))), (off, None)] {
            let mut hedging = Hedging::new(options);
            for _ in 0..100 {
                assert_eq!(hedging.delay(), None);
                let mut attempt = hedging.begin(now);
                assert_eq!(attempt.timer_at(), None);
                hedging.on(&mut attempt, Answered(First), now + ms(10));
            }
            assert_eq!(hedging.delay(), delay);
            assert_eq!(hedging.begin(now).timer_at(), delay.map(|delay| now + delay));
        }
    }

    #[test]
    fn a_delay_that_is_fixed_needs_no_measurement() {
        let now = Instant::now();
        let mut hedging = Hedging::new(HedgeOptions {
            share_permille: 1000,
            delay_fixed: Some(ms(3)),
            ..HedgeOptions::default()
        });
        let mut attempt = hedging.begin(now);
        assert_eq!(attempt.timer_at(), Some(now + ms(3)));
        assert_eq!(hedging.on(&mut attempt, Timer, now + ms(3)), SendSecond);
    }

    #[test]
    fn a_hedge_that_is_not_sent_costs_nothing_and_failures_do_not_either() {
        let now = Instant::now();
        let mut hedging = experienced(now);
        let saved = hedging.saved;
        let mut attempt = hedging.begin(now);
        assert_eq!(hedging.on(&mut attempt, Timer, now + ms(10)), SendSecond);
        assert_eq!(hedging.saved, saved - HEDGE_COST);
        hedging.on(&mut attempt, NotSent, now + ms(10));
        assert_eq!(hedging.saved, saved);
        let mut attempt = hedging.begin(now);
        assert_eq!(hedging.on(&mut attempt, Failed(First), now), SendSecond);
        assert_eq!(hedging.saved, saved);
    }
}
