//! When a call that may be repeated is sent to a second replica: after the 95th percentile of recent latencies where the budget
//! allows it, and at once where the first replica failed.
//!
//! A state machine driven by events; it sends nothing and starts no timer. A failure's second copy is not charged to the budget:
//! it replaces a copy, so it adds no load. One that leaves a replica which stands still is charged to a second budget of the same
//! size, as slow calls may have spent the first. The invariant: a call is sent at most twice, it ends once, and other copies sent
//! because of the time are, of each budget, at most `share_permille` of the calls and the `saved` ones (and those of the last
//! hedge, where it went to several nodes).

use crate::Latencies;
use std::time::{Duration, Instant};

/// What a hedge costs; a call earns `share_permille` of it.
const HEDGE_COST: i64 = 1000;
/// A call that the budget refused is due again no sooner.
const AGAIN_MIN: Duration = Duration::from_micros(100);
/// A replica stands still that has answered nothing for so many times what a copy has to itself,
const STANDING_DELAYS: u32 = 4;
/// and for no less than this: a scheduler may keep any process for that long.
const STANDING_MIN: Duration = Duration::from_millis(10);

/// How often calls are hedged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HedgeOptions {
    /// Hedges in a thousand calls; more than 1000 counts as 1000, and 0 switches hedging off. As many more may leave replicas that
    /// stand still.
    pub share_permille: u32,
    /// Hedges that can be saved up in quiet times, of either kind.
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
    /// It has come, and the replica of the first copy stands still.
    Standing,
    /// It has come, and no second copy can be sent now. At the time that is named there may be one, if not sooner.
    Later(Option<Instant>),
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
    saved: Saved,
}

/// What is left of the budgets, in thousandths of a hedge; below zero where a hedge went to several nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Saved {
    slow: i64,
    standing: i64,
}

/// What a second copy is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Budget {
    /// For any slow call.
    Slow,
    /// For calls of replicas that stand still.
    Standing,
}

impl Saved {
    fn of(&mut self, budget: Budget) -> &mut i64 {
        match budget {
            Budget::Slow => &mut self.slow,
            Budget::Standing => &mut self.standing,
        }
    }
}

/// One call, from when its first copy is sent.
#[derive(Debug)]
pub struct Attempt {
    sent_at: Instant,
    hedge_at: Option<Instant>,
    first: State,
    second: State,
    ended: bool,
    /// What paid for the second copy.
    paid: Option<Budget>,
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
            saved: Saved::default(),
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

    /// For how long a replica with an overdue copy has answered nothing when it is taken to stand still.
    pub fn standing_after(&self) -> Option<Duration> {
        let delays = self.delay()?.saturating_mul(STANDING_DELAYS);
        Some(delays.max(STANDING_MIN))
    }

    /// Whether there is a budget for a copy that is due, whose replica stands still or does not.
    pub fn may_pay(&self, stands: bool) -> bool {
        self.saved.slow >= HEDGE_COST || stands && self.saved.standing >= HEDGE_COST
    }

    /// A call's first copy is sent.
    pub fn begin(&mut self, now: Instant) -> Attempt {
        let share = i64::from(self.options.share_permille).min(HEDGE_COST);
        let most = i64::from(self.options.saved_max) * HEDGE_COST;
        for budget in [Budget::Slow, Budget::Standing] {
            let saved = self.saved.of(budget);
            *saved = (*saved + share).min(most);
        }
        Attempt {
            sent_at: now,
            hedge_at: self.delay().and_then(|delay| now.checked_add(delay)),
            first: State::Outstanding,
            second: State::NotSent,
            ended: false,
            paid: None,
        }
    }

    /// Says what an event means for a call. Events after its end mean nothing.
    pub fn on(&mut self, attempt: &mut Attempt, event: Event, now: Instant) -> Action {
        if attempt.ended {
            return Action::Wait;
        }
        match event {
            Event::Timer => self.due(attempt, &[Budget::Slow], now),
            Event::Standing => self.due(attempt, &[Budget::Standing, Budget::Slow], now),
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
                if let Some(budget) = attempt.paid.take() {
                    *self.saved.of(budget) += HEDGE_COST;
                }
                attempt.after_failure()
            }
            Event::Later(at) if attempt.is_due(now) => {
                self.postpone(attempt, at, now);
                Action::Wait
            }
            _ => Action::Wait,
        }
    }

    /// The second copy that the time sent went to so many nodes, as the replicas of its keys differ: each after the first costs
    /// a hedge too. Hedges that follow wait until they are earned.
    pub fn spread(&mut self, attempt: &Attempt, nodes: usize) {
        let extra = i64::try_from(nodes.saturating_sub(1)).unwrap_or(i64::MAX);
        if let Some(budget) = attempt.paid {
            let saved = self.saved.of(budget);
            *saved = saved.saturating_sub(extra.saturating_mul(HEDGE_COST));
        }
    }

    /// The first of these budgets that can pays.
    fn due(&mut self, attempt: &mut Attempt, budgets: &[Budget], now: Instant) -> Action {
        if !attempt.is_due(now) {
            return Action::Wait;
        }
        let mut budgets = budgets.iter().copied();
        let Some(budget) = budgets.find(|budget| *self.saved.of(*budget) >= HEDGE_COST) else {
            self.postpone(attempt, None, now);
            return Action::Wait;
        };
        *self.saved.of(budget) -= HEDGE_COST;
        attempt.paid = Some(budget);
        attempt.second = State::Outstanding;
        Action::SendSecond
    }

    /// It is due again, ever more seldom, but at `latest` where that is to come.
    fn postpone(&self, attempt: &mut Attempt, latest: Option<Instant>, now: Instant) {
        let waited = now.saturating_duration_since(attempt.sent_at);
        let latest = latest.and_then(|at| at.checked_duration_since(now));
        let latest = latest.filter(|wait| !wait.is_zero()).unwrap_or(Duration::MAX);
        let again = |delay: Duration| now.checked_add(delay.max(waited / 2).min(latest).max(AGAIN_MIN));
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
mod tests;
