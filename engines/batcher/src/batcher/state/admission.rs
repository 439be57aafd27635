//! Who is let in: what a request would wait for, where there is room for it, and what a refusal tells about the queue. It takes nothing in.
//! Its invariant: a request that finds an idle instance and room for its bytes is accepted.

use super::{Asked, State};
use crate::Priority;
use crate::batcher::Rejected;
use crate::batcher::forecast::{Expected, Position, rows_ahead};
use crate::batcher::standing;
use crate::batcher::stats::micros;
use std::time::{Duration, Instant};

impl State {
    /// Why such a request would be refused now; `None` if it would be accepted.
    pub(in crate::batcher) fn refusal(&self, asked: &Asked, now: Instant) -> Option<Rejected> {
        if self.stopping {
            return Some(Rejected::Stopping);
        }
        if asked.bytes > self.queue_bytes_max {
            return Some(Rejected::TooManyBytes {
                bytes: asked.bytes,
                queue_bytes_max: self.queue_bytes_max,
            });
        }
        let waits = self.idle == 0 && !self.joins_held(asked.rows);
        let no_place = || self.too_late(asked, now).or_else(|| self.no_room(asked, now));
        let refused = waits.then(no_place).flatten();
        refused.or_else(|| self.no_bytes(asked))
    }

    /// A request was refused so: a sign of overload, or not. One that even a short queue would not serve in time says
    /// nothing of the queue.
    pub(in crate::batcher) fn note_refused(&mut self, rejected: Rejected, asked: &Asked, now: Instant) {
        let Some(run) = self.forecast.full_run() else {
            return;
        };
        let is_sign = match rejected {
            Rejected::TooLate { run_us, left_us, .. } => {
                left_us as f64 > standing::target(run) * 1e6 + run_us as f64
            }
            Rejected::Standing { .. } => true,
            Rejected::QueueFull { .. } | Rejected::BytesFull { .. } => {
                // A deadline that has passed already asks for nothing.
                asked.deadline.is_none_or(|deadline| deadline > now)
            }
            Rejected::TooManyBytes { .. } | Rejected::Stopping => false,
        };
        if is_sign {
            self.standing.refused(run, now);
        }
    }

    /// Whether it cannot be answered in time, or waits for too long in a queue that stands. One whose deadline has passed already is no
    /// sign of overload: it is accepted and dropped like others whose deadline passes.
    pub(super) fn too_late(&self, asked: &Asked, now: Instant) -> Option<Rejected> {
        let left = asked.deadline?.checked_duration_since(now)?;
        if left.is_zero() {
            return None;
        }
        let level = self.waiting.at(asked.priority);
        let (all, own) = (level.backlog(), level.backlog_of(asked.source));
        let ahead = rows_ahead(own, all, level.sources(), level.refilled());
        let position = Position {
            rows_ahead: ahead.saturating_add(self.rows_of_other_levels(asked.priority, now)),
            rows_waiting: self.waiting.backlog().rows,
            rows: asked.rows,
        };
        let expected = self.forecast.expected(position, now)?;
        if expected.wait.saturating_add(expected.run) > left {
            return Some(Rejected::TooLate {
                wait_us: micros(expected.wait),
                run_us: micros(expected.run),
                left_us: micros(left),
            });
        }
        self.stands_before(expected, left, now)
    }

    /// Rows of other levels that are expected to run before a request of this one that comes now.
    fn rows_of_other_levels(&self, priority: Priority, now: Instant) -> usize {
        if !self.waiting.is_mixed() && priority == Priority::default() {
            return 0;
        }
        let ahead = self.waiting.ahead(priority, self.forecast.level_step(), now);
        ahead.fold(0, |rows, ahead| {
            rows.saturating_add(self.forecast.rows_of(&ahead))
        })
    }

    /// Whether a queue that stands is too long for such a wait. One request may wait for each instance, whatever is on its way.
    fn stands_before(&self, expected: Expected, left: Duration, now: Instant) -> Option<Rejected> {
        let target = self.standing.limit(self.forecast.full_run()?, now)?;
        let is_short = self.queued() < self.running_bytes.len();
        (!is_short && expected.wait.as_secs_f64() > target).then(|| Rejected::Standing {
            wait_us: micros(expected.wait),
            target_us: (target * 1e6) as u64,
            left_us: micros(left),
        })
    }

    /// Requests that wait for a run; one that a called instance is about to fetch does not.
    pub(super) fn queued(&self) -> usize {
        self.waiting.backlog().requests.saturating_sub(self.called)
    }

    /// Whether the queue is full: one more request must evict another.
    pub(super) fn is_full(&self) -> bool {
        self.queued() >= self.queue_max
    }

    /// Refuses a request if the queue is full and it can evict no other request.
    fn no_room(&self, asked: &Asked, now: Instant) -> Option<Rejected> {
        if !self.is_full() {
            return None;
        }
        let step = || self.forecast.level_step();
        let gives_way = || self.waiting.gives_way(asked.source, asked.priority, step, now);
        let makes_room = self.queue_max > 0 && gives_way();
        (!makes_room).then(|| Rejected::QueueFull {
            queued: self.queued(),
            queue_max: self.queue_max,
        })
    }

    /// Bytes of all requests that wait and run.
    pub(super) fn bytes_held(&self) -> usize {
        let running: usize = self.running_bytes.iter().sum();
        let waiting = self.waiting.backlog().bytes;
        waiting.saturating_add(running).saturating_add(self.inline_bytes)
    }

    /// Refuses a request whose bytes would exceed the limit.
    pub(super) fn no_bytes(&self, asked: &Asked) -> Option<Rejected> {
        let held = self.bytes_held();
        (held.saturating_add(asked.bytes) > self.queue_bytes_max).then_some(Rejected::BytesFull {
            held,
            bytes: asked.bytes,
            queue_bytes_max: self.queue_bytes_max,
        })
    }
}
