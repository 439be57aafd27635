//! An instance that waits for callers: when it begins to, and when it has waited long enough. How long it pays is for `hold`.
//!
//! Its invariants: one instance waits at most, and only while no other one is idle or called; what it waits with is less than a
//! full batch, and its requests' deadlines leave time for the run.

use super::State;
use crate::batcher::hold::{self, Scene, Wait};
use crate::batcher::returns::Returns;
use crate::batcher::run_cost::RunCost;
use crate::batcher::{BatcherOptions, Request};
use std::time::{Duration, Instant};

/// A run that costs less besides its rows is not worth a wait: an instance that sleeps wakes as much later as it saves.
const FIXED_MIN: f64 = 50e-6;
/// Of the callers that were expected in time at least so many came, or nobody is waited for.
const TRUST_MIN: f64 = 0.6;
/// The weight of the newest wait in what is remembered of them.
const NEWEST_WEIGHT: f64 = 1.0 / 16.0;
/// Sources of a batch that are remembered; of a batch of more requests the rest is not waited for.
const ANSWERED_MAX: usize = 32;
/// The time of a run that is kept in hand before the deadline of a request that waits for others.
const RUNS_IN_HAND: f64 = 1.25;

/// The wait that an instance is at.
#[derive(Debug, Clone, Copy)]
struct Hold {
    instance: usize,
    began: Instant,
    until: Instant,
    /// A request has come with which no wait pays any more.
    is_over: bool,
}

/// Callers that were expected by some time, waited for or not, and those that came.
#[derive(Debug, Clone, Copy)]
struct Watch {
    until: Instant,
    expected: f64,
    came: f64,
}

pub(super) struct Holding {
    returns: Returns,
    cost: RunCost,
    /// The requests of the batch that each instance is running, by source and rows.
    running: Vec<Vec<(u64, usize)>>,
    hold: Option<Hold>,
    watch: Option<Watch>,
    /// Callers that were expected of a wait, and those of them that came, on average of the last waits.
    expected: f64,
    came: f64,
    /// The time that was passed last.
    looked: Instant,
    /// For the statistics.
    pub(super) counts: Counts,
}

/// What waiting for callers came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::batcher) struct Counts {
    pub holds: u64,
    pub held: Duration,
    /// Of requests that came meanwhile.
    pub joined_rows: u64,
}

impl Holding {
    pub(super) fn new(options: &BatcherOptions, now: Instant) -> Holding {
        let running = match options.batch_size_max {
            0 | 1 => Vec::new(),
            most => (0..options.instances)
                .map(|_| Vec::with_capacity(most.min(ANSWERED_MAX)))
                .collect(),
        };
        Holding {
            returns: Returns::new(options.batch_size_max, now),
            cost: RunCost::default(),
            running,
            hold: None,
            watch: None,
            expected: 1.0,
            came: 1.0,
            looked: now,
            counts: Counts::default(),
        }
    }

    /// A request of `source` has come.
    pub(super) fn came(&mut self, source: u64, now: Instant) {
        let has_returned = self.returns.came(source, now);
        if let Some(watch) = self
            .watch
            .as_mut()
            .filter(|watch| has_returned && now <= watch.until)
        {
            watch.came += 1.0;
        }
    }

    /// `instance` is about to run `request`.
    pub(super) fn runs(&mut self, instance: usize, request: &Request) {
        if let Some(running) = self
            .running
            .get_mut(instance)
            .filter(|running| running.len() < ANSWERED_MAX)
        {
            running.push((request.source, request.rows));
        }
    }

    /// What `instance` ran is answered.
    pub(super) fn ended(&mut self, instance: usize, now: Instant) {
        if let Some(running) = self.running.get_mut(instance) {
            for (source, rows) in running.drain(..) {
                self.returns.answered(source, rows, now);
            }
        }
    }

    pub(super) fn learn(&mut self, rows: usize, took: Duration) {
        self.cost.observe(rows, took);
    }

    /// Until when to wait so long, unless callers did not come lately when they were expected. That is watched whether or not
    /// anything waits for them, so that it can become better again.
    fn trusted(&mut self, wait: Wait, now: Instant) -> Option<Instant> {
        if let Some(watch) = self.watch.take_if(|watch| watch.until < now) {
            self.expected += NEWEST_WEIGHT * (watch.expected - self.expected);
            self.came += NEWEST_WEIGHT * (watch.came.min(watch.expected) - self.came);
        }
        let until = now + Duration::from_secs_f64(wait.seconds);
        self.watch.get_or_insert(Watch {
            until,
            expected: wait.joiners,
            came: 0.0,
        });
        (self.came >= TRUST_MIN * self.expected).then_some(until)
    }
}

impl State {
    /// Until when `instance` waits for callers instead of serving what waits.
    pub(super) fn hold(&mut self, instance: usize, now: Instant) -> Option<Instant> {
        self.holding.looked = now;
        let hold = self.holding.hold;
        let own = hold.filter(|hold| hold.instance == instance);
        if let Some(hold) = own.filter(|hold| !hold.is_over && now < hold.until && !self.stopping) {
            return Some(hold.until);
        }
        let may_wait = hold.is_none() || own.is_some_and(|hold| !hold.is_over);
        let wait = may_wait.then(|| self.worth_waiting(instance, now)).flatten();
        let until = wait.and_then(|wait| self.holding.trusted(wait, now));
        let Some(until) = until else {
            self.end_hold(instance, now);
            return None;
        };
        self.holding.counts.holds += u64::from(own.is_none());
        self.holding.hold = Some(Hold {
            instance,
            began: own.map_or(now, |hold| hold.began),
            until,
            is_over: false,
        });
        Some(until)
    }

    /// How long waiting pays that `instance` begins now, or goes on with.
    fn worth_waiting(&self, instance: usize, now: Instant) -> Option<Wait> {
        let all = self.waiting.backlog();
        let room = self.batch_size_max.saturating_sub(all.rows);
        let is_last = self.idle == 0 && self.called == 0 && !self.stopping;
        if self.holding.returns.is_empty() || room == 0 || all.requests == 0 || !is_last {
            return None;
        }
        let cost = self
            .holding
            .cost
            .fitted()
            .filter(|cost| cost.fixed >= FIXED_MIN)?;
        let (requests, left) = self.first_deadline(now)?;
        // Where another instance is free before this run would have ended, who comes too late for it waits for that one.
        let other = self.forecast.until_other_free(instance, now);
        let waited = |hold: Hold| now.saturating_duration_since(hold.began).as_secs_f64();
        let waited = self.holding.hold.map_or(0.0, waited);
        let scene = Scene {
            requests,
            room,
            saving: cost.fixed.min(other.unwrap_or(f64::INFINITY)),
            run: cost.of(all.rows),
            longest: (cost.fixed - waited).min(left - RUNS_IN_HAND * cost.of(self.batch_size_max)),
        };
        hold::best_wait(scene, self.holding.returns.expected(now))
    }

    /// Requests that wait and whose callers do so too, and the seconds until the first deadline; `None` where there are none.
    fn first_deadline(&self, now: Instant) -> Option<(usize, f64)> {
        let worth = self
            .waiting
            .iter()
            .filter(|waiting| waiting.dropped(now).is_none());
        let (requests, left) = worth.fold((0, f64::INFINITY), |(requests, left), waiting| {
            let deadline = waiting.request.deadline;
            let own = deadline.map(|deadline| deadline.saturating_duration_since(now).as_secs_f64());
            (requests + 1, left.min(own.unwrap_or(f64::INFINITY)))
        });
        (requests > 0).then_some((requests, left))
    }

    /// A request of so many rows has come: whether the instance that waits for callers has to be woken.
    pub(super) fn arrived(&mut self, rows: usize, now: Instant) -> bool {
        let Some(hold) = self.holding.hold.filter(|hold| !hold.is_over) else {
            return false;
        };
        self.holding.counts.joined_rows += rows as u64;
        let wait = self.worth_waiting(hold.instance, now);
        let until = wait.map_or(now, |wait| now + Duration::from_secs_f64(wait.seconds));
        self.holding.hold = Some(Hold {
            until,
            is_over: wait.is_none(),
            ..hold
        });
        until < hold.until
    }

    /// Whether an instance waits for callers that has room for so many more rows: it is as good as idle.
    pub(super) fn joins_held(&self, rows: usize) -> bool {
        let with_them = || self.waiting.backlog().rows.saturating_add(rows);
        self.holding.hold.is_some() && with_them() <= self.batch_size_max
    }

    /// Whether `instance` is the one that waits for callers.
    pub(in crate::batcher) fn holds(&self, instance: usize) -> bool {
        self.holding.hold.is_some_and(|hold| hold.instance == instance)
    }

    pub(in crate::batcher) fn forget_counts(&mut self) {
        self.holding.counts = Counts::default();
        self.standing.forget_counts();
    }

    /// Instances that wait for callers.
    pub(super) fn holders(&self) -> usize {
        usize::from(self.holding.hold.is_some())
    }

    /// The time that was passed last to [`State::next`].
    pub(in crate::batcher) fn looked(&self) -> Instant {
        self.holding.looked
    }

    /// `instance` waits for callers no longer, if it did.
    pub(super) fn end_hold(&mut self, instance: usize, now: Instant) {
        if let Some(hold) = self.holding.hold.take_if(|hold| hold.instance == instance) {
            self.holding.counts.held += now.saturating_duration_since(hold.began);
        }
    }

    /// `instance` has cut what another one was waiting with: that one is idle, or called where something is left. True if it must
    /// be woken.
    pub(super) fn release_other(&mut self, instance: usize, now: Instant) -> bool {
        let Some(hold) = self.holding.hold.filter(|hold| hold.instance != instance) else {
            return false;
        };
        self.end_hold(hold.instance, now);
        let is_left = self.waiting.backlog().requests > 0;
        *(if is_left { &mut self.called } else { &mut self.idle }) += 1;
        is_left
    }
}

#[cfg(test)]
impl State {
    /// Waits for nobody from here on.
    pub(super) fn be_greedy(&mut self, now: Instant) {
        self.holding.returns = Returns::new(1, now);
    }
}
