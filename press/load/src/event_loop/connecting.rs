//! How a thread connects: so many at a time, again after a pause that grows, and never for connections that are done.
//!
//! Its invariant: a connection that is down either waits in the queue, or has a timer, or is over.

use std::cmp::Reverse;

use millpond_press_recorder::Live;

use super::connection::Status;
use super::{ClientThread, Stage};
use crate::plan::{Amount, Report};
use crate::protocol::Protocol;

/// Waits before a connection is made again: the first, and the longest they double up to.
const BACKOFF_NS_MIN: u64 = 50_000_000;
const BACKOFF_NS_MAX: u64 = 1_000_000_000;
/// A connection with a fixed number of requests is given up after so many failures in a row.
const FAILURES_MAX: u32 = 5;

impl<P: Protocol> ClientThread<P> {
    /// Puts a connection in the queue of those to be made, or makes it.
    pub(super) fn want_connection(&mut self, number: usize) {
        self.connections[number].status = Status::Queued;
        self.queue.push_back(number as u32);
        self.connect_queued();
    }

    pub(super) fn connect_queued(&mut self) {
        let parallel = self.plan.connect_parallel.div_ceil(self.plan.client_threads);
        while self.connecting < parallel {
            let Some(number) = self.queue.pop_front() else {
                return;
            };
            let connection = &mut self.connections[number as usize];
            let Some(to) = self.plan.address else { return };
            let sources = &self.plan.source_addresses;
            let global = number as usize * self.plan.client_threads + self.line.index;
            let from = (!sources.is_empty()).then(|| sources[global % sources.len()]);
            let begun = connection.open(to, from, self.plan.clock.now());
            match begun.and_then(|socket| self.poller.add(socket, number)) {
                Ok(()) => self.connecting += 1,
                Err(error) => self.not_connected(number as usize, &error.to_string()),
            }
        }
    }

    pub(super) fn not_connected(&mut self, number: usize, why: &str) {
        self.connections[number].close();
        self.connections[number].failures += 1;
        self.connections[number].refused = false;
        self.counting.tally.counters.connections_failed += 1;
        self.counting
            .tally
            .counters
            .note("not_connected", || why.to_owned());
        self.arrived();
        self.later(number);
    }

    /// Decides when, if ever, a connection is made again.
    pub(super) fn later(&mut self, number: usize) {
        let is_counted_out = self.stage != Stage::Waiting && matches!(self.phase.amount, Amount::Requests(_));
        let connection = &mut self.connections[number];
        let is_given_up = connection.refused || connection.failures >= FAILURES_MAX;
        if is_counted_out && (is_given_up || connection.left == 0) {
            if !connection.refused {
                self.counting.tally.counters.not_sent_lost += connection.left;
            }
            connection.status = Status::Over;
            return self.is_done(number);
        }
        let wait = match connection.failures {
            0 => 0,
            failures => (BACKOFF_NS_MIN << (failures - 1).min(10)).min(BACKOFF_NS_MAX),
        };
        let at = self.plan.clock.now() + wait;
        self.timers.push(Reverse((at, number as u32)));
    }

    /// One more connection is up or has failed to come up.
    pub(super) fn arrived(&mut self) {
        if self.unready == 0 {
            return;
        }
        self.unready -= 1;
        if self.unready == 0 {
            let failure = self.counting.tally.counters.first.get("not_connected").cloned();
            let _ = self.line.reports.try_send(Report::Ready {
                opened: self.opened,
                failure,
            });
        }
    }

    pub(super) fn on_writable(&mut self, number: usize) {
        let now = self.plan.clock.now();
        let connection = &mut self.connections[number];
        match connection.status {
            Status::Connecting(since) => {
                let error = match &connection.socket {
                    Some(socket) => socket.take_error().unwrap_or_else(Some),
                    None => None,
                };
                if error.is_none() && self.plan.tls.is_some() {
                    return self.shake_hands(number, since);
                }
                self.connecting -= 1;
                match error {
                    Some(error) => self.not_connected(number, &error.to_string()),
                    None => self.connected(number, now),
                }
                self.connect_queued();
            }
            Status::Shaking(_) => self.shake_on(number),
            Status::Up if connection.has_unsent() => self.flush(number),
            _ => {}
        }
    }

    pub(super) fn connected(&mut self, number: usize, now: u64) {
        self.connections[number].status = Status::Up;
        self.connections[number].refused = false;
        Live::bump(&self.line.live.connected);
        if self.unready > 0 {
            self.opened += 1;
        } else {
            self.counting.tally.counters.connections_opened += 1;
        }
        self.arrived();
        if self.stage != Stage::Waiting && now >= self.phase.begin {
            self.refill(number, now);
            self.flush(number);
        }
    }
}
