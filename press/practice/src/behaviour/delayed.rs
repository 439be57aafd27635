//! Each request is answered its drawn delay after it was read.
//!
//! Delays of different requests run side by side. Its invariant: on one connection an answer leaves no sooner than the one
//! before it.

use super::Behaviour;
use super::per_connection::PerConnection;
use crate::connections::{Connections, Id};
use crate::delay::Delay;
use crate::random::Random;
use crate::truth::SharedSamples;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::PoisonError;

/// So many answers of a connection are written before the clock is read again.
const BATCH_MAX: usize = 64;

/// A request that waits. The order of the fields is the order of leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due_ns: u64,
    /// Those due at the same time leave as they came.
    number: u64,
    id: Id,
    read_ns: u64,
    drawn_ns: u64,
}

pub(crate) struct Delayed {
    delay: Delay,
    random: Random,
    waiting: BinaryHeap<Reverse<Waiting>>,
    numbers: u64,
    /// When the last answer of each connection is due.
    last_due_ns: PerConnection<u64>,
    /// The answers of one write, kept to save their memory.
    batch: Vec<Waiting>,
    truth: Option<SharedSamples>,
}

impl Delayed {
    pub(crate) fn new(delay: Delay, random: Random, truth: Option<SharedSamples>) -> Delayed {
        Delayed {
            delay,
            random,
            waiting: BinaryHeap::new(),
            numbers: 0,
            last_due_ns: PerConnection::new(),
            batch: Vec::new(),
            truth,
        }
    }

    /// Takes what is due now and leaves in one write: of one connection, and not too much.
    fn take_due(&mut self, now_ns: u64) {
        self.batch.clear();
        while self.batch.len() < BATCH_MAX {
            match self.waiting.peek() {
                Some(Reverse(first))
                    if first.due_ns <= now_ns && self.batch.last().is_none_or(|last| last.id == first.id) => {
                }
                _ => return,
            }
            self.batch.extend(self.waiting.pop().map(|Reverse(first)| first));
        }
    }

    fn tell(&self, written_ns: u64) {
        if let Some(truth) = &self.truth {
            let mut samples = truth.lock().unwrap_or_else(PoisonError::into_inner);
            for answered in &self.batch {
                samples.add(answered.drawn_ns, written_ns.saturating_sub(answered.read_ns));
            }
        }
    }
}

impl Behaviour for Delayed {
    fn arrived(&mut self, id: Id, requests: &[u8], at_ns: u64, connections: &mut Connections) {
        connections.hold(id, requests);
        for _ in 0..requests.len() / connections.request_bytes() {
            let drawn_ns = self.delay.draw_ns(&mut self.random);
            let last_due_ns = self.last_due_ns.of(id);
            *last_due_ns = (*last_due_ns).max(at_ns + drawn_ns);
            self.numbers += 1;
            self.waiting.push(Reverse(Waiting {
                due_ns: *last_due_ns,
                number: self.numbers,
                id,
                read_ns: at_ns,
                drawn_ns,
            }));
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.waiting.peek().map(|Reverse(first)| first.due_ns)
    }

    fn due(&mut self, connections: &mut Connections) {
        // Until here only: what becomes due while this is written waits for the next pass, after what came in between.
        let now_ns = connections.now_ns();
        loop {
            self.take_due(now_ns);
            if self.batch.is_empty() {
                return;
            }
            self.batch.retain(|answered| {
                let open = connections.is_open(answered.id);
                if open {
                    connections.answer(answered.id);
                }
                open
            });
            // The time at which the write begins: where the far end has to be woken, it ends after the answer has arrived.
            let written_ns = connections.now_ns();
            connections.flush();
            self.tell(written_ns);
        }
    }
}
