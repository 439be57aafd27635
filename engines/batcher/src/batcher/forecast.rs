//! When a request that comes now would begin and how long it would run. It refuses nothing and holds no
//! request. Its one invariant: all times are given to it, so that it says the same for the same runs.
//!
//! A run lasts from the cut of its batch until its instance comes for the next one: what answering costs is
//! in it, and the model's own time is not measured twice. An instance that is busy becomes free when its run is expected to end; one whose run lasts longer than
//! expected is expected to end now. Instances take full runs in the order in which they become free. Full runs ahead are
//! taken to last as long as their estimate allows in doubt, and a part of every wait is kept in hand: a request that is accepted
//! should be answered in time.

use super::levels::Ahead;
use super::service_time::{Measured, ServiceTime};
use super::turns::Backlog;
use std::time::{Duration, Instant};

/// The part of a wait that is added to it: under overload the queue is always as long as deadlines allow, so each request that is
/// let in waits that long, and comes too late by what the forecast cannot see (turns of connections that come later, the way
/// back to the caller). A queue that is shorter by this keeps instances just as busy.
const IN_HAND: f64 = 1.0 / 16.0;

/// Full runs after which a request that waits has gained a level of priority, and the least and the most seconds that this is.
const LEVEL_RUNS: f64 = 4.0;
const LEVEL_MIN: f64 = 2e-3;
const LEVEL_MAX: f64 = 60.0;

/// What a request that comes now has to expect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    /// Until its run begins, with what is kept in hand.
    pub wait: Duration,
    /// That run.
    pub run: Duration,
}

/// What stands before a request, and what it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    /// Rows that run before it, in turn order.
    pub rows_ahead: usize,
    /// Rows that wait in all.
    pub rows_waiting: usize,
    /// Its own.
    pub rows: usize,
}

pub(super) struct Forecast {
    service_time: ServiceTime,
    /// When each instance is expected to be free, in seconds since `origin`, the first one first.
    free_at: Vec<(f64, usize)>,
    /// When each instance began the run that it is at, and its rows.
    running: Vec<Option<(Instant, usize)>>,
    origin: Instant,
    batch_size_max: usize,
}

impl Forecast {
    pub(super) fn new(instances: usize, batch_size_max: usize, origin: Instant) -> Forecast {
        Forecast {
            service_time: ServiceTime::default(),
            free_at: (0..instances).map(|instance| (0.0, instance)).collect(),
            running: vec![None; instances],
            origin,
            batch_size_max,
        }
    }

    /// `instance` begins a run of so many rows.
    pub(super) fn began(&mut self, instance: usize, rows: usize, now: Instant) {
        self.running[instance] = Some((now, rows));
        let run = self.service_time.of_chunks(rows, self.batch_size_max);
        self.expect_free(instance, self.seconds(now) + run.unwrap_or(0.0));
    }

    /// `instance` is free: when it began to run, if it ran anything, and how many rows.
    pub(super) fn ended(&mut self, instance: usize, now: Instant) -> Option<(Instant, usize)> {
        let ran = self.running[instance].take()?;
        self.expect_free(instance, self.seconds(now));
        Some(ran)
    }

    /// Seconds until one of the other instances is expected to be free; `None` where there is no other.
    pub(super) fn until_other_free(&self, instance: usize, now: Instant) -> Option<f64> {
        let (free_at, _) = *self.free_at.iter().find(|(_, other)| *other != instance)?;
        Some((free_at - self.seconds(now)).max(0.0))
    }

    /// Seconds until the second of the instances is expected to be free; `None` where there is one alone.
    pub(super) fn until_second_free(&self, now: Instant) -> Option<f64> {
        let (free_at, _) = *self.free_at.get(1)?;
        Some((free_at - self.seconds(now)).max(0.0))
    }

    /// Learns from a run of so many rows, on whichever thread.
    pub(super) fn learn(&mut self, rows: usize, took: Duration) {
        // Several runs that were one request's are as many equal ones.
        let chunks = rows.div_ceil(self.batch_size_max).max(1);
        self.service_time.observe(Measured {
            rows: rows.div_ceil(chunks),
            took: took / u32::try_from(chunks).unwrap_or(u32::MAX),
        });
    }

    /// Seconds of a full run; `None` before anything was measured.
    pub(super) fn full_run(&self) -> Option<f64> {
        self.service_time.of(self.batch_size_max)
    }

    /// After so long a request that waits has gained a level of priority: what full runs take, of which as many are a
    /// level as favour a request over most of a queue that is as long as its callers allow.
    pub(super) fn level_step(&self) -> Duration {
        let seconds = self.full_run().unwrap_or(0.0) * LEVEL_RUNS;
        Duration::from_secs_f64(seconds.clamp(LEVEL_MIN, LEVEL_MAX))
    }

    /// Rows that run before a request because of what waits at another level, and of what comes there in time: as much
    /// again as turns are filled again, and no more than instances can run meanwhile.
    pub(super) fn rows_of(&self, ahead: &Ahead) -> usize {
        let rows = ahead.rows as f64;
        let full_runs = |full: f64| ahead.window.as_secs_f64() / full.max(1e-9) * self.running.len() as f64;
        let most = self.full_run().map_or(0.0, full_runs) * self.batch_size_max as f64;
        let again = rows / (1.0 - ahead.refilled).max(0.0) - rows;
        ahead.rows.saturating_add(again.min(most) as usize)
    }

    /// Seconds that runs of so many rows take at most, as far as those of other sizes tell; `None` before anything was measured.
    pub(super) fn at_most(&self, rows: usize) -> Option<f64> {
        self.service_time.of_chunks_at_most(rows, self.batch_size_max)
    }

    fn expect_free(&mut self, instance: usize, free_at: f64) {
        self.free_at.retain(|(_, other)| *other != instance);
        let at = self.free_at.partition_point(|(other, _)| *other <= free_at);
        self.free_at.insert(at, (free_at, instance));
    }

    /// `None` before anything was measured.
    pub(super) fn expected(&self, position: Position, now: Instant) -> Option<Expected> {
        let Position {
            rows_ahead,
            rows_waiting,
            rows,
        } = position;
        let full = self.service_time.of(self.batch_size_max)? + self.service_time.doubt();
        let (runs_ahead, run) = if rows > self.batch_size_max {
            let run = self.service_time.of_chunks(rows, self.batch_size_max)?;
            (rows_ahead.div_ceil(self.batch_size_max), run)
        } else {
            let last_row = rows_ahead.saturating_add(rows.max(1)) - 1;
            let runs_ahead = last_row / self.batch_size_max;
            // Whatever waits with it shares its run: those before it that no earlier run takes, and those after it.
            let with_it = rows_waiting
                .saturating_add(rows)
                .saturating_sub(runs_ahead.saturating_mul(self.batch_size_max));
            let run_rows = with_it.clamp(rows, self.batch_size_max);
            (runs_ahead, self.service_time.of(run_rows)?)
        };
        Some(Expected {
            wait: duration(self.until_free(runs_ahead, full, now) * (1.0 + IN_HAND)),
            run: duration(run),
        })
    }

    /// Seconds until an instance is free that full runs ahead have left: the earliest of what the first one, the first
    /// two, … instances achieve by turns, so that one that is held up long holds up nobody else.
    fn until_free(&self, runs_ahead: usize, full: f64, now: Instant) -> f64 {
        let now = self.seconds(now);
        let by_turns = (1..=self.free_at.len()).map(|instances| {
            let (free_at, _) = self.free_at[runs_ahead % instances];
            (free_at - now).max(0.0) + (runs_ahead / instances) as f64 * full
        });
        by_turns.fold(f64::INFINITY, f64::min)
    }

    fn seconds(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.origin).as_secs_f64()
    }
}

/// Rows that run before the next request of a source: all rows of its own, and of each other source at most one request for
/// each turn until then. Some of those turns have no request yet; the share `refilled` of them will have one when they come.
/// Requests of other sources count with the average of their rows.
pub(super) fn rows_ahead(own: Backlog, all: Backlog, sources: usize, refilled: f64) -> usize {
    let others = all.without(own);
    let other_sources = sources - usize::from(own.requests > 0).min(sources);
    let turns = (own.requests + 1).saturating_mul(other_sources);
    let waiting = others.requests.min(turns);
    // No more come than while what is here runs, and what comes meanwhile.
    let meanwhile = (own.requests + waiting) as f64 / (1.0 - refilled).max(0.0);
    let to_come = (refilled * meanwhile.min((turns - waiting) as f64)) as usize;
    let ahead = waiting.saturating_add(to_come);
    let rows = if ahead == others.requests {
        others.rows
    } else {
        (others.rows as u128 * ahead as u128).div_ceil(others.requests as u128) as usize
    };
    own.rows.saturating_add(rows)
}

/// Longer than a duration can be is the longest there is.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
