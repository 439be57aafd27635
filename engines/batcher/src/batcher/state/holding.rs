//! An instance that waits for callers, or for a batch to fill: when it begins to, and when it has waited long enough. How long it pays is
//! for `hold`, and whether a batch fills for `filling`.
//!
//! Its invariants: one instance waits at most, and for callers only while no other one is idle or called; what it waits with is less than a
//! full batch, and its requests' deadlines leave time for the run.

use super::places::Seat;
use super::{Asked, State, filling};
use crate::batcher::BatcherOptions;
use crate::batcher::hold::{self, Scene, Wait};
use crate::batcher::returns::{Noticed, Returns};
use crate::batcher::run_cost::{Cost, RunCost};
use std::time::{Duration, Instant};

/// A run that costs less besides its rows is not worth a wait: an instance that sleeps wakes as much later as it saves.
const FIXED_MIN: f64 = 50e-6;
/// Of the callers that were expected in time at least so many came, or nobody is waited for.
pub(super) const TRUST_MIN: f64 = 0.6;
/// The weight of the newest wait in what is remembered of them.
const NEWEST_WEIGHT: f64 = 1.0 / 16.0;
/// Sources of a batch that are remembered; of a batch of more requests the rest is not waited for.
const ANSWERED_MAX: usize = 32;
/// The time of a run that is kept in hand before the deadline of a request that waits for others.
pub(super) const RUNS_IN_HAND: f64 = 1.25;

/// What an instance waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// Callers that it has just answered.
    Callers,
    /// Rows that fill the batch, within `batch_delay_us_max`.
    Rows,
}

/// The wait that an instance is at.
#[derive(Debug, Clone, Copy)]
struct Hold {
    seat: Seat,
    waits_for: WaitsFor,
    began: Instant,
    until: Instant,
    /// A request has come with which no wait pays any more.
    is_over: bool,
    /// Because the batch is full.
    has_filled: bool,
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
    /// Seconds of the last run: it cannot cost more besides its rows.
    pub(super) took: f64,
    /// The requests of the batch that runs at each place, by source and rows.
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
            took: f64::INFINITY,
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
    pub(super) fn came(&mut self, source: u64, noticed: Noticed) {
        let came = self.returns.came(source, noticed);
        let watch = self.watch.as_mut();
        if let Some(watch) = watch.filter(|watch| came.is_some_and(|came| came <= watch.until)) {
            watch.came += 1.0;
        }
    }

    /// A request of `source` is about to run at `place`.
    pub(super) fn runs(&mut self, place: usize, source: u64, rows: usize) {
        if let Some(running) = self
            .running
            .get_mut(place)
            .filter(|running| running.len() < ANSWERED_MAX)
        {
            running.push((source, rows));
        }
    }

    /// Whether a request of `source` runs.
    pub(super) fn is_running(&self, source: u64) -> bool {
        self.running
            .iter()
            .flatten()
            .any(|(running, _)| *running == source)
    }

    /// What an instance waits for that has no reason yet to stop.
    pub(super) fn waits_for(&self) -> Option<WaitsFor> {
        let hold = self.hold.filter(|hold| !hold.is_over)?;
        Some(hold.waits_for)
    }

    /// What ran at `place` is answered. `came_since` says how many requests of a source wait that came since it was: as many of its
    /// callers are back before this was noted, so nobody waits for these.
    pub(super) fn ended(&mut self, place: usize, came_since: impl Fn(u64) -> usize, now: Instant) {
        let Some(running) = self.running.get_mut(place) else {
            return;
        };
        for (number, &(source, rows)) in running.iter().enumerate() {
            self.returns.answered(source, rows, now);
            let is_its = |other: &&(u64, usize)| other.0 == source;
            if running[..number].iter().filter(is_its).count() < came_since(source) {
                self.returns.came(source, Noticed::at(now));
            }
        }
        running.clear();
    }

    /// These requests, with their rows, were answered by the thread that brought them.
    pub(super) fn answered(&mut self, answered: &[(u64, usize)], now: Instant) {
        if self.is_short() {
            return;
        }
        for &(source, rows) in answered {
            self.returns.answered(source, rows, now);
        }
    }

    /// Whether the last run took so little that nobody waits for anybody.
    fn is_short(&self) -> bool {
        self.took < FIXED_MIN
    }

    pub(super) fn learn(&mut self, rows: usize, took: Duration) {
        self.took = took.as_secs_f64();
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
    /// Until when the instance of this seat waits for callers instead of serving what waits.
    pub(super) fn hold(&mut self, seat: Seat, now: Instant) -> Option<Instant> {
        self.holding.looked = now;
        let hold = self.holding.hold;
        let own = hold.filter(|hold| hold.seat == seat);
        if let Some(hold) = own.filter(|hold| !hold.is_over && now < hold.until && !self.stopping) {
            return Some(hold.until);
        }
        let may_wait = hold.is_none() || own.is_some_and(|hold| !hold.is_over);
        let wait = may_wait.then(|| self.next_wait(seat.place, now)).flatten();
        let goes_on = own.filter(|hold| wait.is_some_and(|(_, waits_for)| waits_for == hold.waits_for));
        if goes_on.is_none() {
            self.end_hold(seat, now);
        }
        let (until, waits_for) = wait?;
        match waits_for {
            _ if goes_on.is_some() => {}
            WaitsFor::Callers => self.holding.counts.holds += 1,
            WaitsFor::Rows => self.filling.counts.delays += 1,
        }
        self.holding.hold = Some(Hold {
            seat,
            waits_for,
            began: goes_on.map_or(now, |hold| hold.began),
            until,
            is_over: false,
            has_filled: false,
        });
        Some(until)
    }

    /// What an instance waits for at `place` from now on, and until when.
    fn next_wait(&mut self, place: usize, now: Instant) -> Option<(Instant, WaitsFor)> {
        if let Some(until) = self.begins_filling(now) {
            return Some((until, WaitsFor::Rows));
        }
        let wait = self.worth_waiting(place, now)?;
        let until = self.holding.trusted(wait, now)?;
        Some((until, WaitsFor::Callers))
    }

    /// How long waiting pays that is begun now at `place`, or gone on with.
    fn worth_waiting(&self, place: usize, now: Instant) -> Option<Wait> {
        let all = self.waiting.backlog();
        let is_last = self.idle == 0 && self.called == 0 && !self.stopping;
        if self.holding.is_short()
            || self.holding.returns.is_empty()
            || all.rows >= self.batch_size_max
            || all.requests == 0
            || !is_last
        {
            return None;
        }
        let cost = self.holding.cost.fitted()?;
        let (requests, left) = self.first_deadline(now)?;
        // Where another instance is free before this run would have ended, who comes too late for it waits for that one.
        let other = self.forecast.until_other_free(place, now);
        self.pays(cost, (requests, all.rows), left, other, now)
    }

    /// How long waiting pays with so many requests and rows, of which the first has so many seconds left.
    fn pays(
        &self,
        cost: Cost,
        (requests, rows): (usize, usize),
        left: f64,
        other: Option<f64>,
        now: Instant,
    ) -> Option<Wait> {
        if cost.fixed < FIXED_MIN {
            return None;
        }
        let waited = |hold: Hold| now.saturating_duration_since(hold.began).as_secs_f64();
        let waited = self.holding.hold.map_or(0.0, waited);
        let scene = Scene {
            requests,
            room: self.batch_size_max.saturating_sub(rows),
            saving: cost.fixed.min(other.unwrap_or(f64::INFINITY)),
            run: cost.of(rows),
            longest: (cost.fixed - waited).min(left - RUNS_IN_HAND * cost.of(self.batch_size_max)),
        };
        hold::best_wait(scene, self.holding.returns.expected(now))
    }

    /// Whether an instance would wait for callers with this request if it got it now. A caller that ran it alone would be out of step with the
    /// others for good.
    pub(super) fn would_hold(&mut self, asked: &Asked, now: Instant) -> bool {
        self.would_fill(asked, now) || self.would_wait_with((1, asked.rows), asked.deadline, now)
    }

    /// Whether an instance would wait for callers with so many requests and rows, the first deadline being that, if it got them now.
    pub(in crate::batcher) fn would_wait_with(
        &mut self,
        (requests, rows): (usize, usize),
        deadline: Option<Instant>,
        now: Instant,
    ) -> bool {
        let is_last = self.idle == 1 && self.called == 0;
        let is_full = rows >= self.batch_size_max;
        if self.holding.is_short() || !is_last || self.holding.returns.is_empty() || is_full {
            return false;
        }
        let Some(cost) = self.holding.cost.fitted() else {
            return false;
        };
        let left = |deadline: Instant| deadline.saturating_duration_since(now).as_secs_f64();
        let left = deadline.map_or(f64::INFINITY, left);
        let other = self.forecast.until_second_free(now);
        let wait = self.pays(cost, (requests, rows), left, other, now);
        wait.is_some_and(|wait| self.holding.trusted(wait, now).is_some())
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
        let until = match hold.waits_for {
            WaitsFor::Rows => self.fills_by(now),
            WaitsFor::Callers => {
                self.holding.counts.joined_rows += rows as u64;
                let wait = self.worth_waiting(hold.seat.place, now);
                wait.map(|wait| now + Duration::from_secs_f64(wait.seconds))
            }
        };
        self.holding.hold = Some(Hold {
            until: until.unwrap_or(now),
            is_over: until.is_none(),
            has_filled: self.waiting.backlog().rows >= self.batch_size_max,
            ..hold
        });
        until.is_none_or(|until| until < hold.until)
    }

    /// Whether an instance waits for others that has room for so many more rows: it is as good as idle.
    pub(super) fn joins_held(&self, rows: usize) -> bool {
        let with_them = || self.waiting.backlog().rows.saturating_add(rows);
        self.holding.hold.is_some() && with_them() <= self.batch_size_max
    }

    /// Whether the instance of this seat is the one that waits for callers.
    pub(in crate::batcher) fn holds(&self, seat: Seat) -> bool {
        self.holding.hold.is_some_and(|hold| hold.seat == seat)
    }

    pub(in crate::batcher) fn forget_counts(&mut self) {
        self.holding.counts = Counts::default();
        self.filling.counts = filling::Counts::default();
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

    /// The instance of this seat waits for callers no longer, if it did.
    pub(super) fn end_hold(&mut self, seat: Seat, now: Instant) {
        if let Some(hold) = self.holding.hold.take_if(|hold| hold.seat == seat) {
            let lasted = now.saturating_duration_since(hold.began);
            match hold.waits_for {
                WaitsFor::Callers => self.holding.counts.held += lasted,
                WaitsFor::Rows => self.filling.ended(lasted, hold.has_filled),
            }
        }
    }

    /// The instance that waits for callers, if one does, is idle instead; its thread finds out when it wakes.
    pub(super) fn release_holder(&mut self, now: Instant) -> bool {
        let Some(hold) = self.holding.hold else {
            return false;
        };
        self.end_hold(hold.seat, now);
        self.places.free(hold.seat.place);
        self.idle += 1;
        true
    }

    /// The instance of this seat has cut what another one was waiting with: that one is idle, or called where something is left. True if
    /// there is such a one.
    pub(super) fn release_other(&mut self, seat: Seat, now: Instant) -> bool {
        let is_other = self.holding.hold.is_some_and(|hold| hold.seat != seat);
        if is_other && self.release_holder(now) && self.waiting.backlog().requests > 0 {
            self.idle -= 1;
            self.called += 1;
        }
        is_other
    }
}

#[cfg(test)]
impl State {
    /// Waits for nobody from here on.
    pub(super) fn be_greedy(&mut self, now: Instant) {
        self.holding.returns = Returns::new(1, now);
    }
}
