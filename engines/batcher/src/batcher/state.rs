//! Which request is served next, which gives way and which comes too late. It has no lock, no thread and no
//! clock: the caller passes the time. Its invariants: a request that finds an idle instance and room for its
//! bytes is accepted; the number of waiting requests and the bytes of waiting and running requests stay within their limits.
//!
//! Better priorities are served first, and what waits gains levels ([`Levels`]); within a level sources are served in turn ([`Turns`](super::turns::Turns)). Where no more may wait, the source that has most waiting gives its newest
//! request up for one of a source that will still have fewer; only a source that has more than an even share of
//! the queue can have most in that sense. A request is refused when its bytes find no room, and when what is ahead of it in turn order and its own
//! run are expected to last longer than its deadline allows ([`Forecast`]), or, in a queue that stands, longer than a few runs ([`Standing`]).

use super::forecast::Forecast;
use super::levels::Levels;
use super::queue::{Cut, Waiting};
use super::returns::Noticed;
use super::standing::Standing;
use super::stats::Occupancy;
use super::warm_up::Errand;
use super::{BatcherOptions, Rejected, Request, sizes};
use crate::Priority;
use filling::Filling;
use holding::Holding;
use places::{Places, Seat};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

mod admission;
pub(super) mod filling;
pub(super) mod holding;
pub(super) mod places;

/// Times its budget that a run may take on the thread that brought its requests, before the model runs on instances alone.
const INLINE_OVERRUN: u32 = 10;

pub(super) struct State {
    waiting: Levels,
    forecast: Forecast,
    /// Whether what waits is a queue that serves nobody.
    standing: Standing,
    /// Who may run a batch: no more at a time than there are instances.
    places: Places,
    /// Places that nobody has and no request has called for: instances asleep, or about to be for the first time.
    pub idle: usize,
    /// Instances called that have not woken yet.
    pub called: usize,
    /// One mailbox an instance: warming up must reach each of them.
    pub errands: Vec<VecDeque<Errand>>,
    pub stopping: bool,
    /// Calls since the start, for the statistics.
    calls: u64,
    batch_size_max: usize,
    /// The row counts that runs have, if they are fixed.
    batch_sizes: Vec<usize>,
    queue_max: usize,
    /// Bytes of the batch that runs at each place.
    running_bytes: Vec<usize>,
    /// Bytes of requests that wait for the end of their thread's turn.
    inline_bytes: usize,
    queue_bytes_max: usize,
    /// What a thread may run at the end of its turn is expected to take no longer; zero: it runs nothing.
    pub inline_max: Duration,
    /// What is known of callers that may come back, and whether an instance waits for them.
    holding: Holding,
    /// When requests came, and whether an instance waits for a batch to fill.
    filling: Filling,
}

/// A run at the end of a thread's turn that succeeded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Swept<'a> {
    pub rows: usize,
    /// Processor time of the run itself, which is what the model is judged by: that others had the processor is not its fault.
    pub used: Duration,
    /// With the answers to its requests, as runs on instances are measured.
    pub lasted: Duration,
    pub ended: Instant,
    /// Sources and rows of its requests.
    pub answered: &'a [(u64, usize)],
}

/// What an awake instance does.
pub(super) enum Act {
    /// Run this errand.
    WarmUp(Errand),
    /// Answer what was put into the cut; and wake the instance that waited for callers with it where it `releases` that one.
    Serve { releases: bool },
    /// End: the queue is empty and stopped.
    Stop,
    /// Sleep, counted idle.
    Rest,
    /// Sleep until then at the latest, see [`Holding`].
    Hold(Instant),
}

/// What the caller must do after a request was accepted.
#[derive(Debug)]
pub(super) struct Accepted {
    /// Wake a sleeping instance.
    pub call: bool,
    /// Wake the instance that waits for callers: it has waited long enough.
    pub ends_hold: bool,
    /// Answer this request, which was evicted.
    pub evicted: Option<Waiting>,
}

/// What decides whether a request is refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub source: u64,
    pub priority: Priority,
    pub rows: usize,
    pub bytes: usize,
    pub deadline: Option<Instant>,
}

impl Asked {
    fn of(request: &Request) -> Asked {
        let &Request {
            source,
            priority,
            rows,
            deadline,
            ..
        } = request;
        Asked {
            source,
            priority,
            rows,
            bytes: request.bytes(),
            deadline,
        }
    }
}

impl State {
    pub(super) fn new(options: &BatcherOptions, now: Instant) -> State {
        let mut errands = Vec::new();
        errands.resize_with(options.instances, VecDeque::new);
        State {
            waiting: Levels::new(),
            standing: Standing::default(),
            forecast: Forecast::new(options.instances, options.batch_size_max, now),
            places: Places::new(options.instances),
            idle: options.instances,
            called: 0,
            errands,
            stopping: false,
            calls: 0,
            batch_size_max: options.batch_size_max,
            batch_sizes: options.batch_sizes.clone(),
            queue_max: options.queue_max,
            running_bytes: vec![0; options.instances],
            inline_bytes: 0,
            queue_bytes_max: options.queue_bytes_max,
            inline_max: Duration::from_micros(options.inline_us_max),
            holding: Holding::new(options, now),
            filling: Filling::new(options, now),
        }
    }

    pub(super) fn submit(&mut self, request: Request, now: Instant) -> Result<Accepted, (Rejected, Request)> {
        let asked = Asked::of(&request);
        if let Some(rejected) = self.refusal(&asked, now) {
            self.note_refused(rejected, &asked, now);
            return Err((rejected, request));
        }
        self.came(&asked, Noticed::at(now));
        Ok(self.accept(request, asked, now))
    }

    /// As [`State::submit`], for a request that was taken for the end of its thread's turn and has to wait for an instance after all.
    pub(super) fn hand_over(
        &mut self,
        request: Request,
        now: Instant,
    ) -> Result<Accepted, (Rejected, Request)> {
        let asked = Asked::of(&request);
        self.inline_bytes = self.inline_bytes.saturating_sub(asked.bytes);
        if let Some(rejected) = self.refusal(&asked, now) {
            self.note_refused(rejected, &asked, now);
            return Err((rejected, request));
        }
        Ok(self.accept(request, asked, now))
    }

    /// Lets a request wait that is not refused.
    fn accept(&mut self, request: Request, asked: Asked, now: Instant) -> Accepted {
        let Asked {
            source,
            priority,
            rows,
            bytes,
            ..
        } = asked;
        let mut evicted = None;
        let call = self.idle > 0 && !self.fills_with(rows);
        if call {
            self.call();
        } else if self.is_full() && !self.joins_held(rows) {
            let step = || self.forecast.level_step();
            evicted = self.waiting.evict_for(source, priority, step, now);
        }
        if let Some(run) = self.forecast.full_run().filter(|_| evicted.is_some()) {
            self.standing.refused(run, now);
        }
        let waiting = Waiting {
            request,
            submitted: now,
        };
        self.waiting.push(waiting, rows, bytes);
        self.standing.accepted();
        let ends_hold = self.arrived(rows, now);
        Accepted {
            call,
            ends_hold,
            evicted,
        }
    }

    /// Has one of the instances that sleep come for what waits.
    fn call(&mut self) {
        self.idle -= 1;
        self.called += 1;
        self.calls += 1;
    }

    /// Whether such a request can wait for the end of its thread's turn, for which requests of `rows` rows wait already, and what
    /// is expected to take `others` seconds: the seconds of all these rows. `None` where it has to go the way of all others:
    /// nothing was measured yet, requests wait, or it would take too long.
    pub(super) fn fits_inline(&self, asked: &Asked, rows: usize, others: f64) -> Option<f64> {
        if self.inline_max.is_zero() || self.stopping || self.queued() > 0 || self.no_bytes(asked).is_some() {
            return None;
        }
        let seconds = self.forecast.at_most(rows.saturating_add(asked.rows))?;
        (others + seconds <= self.inline_max.as_secs_f64()).then_some(seconds)
    }

    /// Takes a request for the end of its thread's turn, as [`State::fits_inline`] says.
    pub(super) fn takes_inline(
        &mut self,
        request: &Request,
        rows: usize,
        others: f64,
        noticed: Noticed,
    ) -> Option<f64> {
        let asked = Asked::of(request);
        if self.would_fill_beside(&asked, rows, noticed.at) {
            return None;
        }
        let seconds = self.fits_inline(&asked, rows, others)?;
        self.inline_bytes = self.inline_bytes.saturating_add(asked.bytes);
        self.came(&asked, noticed);
        Some(seconds)
    }

    /// What a thread has answered at the end of its turn holds no bytes any more; and of it a run was measured: true if that
    /// took so much that no thread runs the model itself from now on.
    pub(super) fn swept(&mut self, bytes: usize, ran: Option<Swept<'_>>) -> bool {
        self.inline_bytes = self.inline_bytes.saturating_sub(bytes);
        let Some(ran) = ran else { return false };
        self.learn(ran.rows, ran.lasted);
        self.holding.answered(ran.answered, ran.ended);
        let is_too_long =
            ran.used > self.inline_max.saturating_mul(INLINE_OVERRUN) && !self.inline_max.is_zero();
        if is_too_long {
            self.inline_max = Duration::ZERO;
        }
        is_too_long
    }

    /// What the instance of this seat does now that it has finished the batch that it cut last, if any; the next one is put into `cut`.
    pub(super) fn next(&mut self, seat: Seat, now: Instant, cut: &mut Cut) -> Act {
        self.ended(seat.place, true, cut.answered_from.take(), now);
        if let Some(errand) = self.errands[seat.thread].pop_front() {
            self.end_hold(seat, now);
            return Act::WarmUp(errand);
        }
        if let Some(until) = self.hold(seat, now) {
            return Act::Hold(until);
        }
        if self.fills_with(0) {
            // Another instance waits with what waits, or this one would.
            return self.rest(seat);
        }
        self.cut(seat.place, now, cut);
        if let Some(run) = self.forecast.full_run() {
            let runs = self.waiting.backlog().rows as f64 / self.batch_size_max as f64;
            self.standing
                .look(runs * run / self.running_bytes.len() as f64, run, now);
        }
        let releases = self.release_other(seat, now);
        if !cut.batch.is_empty() || !cut.dropped.is_empty() {
            return Act::Serve { releases };
        }
        if self.stopping {
            return Act::Stop;
        }
        self.rest(seat)
    }

    fn rest(&mut self, seat: Seat) -> Act {
        self.places.free(seat.place);
        self.idle += 1;
        Act::Rest
    }

    /// At `place` the batch that was begun last, if any, is finished; it could be answered from then on.
    fn ended(&mut self, place: usize, learns: bool, answered_from: Option<Instant>, now: Instant) {
        self.running_bytes[place] = 0;
        let Some((began, rows)) = self.forecast.ended(place, now) else {
            return;
        };
        if learns {
            self.learn(rows, now.saturating_duration_since(began));
        }
        let waiting = &self.waiting;
        let came_since = |source| answered_from.map_or(0, |from| waiting.came_since(source, from));
        self.holding.ended(place, came_since, now);
    }

    /// Learns what runs cost from one that served nobody.
    pub(super) fn warmed(&mut self, rows: usize, took: Duration) {
        self.holding.learn(rows, took);
    }

    /// Learns from a run of so many rows, on whichever thread.
    fn learn(&mut self, rows: usize, took: Duration) {
        self.forecast.learn(rows, took);
        // Several runs that were one request's are as many equal ones.
        let chunks = rows.div_ceil(self.batch_size_max).max(1);
        let each = took / u32::try_from(chunks).unwrap_or(u32::MAX);
        self.holding.learn(rows.div_ceil(chunks), each);
    }

    /// Takes requests in turn while their rows fit, or fill a size that runs have; the first always fits. One is left for each
    /// instance that was called and has not come yet, so that they run side by side.
    fn cut(&mut self, place: usize, now: Instant, cut: &mut Cut) {
        let backlog = self.waiting.backlog();
        let before = backlog.bytes;
        let most = sizes::batch(&self.batch_sizes, self.batch_size_max, backlog.rows);
        let mut rows = 0usize;
        loop {
            let level = self.waiting.turn(|| self.forecast.level_step());
            let Some(front) = self.waiting.front_of(level) else {
                break;
            };
            let dropped = front.dropped(now);
            let with_front = rows.saturating_add(front.request.rows);
            let enough = with_front > most || self.waiting.backlog().requests <= self.called;
            if dropped.is_none() && !cut.batch.is_empty() && enough {
                break;
            }
            let Some(waiting) = self.waiting.pop_of(level, dropped.is_none()) else {
                break;
            };
            match dropped {
                Some(reason) => cut.dropped.push((waiting, reason)),
                None => {
                    rows = with_front;
                    let Request { source, rows, .. } = waiting.request;
                    self.holding.runs(place, source, rows);
                    cut.batch.push(waiting);
                }
            }
        }
        self.running_bytes[place] = before.saturating_sub(self.waiting.backlog().bytes);
        if !cut.batch.is_empty() {
            self.forecast.began(place, rows, now);
        }
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        Occupancy {
            queued: self.waiting.backlog().requests,
            busy: self.errands.len().saturating_sub(self.idle + self.holders()),
            instances: self.errands.len(),
            wakes: self.calls,
            counts: self.holding.counts,
            filling: self.filling.counts,
            episodes: self.standing.episodes(),
        }
    }
}

#[cfg(test)]
mod tests;
