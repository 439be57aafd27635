//! The queue of a net thread for answers and orders of other threads.
//!
//! Answers are bounded by the calls in flight, pushes by their connection's backlog, the bytes of both by the bound of all write
//! buffers. Its invariant: one wake-up for all that is queued before the net thread looks; what one thread queues is taken in
//! its order.

use crate::Mark;
use crate::net_thread::Order;
use crate::outlet::Unsent;
use crate::pulse::Pulse;
use crate::totals::Totals;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Orders that may wait to be carried out; further connections are closed.
pub(crate) const ORDERS_MAX: usize = 4096;

/// Names a connection of one net thread; a slot that is used again gets another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) slot: usize,
    pub(crate) generation: u64,
}

/// One whole message.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) key: Key,
    /// Its bytes; none for a call without an answer.
    pub(crate) bytes: Vec<u8>,
    pub(crate) what: What,
}

/// What a message is.
#[derive(Debug)]
pub(crate) enum What {
    /// The answer of a call in flight.
    Answer {
        /// Whether the connection ends with it (HTTP without keep-alive).
        close: bool,
        /// Since when it is only to be written, and of which method it is, if anybody wants to know.
        ready: Option<(Instant, Mark)>,
    },
    /// Any other.
    Push {
        /// When its session is to be woken at the latest.
        wake_at: Option<Instant>,
    },
}

/// What is on its way to a connection.
#[derive(Debug)]
pub(crate) enum Message {
    Delivery(Delivery),
    /// An answer of so many bytes found no place: its connection ends.
    NoPlace(Key, usize),
    /// Too much is kept for peers that do not read.
    MakeRoom,
}

/// The queues and their wake-up.
#[derive(Debug)]
pub(crate) struct Mailbox {
    queues: Mutex<Queues>,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) totals: Arc<Totals>,
    /// Its net thread's number.
    pub(crate) thread: usize,
}

/// What lies in a mailbox.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub(crate) messages: Vec<Message>,
    pub(crate) orders: Vec<Order>,
    /// The net thread takes everything before it waits again: nobody has to wake it.
    is_awake: bool,
    /// The net thread has ended: nothing is taken any more.
    closed: bool,
}

impl Queues {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.orders.is_empty()
    }
}

impl Mailbox {
    pub(crate) fn new(totals: Arc<Totals>, thread: usize) -> std::io::Result<Mailbox> {
        Ok(Mailbox {
            queues: Mutex::default(),
            pulse: Pulse::new()?,
            totals,
            thread,
        })
    }

    /// Leaves an answer; where there is no place for it, its connection ends instead. Nobody takes it where the net thread has ended.
    pub(crate) fn post(&self, delivery: Delivery) {
        let (key, bytes) = (delivery.key, delivery.bytes.len());
        let message = match self.totals.admit(bytes) {
            true => Message::Delivery(delivery),
            false => Message::NoPlace(key, bytes),
        };
        // Nobody misses it where the net thread has ended.
        let _ = self.put_message(message);
    }

    /// Leaves a push.
    ///
    /// # Errors
    /// [`Unsent`], when there is no place for it, or the net thread has ended.
    pub(crate) fn push(&self, push: Delivery) -> Result<(), Unsent> {
        if !self.totals.admit(push.bytes.len()) {
            let (limit, key) = (self.totals.write_bytes_max, self.totals.write_bytes_key);
            return Err(Unsent::Full(format!(
                "{limit} bytes wait for all peers to read them; push again later, or raise {key}"
            )));
        }
        self.put_message(Message::Delivery(push))
    }

    /// Has the net thread close connections that keep most.
    pub(crate) fn ask_for_room(&self) {
        let _ = self.put_message(Message::MakeRoom);
    }

    fn put_message(&self, message: Message) -> Result<(), Unsent> {
        let put = self.put(message, |queues, message| {
            queues.messages.push(message);
            Ok(())
        });
        // Dropped outside of the lock.
        put.map_err(|message| {
            if let Message::Delivery(delivery) = message {
                self.totals.take(delivery.bytes.len());
            }
            Unsent::Closed
        })
    }

    /// Leaves an order.
    ///
    /// # Errors
    /// The order, when the net thread has ended, or too many wait already. The order to close always finds a place.
    pub(crate) fn order(&self, order: Order) -> Result<(), Order> {
        self.put(order, |queues, order| {
            if queues.orders.len() >= ORDERS_MAX && !matches!(order, Order::Close { .. }) {
                return Err(order);
            }
            queues.orders.push(order);
            Ok(())
        })
    }

    /// Wakes the net thread only if nothing lay there before, and it may wait. An error gives back what it does not take.
    fn put<T>(&self, what: T, put: impl FnOnce(&mut Queues, T) -> Result<(), T>) -> Result<(), T> {
        let first = {
            let mut queues = self.queues();
            if queues.closed {
                return Err(what);
            }
            let first = queues.is_empty() && !queues.is_awake;
            put(&mut queues, what)?;
            first
        };
        if first {
            self.pulse.wake_up.send();
        }
        Ok(())
    }

    /// Nothing is taken any more: what lies there is given back, to be dropped.
    pub(crate) fn close(&self) -> Queues {
        let closed = Queues {
            closed: true,
            ..Queues::default()
        };
        std::mem::replace(&mut *self.queues(), closed)
    }

    /// The net thread takes everything before it waits again.
    pub(crate) fn set_awake(&self) {
        self.queues().is_awake = true;
    }

    /// Takes everything that is there, after a wake-up or while the thread was awake, which it is no longer; `into` is empty
    /// and gives its memory to the queues.
    pub(crate) fn take(&self, into: &mut Queues) {
        into.is_awake = false;
        std::mem::swap(&mut *self.queues(), into);
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::poller::WakeUp;

    #[test]
    fn a_batch_of_answers_rings_once() {
        let mailbox = Mailbox::new(Arc::new(Totals::new(Arc::default(), 1, 1 << 20, "")), 0).unwrap();
        let rings = || {
            let mut count = [0; 8];
            rustix::io::read(&mailbox.pulse.wake_up, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
        };
        let post = |slot| {
            mailbox.post(Delivery {
                key: Key { slot, generation: 0 },
                bytes: Vec::new(),
                what: What::Answer {
                    close: false,
                    ready: None,
                },
            });
        };
        (0..10).for_each(post);
        assert_eq!(rings(), 1);
        let mut queues = Queues::default();
        mailbox.take(&mut queues);
        assert_eq!(queues.messages.len(), 10);
        queues.messages.clear();
        mailbox.take(&mut queues);
        assert!(queues.is_empty());
        (0..3).for_each(post);
        assert_eq!(rings(), 1);
        queues.messages.clear();
        mailbox.take(&mut queues);
        mailbox.set_awake();
        (0..3).for_each(post);
        assert_eq!(rings(), 0, "the thread looks by itself");
        queues.messages.clear();
        mailbox.take(&mut queues);
        assert_eq!(queues.messages.len(), 3);
        queues.messages.clear();
        (0..3).for_each(post);
        assert_eq!(rings(), 1);
    }

    #[test]
    fn orders_are_bounded() {
        let mailbox = Mailbox::new(Arc::new(Totals::new(Arc::default(), 1, 1 << 20, "")), 0).unwrap();
        let adopt = || {
            Order::Adopt(crate::net_thread::Newcomer {
                socket: WakeUp::new().unwrap().into(),
                peer: crate::RemoteAddr(None),
                kind: crate::net_thread::Kind::Served,
                tls: None,
                port: 0,
                is_loopback: true,
            })
        };
        crate::raise_file_limit();
        for _ in 0..ORDERS_MAX {
            mailbox.order(adopt()).unwrap();
        }
        assert!(mailbox.order(adopt()).is_err());
        let grace = std::time::Duration::ZERO;
        assert!(mailbox.order(Order::Close { grace }).is_ok(), "however many wait");
        drop(mailbox.close());
        assert!(mailbox.order(Order::Close { grace }).is_err() && mailbox.order(adopt()).is_err());
    }
}
