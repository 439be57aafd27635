//! What waits, by priority: one [`Turns`] a level. It knows no model and no limit, and reads no clock. Its one invariant: while
//! only the default level has something waiting, no other level is touched.
//!
//! A request that waits gains a level every `step`. So the level is next whose front has the least of `submitted + level x step`, and a
//! request yields to those of a better level only that come within so many steps of it as there are levels between. That order is
//! settled when a request comes: nothing has to be moved while it waits.

use super::queue::Waiting;
use super::turns::{Backlog, Turns};
use crate::Priority;
use std::time::{Duration, Instant};

const LEVELS: usize = Priority::LOWEST.level() as usize + 1;
const DEFAULT: usize = Priority::DEFAULT.level() as usize;

pub(super) struct Levels {
    turns: [Turns<Waiting>; LEVELS],
    /// Requests that wait at other levels than the default.
    elsewhere: usize,
}

/// A level that has something waiting, of whose requests some go before one that comes now.
pub(super) struct Ahead {
    /// Its rows that go before.
    pub rows: usize,
    /// The share of its turns that are filled again.
    pub refilled: f64,
    /// Those that come within this time go before as well.
    pub window: Duration,
}

impl Levels {
    pub(super) fn new() -> Levels {
        Levels {
            turns: std::array::from_fn(|_| Turns::new()),
            elsewhere: 0,
        }
    }

    /// Whether requests of other levels than the default wait.
    pub(super) fn is_mixed(&self) -> bool {
        self.elsewhere > 0
    }

    /// What waits at this level.
    pub(super) fn at(&self, priority: Priority) -> &Turns<Waiting> {
        &self.turns[index(priority)]
    }

    /// All that waits.
    pub(super) fn backlog(&self) -> Backlog {
        if !self.is_mixed() {
            return self.turns[DEFAULT].backlog();
        }
        let levels = self.turns.iter().map(Turns::backlog);
        levels.fold(Backlog::default(), Backlog::with)
    }

    pub(super) fn push(&mut self, waiting: Waiting, rows: usize, bytes: usize) {
        let at = index(waiting.request.priority);
        self.elsewhere += usize::from(at != DEFAULT);
        self.turns[at].push(waiting.request.source, rows, bytes, waiting);
    }

    /// The level whose turn it is, where a request that waits gains a level every `step`.
    pub(super) fn turn(&self, step: impl FnOnce() -> Duration) -> usize {
        if !self.is_mixed() {
            return DEFAULT;
        }
        let step = step();
        let fronts = self.turns.iter().enumerate();
        let ranked = fronts.filter_map(|(at, turns)| Some((rank(turns.front()?, at, step), at)));
        ranked.min().map_or(DEFAULT, |(_, at)| at)
    }

    /// The request whose turn it is at the level that [`Levels::turn`] gave.
    pub(super) fn front_of(&self, level: usize) -> Option<&Waiting> {
        self.turns[level].front()
    }

    /// Takes it, as [`Turns::pop`] does.
    pub(super) fn pop_of(&mut self, level: usize, turn_used: bool) -> Option<Waiting> {
        let popped = self.turns[level].pop(turn_used);
        self.elsewhere -= usize::from(level != DEFAULT && popped.is_some());
        popped
    }

    /// Whether a request gives way to one more of `source` and `priority`: the last of the worst level, unless it has waited for so
    /// long that it is served before the one that comes; or one of the same level by the rule of [`Turns::gives_way`].
    pub(super) fn gives_way(
        &self,
        source: u64,
        priority: Priority,
        step: impl FnOnce() -> Duration,
        now: Instant,
    ) -> bool {
        self.gives_way_to_better(priority, step, now).is_some() || self.at(priority).gives_way(source)
    }

    /// The worst level whose last request gives way to one of this priority, which is better.
    fn gives_way_to_better(
        &self,
        priority: Priority,
        step: impl FnOnce() -> Duration,
        now: Instant,
    ) -> Option<usize> {
        let own = index(priority);
        if !self.is_mixed() && own == DEFAULT {
            return None;
        }
        let step = step();
        let comes = now + steps(step, own);
        let gives_way = |at: &usize| {
            let last = self.turns[*at].last();
            last.is_some_and(|last| rank(last, *at, step) > comes)
        };
        (own + 1..LEVELS).rev().find(gives_way)
    }

    /// Takes the request that gives way to one more, as [`Levels::gives_way`] says.
    pub(super) fn evict_for(
        &mut self,
        source: u64,
        priority: Priority,
        step: impl FnOnce() -> Duration,
        now: Instant,
    ) -> Option<Waiting> {
        let (at, evicted) = match self.gives_way_to_better(priority, step, now) {
            Some(worse) => (worse, self.turns[worse].evict_last()),
            None => (index(priority), self.turns[index(priority)].evict_for(source)),
        };
        self.elsewhere -= usize::from(at != DEFAULT && evicted.is_some());
        evicted
    }

    /// What of the other levels goes before a request of this one that comes now. Of a worse level those do that have
    /// gained its lead; they are taken to have come evenly since its front did.
    pub(super) fn ahead(
        &self,
        priority: Priority,
        step: Duration,
        now: Instant,
    ) -> impl Iterator<Item = Ahead> {
        let own = index(priority);
        let others = self.turns.iter().enumerate().filter(move |(at, _)| *at != own);
        others.filter_map(move |(at, turns)| {
            let rows = turns.backlog().rows;
            let lead = steps(step, at.abs_diff(own));
            let age = now.saturating_duration_since(turns.front()?.submitted);
            if at < own {
                return Some(Ahead {
                    rows,
                    refilled: turns.refilled(),
                    window: lead,
                });
            }
            let share = age.saturating_sub(lead).as_secs_f64() / age.as_secs_f64().max(1e-9);
            Some(Ahead {
                rows: (rows as f64 * share) as usize,
                refilled: 0.0,
                window: Duration::ZERO,
            })
        })
    }

    /// All that waits, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.filled().flat_map(Turns::iter)
    }

    /// Whether a request of this source waits.
    pub(super) fn has(&self, source: u64) -> bool {
        self.filled().any(|turns| turns.backlog_of(source).requests > 0)
    }

    /// How many of a source wait that were submitted since.
    pub(super) fn came_since(&self, source: u64, since: Instant) -> usize {
        let newest = self.filled().map(|turns| turns.newest_first(source));
        let came = newest.map(|newest| newest.take_while(|waiting| waiting.submitted >= since).count());
        came.sum()
    }

    /// The levels that may have something waiting.
    fn filled(&self) -> impl Iterator<Item = &Turns<Waiting>> {
        let range = match self.is_mixed() {
            true => 0..LEVELS,
            false => DEFAULT..DEFAULT + 1,
        };
        self.turns[range].iter()
    }
}

fn index(priority: Priority) -> usize {
    usize::from(priority.level())
}

/// The least is served first.
fn rank(waiting: &Waiting, level: usize, step: Duration) -> Instant {
    waiting.submitted + steps(step, level)
}

fn steps(step: Duration, levels: usize) -> Duration {
    // There are ten.
    step.saturating_mul(levels as u32)
}

#[cfg(test)]
impl Levels {
    /// The request whose turn it is where all have the default.
    pub(super) fn front(&self) -> Option<&Waiting> {
        self.front_of(DEFAULT)
    }
}
