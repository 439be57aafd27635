//! Where other threads leave answers for a net thread.
//!
//! It is bounded by what is in flight: every delivery belongs to a call that a connection counts against its bound.
//! Its invariant: one wake-up for all that is left while the net thread has not yet looked.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// Names a connection of one net thread; a slot that is used again gets another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) slot: usize,
    pub(crate) generation: u64,
}

/// One whole answer.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) key: Key,
    /// The answer's bytes; none for a oneway call.
    pub(crate) bytes: Vec<u8>,
    /// Whether the connection ends with it (HTTP without keep-alive).
    pub(crate) close: bool,
    /// Since when it is only to be written, if anybody wants to know.
    pub(crate) ready: Option<Instant>,
}

/// The queue and its bell.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    queue: Mutex<Vec<Delivery>>,
    bell: Notify,
}

impl Mailbox {
    /// Leaves an answer; rings only if the queue was empty.
    pub(crate) fn post(&self, delivery: Delivery) {
        let first = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.push(delivery);
            queue.len() == 1
        };
        if first {
            self.bell.notify_one();
        }
    }

    /// Takes everything that is there; `into` is empty and gives its memory to the queue.
    pub(crate) fn take(&self, into: &mut Vec<Delivery>) {
        std::mem::swap(
            &mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner),
            into,
        );
    }

    /// Waits for the bell.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_answers_rings_once() {
        let mailbox = Mailbox::default();
        for slot in 0..10 {
            mailbox.post(Delivery {
                key: Key { slot, generation: 0 },
                bytes: Vec::new(),
                close: false,
                ready: None,
            });
        }
        let mut taken = Vec::new();
        mailbox.take(&mut taken);
        assert_eq!(taken.len(), 10);
        taken.clear();
        mailbox.take(&mut taken);
        assert!(taken.is_empty());
    }
}
