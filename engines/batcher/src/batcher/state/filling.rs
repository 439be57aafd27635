//! An instance that waits for a batch to fill, as `batch_delay_us_max` allows: when it may, and until when. What comes is for `arrivals`;
//! the wait itself is one of `holding`.
//!
//! Its invariants: without `batch_delay_us_max` nothing here does anything; no request waits longer by it than that, and none past the
//! moment at which its deadline leaves time for a full run; while an instance waits so, no other one takes what it waits with.

use super::holding::{RUNS_IN_HAND, TRUST_MIN, WaitsFor};
use super::{Asked, State};
use crate::batcher::BatcherOptions;
use crate::batcher::arrivals::Arrivals;
use crate::batcher::returns::Noticed;
use std::time::{Duration, Instant};

/// A model whose full run takes less waits for nothing: an instance that sleeps wakes as late as that.
const RUN_MIN: f64 = 50e-6;
/// The weight of the newest wait in what is remembered of them.
const NEWEST_WEIGHT: f64 = 1.0 / 8.0;
/// After so many waits that were left out because others had been in vain, one is tried.
const LEFT_OUT_MAX: u32 = 32;

pub(super) struct Filling {
    delay: Duration,
    pub(super) arrivals: Arrivals,
    /// The share of the last waits in which the batch filled.
    filled: f64,
    left_out: u32,
    /// For the statistics.
    pub(super) counts: Counts,
}

/// What waiting for rows came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::batcher) struct Counts {
    pub delays: u64,
    pub delayed: Duration,
    /// Of these waits those in which the batch filled.
    pub filled: u64,
}

impl Filling {
    pub(super) fn new(options: &BatcherOptions, now: Instant) -> Filling {
        let delay = match options.batch_size_max {
            0 | 1 => 0,
            _ => options.batch_delay_us_max,
        };
        Filling {
            delay: Duration::from_micros(delay),
            arrivals: Arrivals::new(now),
            filled: 1.0,
            left_out: 0,
            counts: Counts::default(),
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.delay.is_zero()
    }

    /// A wait is over.
    pub(super) fn ended(&mut self, lasted: Duration, has_filled: bool) {
        self.counts.delayed += lasted;
        self.counts.filled += u64::from(has_filled);
        self.filled += NEWEST_WEIGHT * (f64::from(u8::from(has_filled)) - self.filled);
    }

    /// Whether batches filled lately when they were expected to, or it is time to try again.
    fn is_trusted(&self) -> bool {
        self.filled >= TRUST_MIN || self.left_out >= LEFT_OUT_MAX
    }

    /// Until then, unless waits were in vain.
    fn trusted(&mut self, until: Instant) -> Option<Instant> {
        let is_trusted = self.is_trusted();
        self.left_out = if is_trusted { 0 } else { self.left_out + 1 };
        is_trusted.then_some(until)
    }
}

/// What would wait for more rows.
#[derive(Debug, Clone, Copy)]
struct Gathered {
    rows: usize,
    /// When the first of it came.
    since: Instant,
    /// The first deadline.
    deadline: Option<Instant>,
    /// A source of which a request is about to wait.
    newcomer: Option<u64>,
}

impl State {
    /// A request came, whatever becomes of it.
    pub(super) fn came(&mut self, asked: &Asked, noticed: Noticed) {
        if !self.filling.is_off() {
            let is_beside = self.is_out(asked.source);
            self.filling
                .arrivals
                .came(asked.source, asked.rows, is_beside, noticed.at);
        }
        self.holding.came(asked.source, noticed);
    }

    /// Whether a request of this source waits or runs.
    fn is_out(&self, source: u64) -> bool {
        self.waiting.has(source) || self.holding.is_running(source)
    }

    /// Until when what waits may wait for a batch to fill; `None` where it starts at once.
    pub(super) fn fills_by(&self, now: Instant) -> Option<Instant> {
        if self.filling.is_off() || self.stopping {
            return None;
        }
        let worth = self
            .waiting
            .iter()
            .filter(|waiting| waiting.dropped(now).is_none());
        let gathered = worth.fold(None, |before: Option<Gathered>, waiting| {
            let since = before.map_or(waiting.submitted, |before| before.since.min(waiting.submitted));
            let deadlines = [
                before.and_then(|before| before.deadline),
                waiting.request.deadline,
            ];
            Some(Gathered {
                rows: before.map_or(0, |before| before.rows) + waiting.request.rows,
                since,
                deadline: deadlines.into_iter().flatten().min(),
                newcomer: None,
            })
        });
        self.gathered_fills_by(gathered?, now)
    }

    /// As [`State::fills_by`], where only this request and `rows` more would wait.
    fn alone_fills_by(&self, asked: &Asked, rows: usize, now: Instant) -> Option<Instant> {
        if self.filling.is_off() {
            return None;
        }
        let gathered = Gathered {
            rows: rows.saturating_add(asked.rows),
            since: now,
            deadline: asked.deadline,
            newcomer: Some(asked.source),
        };
        self.gathered_fills_by(gathered, now)
    }

    fn gathered_fills_by(&self, gathered: Gathered, now: Instant) -> Option<Instant> {
        let room = self.batch_size_max.checked_sub(gathered.rows)?;
        let run = self.forecast.full_run()?.min(self.holding.took);
        if room == 0 || run < RUN_MIN {
            return None;
        }
        let in_hand = Duration::from_secs_f64(RUNS_IN_HAND * self.forecast.full_run()?);
        let by_deadline = gathered
            .deadline
            .map(|deadline| deadline.checked_sub(in_hand).unwrap_or(now));
        let until = [Some(gathered.since + self.filling.delay), by_deadline];
        let until = until.into_iter().flatten().min()?;
        let is_out = |source| gathered.newcomer == Some(source) || self.is_out(source);
        let fill = self.filling.arrivals.fill(room, is_out, now)?;
        let left = until.saturating_duration_since(now).as_secs_f64();
        let late = now + Duration::from_secs_f64(fill.late.min(left));
        (fill.seconds < left).then(|| until.min(late))
    }

    /// Until when an instance waits for a batch to fill with what waits, as far as such waits can be trusted.
    pub(super) fn begins_filling(&mut self, now: Instant) -> Option<Instant> {
        let until = self.fills_by(now)?;
        self.filling.trusted(until)
    }

    /// Whether an instance would wait for a batch to fill with this request if it got it now.
    pub(super) fn would_fill(&mut self, asked: &Asked, now: Instant) -> bool {
        let until = self.alone_fills_by(asked, 0, now);
        until.is_some_and(|until| self.filling.trusted(until).is_some())
    }

    /// As [`State::would_fill`] for a thread's turn, beside requests of so many rows; nothing is noted.
    pub(super) fn would_fill_beside(&self, asked: &Asked, rows: usize, now: Instant) -> bool {
        !self.filling.is_off() && self.filling.is_trusted() && self.alone_fills_by(asked, rows, now).is_some()
    }

    /// Whether an instance waits for a batch to fill that can take so many more rows: nobody else is needed for them.
    pub(super) fn fills_with(&self, rows: usize) -> bool {
        let is_filling = self.holding.waits_for() == Some(WaitsFor::Rows) && !self.stopping;
        is_filling && self.waiting.backlog().rows.saturating_add(rows) <= self.batch_size_max
    }
}
