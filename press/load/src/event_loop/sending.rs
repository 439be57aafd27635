//! When a thread sends: at once after an answer (closed loop), or when the schedule says so (open loop).
//!
//! Its invariant: a request of a schedule is taken once, in order, and carries the time at which it was due whatever delays
//! it; how long it waited for a free connection is never counted as the generator's own lateness.

use std::cmp::Reverse;

use super::connection::{Connection, Status};
use super::{ClientThread, Stage};
use crate::counting::Sent;
use crate::plan::{Amount, Pace};
use crate::protocol::Protocol;
use millpond_press_recorder::ErrorKind;

impl<P: Protocol> ClientThread<P> {
    /// When the next request of the schedule is due.
    pub(super) fn next_due(&self) -> Option<u64> {
        if self.stage != Stage::Offering {
            return None;
        }
        let Pace::Open { warm_up, measured } = &self.phase.pace else {
            return None;
        };
        match self.counting.measure_from {
            None => warm_up.get(self.next).map(|at| self.phase.begin + at),
            Some(_) if self.next < self.warm_up_taken => {
                warm_up.get(self.next).map(|at| self.phase.begin + at)
            }
            Some(from) => measured.get(self.next - self.warm_up_taken).map(|at| from + at),
        }
    }

    /// Sends what the schedule says is due, as far as connections are free.
    pub(super) fn send_due(&mut self, now: u64) {
        let until = self.until.unwrap_or(u64::MAX);
        while let Some(due) = self.next_due() {
            if due > now || due >= until {
                break;
            }
            let Some(number) = self.take_from_ring() else {
                break;
            };
            if self.connections[number].free_since >= until {
                // It waited for an answer to the very end.
                self.put_in_ring(number);
                break;
            }
            self.next += 1;
            let eligible = due.max(self.connections[number].free_since);
            self.enqueue(number, due, eligible);
            self.put_in_ring(number);
            if !self.connections[number].is_dirty {
                self.connections[number].is_dirty = true;
                self.dirty.push(number as u32);
            }
        }
        while let Some(number) = self.dirty.pop() {
            self.connections[number as usize].is_dirty = false;
            self.flush(number as usize);
        }
    }

    /// Requests that found no free connection within their time are failures, not a backlog without an end.
    pub(super) fn give_up_unsent(&mut self, now: u64, timeout: u64) {
        while let Some(due) = self.next_due().filter(|due| due + timeout < now) {
            self.next += 1;
            let why = || format!("no connection was free within {} ms", timeout / 1_000_000);
            if self.counting.is_measured(due) {
                self.counting.failed_unsent(ErrorKind::Timeout, why);
            }
        }
    }

    fn take_from_ring(&mut self) -> Option<usize> {
        while let Some(number) = self.ring.pop_front() {
            let connection = &mut self.connections[number as usize];
            connection.in_ring = false;
            if connection.status == Status::Up && connection.outstanding < self.plan.in_flight {
                return Some(number as usize);
            }
        }
        None
    }

    fn put_in_ring(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        if !connection.in_ring && connection.outstanding < self.plan.in_flight {
            connection.in_ring = true;
            self.ring.push_back(number as u32);
        }
    }

    /// A place on the connection became free, or the connection came up.
    pub(super) fn slot_is_free(&mut self, number: usize, now: u64) {
        match self.phase.pace {
            Pace::Open { .. } => {
                if !self.connections[number].in_ring {
                    self.connections[number].free_since = now;
                }
                self.put_in_ring(number);
            }
            Pace::Closed { think_ns: 0 } => self.refill(number, now),
            Pace::Closed { think_ns } => {
                let at = now + think_ns;
                self.timers.push(Reverse((at, number as u32)));
                self.end_if_done(number);
            }
        }
    }

    /// Fills the connection with requests that are due now.
    pub(super) fn refill(&mut self, number: usize, now: u64) {
        if self.stage != Stage::Offering {
            return;
        }
        if let Pace::Open { .. } = self.phase.pace {
            self.connections[number].free_since = now;
            return self.put_in_ring(number);
        }
        if self.until.is_some_and(|until| now >= until) {
            return;
        }
        let counted = matches!(self.phase.amount, Amount::Requests(_)) && self.counting.is_measured(now);
        while self.connections[number].outstanding < self.plan.in_flight {
            if counted {
                if self.connections[number].left == 0 {
                    break;
                }
                self.connections[number].left -= 1;
            }
            self.enqueue(number, now, now);
        }
        self.end_if_done(number);
    }

    /// A connection whose fixed number is sent and answered is over.
    fn end_if_done(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        let is_counted = matches!(self.phase.amount, Amount::Requests(_));
        if is_counted
            && self.stage == Stage::Offering
            && self.counting.measure_from.is_some()
            && connection.left == 0
            && connection.outstanding == 0
            && connection.status == Status::Up
        {
            // It stays up; a later load may use it.
            self.is_done(number);
        }
    }

    #[inline]
    fn enqueue(&mut self, number: usize, due: u64, eligible: u64) {
        let connection = &mut self.connections[number];
        let index = connection.order.next();
        let serial = connection.base.wrapping_add(connection.sent.len() as u32);
        let request = self.target.requests.get(index);
        let Connection { state, outbox, .. } = connection;
        self.target.protocol.write(state, request, serial, outbox);
        connection.sent.push_back(Sent {
            due,
            eligible,
            at: 0,
            index: index as u32,
            over: false,
        });
        connection.outstanding += 1;
        connection.unstamped += 1;
        self.outstanding += 1;
        self.listening.asked(eligible);
        self.counting.sent(due);
    }

    /// Hands what waits to the kernel.
    pub(super) fn flush(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        if !connection.has_unsent() || connection.status != Status::Up {
            return;
        }
        let now = self.plan.clock.now();
        connection.stamp(now);
        // A server that refuses may answer and close before the request is whole: the answer is still read.
        let _ = connection.write();
    }

    /// Whether nothing more will be sent.
    pub(super) fn is_all_sent(&self, now: u64) -> bool {
        match (&self.phase.amount, self.counting.measure_from) {
            (_, None) => false,
            (Amount::Requests(_), Some(_)) => self.busy == 0,
            (Amount::For(_), Some(_)) => {
                // With time for what is late, the end of the schedule is the end.
                let is_whole = !self.phase.late_max.is_zero() && self.next_due().is_none();
                is_whole || self.until.is_some_and(|until| now >= until)
            }
        }
    }

    /// Connections that failed and are not up again; those that the server refused are counted as such.
    pub(super) fn count_down(&self) -> u64 {
        let is_down = |connection: &&Connection<P::State>| {
            connection.status != Status::Up && connection.failures > 0 && !connection.refused
        };
        self.connections.iter().filter(is_down).count() as u64
    }

    /// Requests of the schedule or of the fixed number that were never taken.
    pub(super) fn count_not_sent(&self) -> u64 {
        match (&self.phase.pace, self.counting.measure_from) {
            (Pace::Open { measured, .. }, Some(_)) => {
                let taken = self.next.saturating_sub(self.warm_up_taken);
                measured.len().saturating_sub(taken) as u64
            }
            (Pace::Closed { .. }, Some(_)) if matches!(self.phase.amount, Amount::Requests(_)) => {
                self.connections.iter().map(|connection| connection.left).sum()
            }
            _ => 0,
        }
    }
}
