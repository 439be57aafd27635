//! Where other threads leave answers and orders for a net thread.
//!
//! Answers are bounded by what is in flight: every answer belongs to a call that a connection counts against its bound; pushes by
//! what their connection may owe; the bytes of both by what all connections may keep. Its invariant: one wake-up for all that
//! is left while the net thread has not yet looked, and what is left by one thread is taken in its order.

use crate::Mark;
use crate::net_thread::Order;
use crate::outlet::Unsent;
use crate::pulse::Waker;
use crate::totals::Totals;
use std::sync::{Arc, Mutex, PoisonError};
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
pub(crate) enum Parcel {
    Message(Delivery),
    /// An answer of so many bytes found no place: its connection ends.
    NoPlace(Key, usize),
    /// Too much is kept for peers that do not read.
    MakeRoom,
}

/// The queues and their bell.
#[derive(Debug)]
pub(crate) struct Mailbox {
    left: Mutex<Left>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) totals: Arc<Totals>,
    /// Its net thread's number.
    pub(crate) thread: usize,
}

/// What lies in a mailbox.
#[derive(Debug, Default)]
pub(crate) struct Left {
    pub(crate) parcels: Vec<Parcel>,
    pub(crate) orders: Vec<Order>,
    /// The net thread takes everything before it waits again: nobody has to wake it.
    is_awake: bool,
    /// The net thread has ended: nothing is taken any more.
    closed: bool,
}

impl Left {
    fn is_empty(&self) -> bool {
        self.parcels.is_empty() && self.orders.is_empty()
    }
}

impl Mailbox {
    pub(crate) fn new(totals: Arc<Totals>, thread: usize) -> std::io::Result<Mailbox> {
        Ok(Mailbox {
            left: Mutex::default(),
            waker: Waker::new()?,
            totals,
            thread,
        })
    }

    /// Leaves an answer; where there is no place for it, its connection ends instead. Nobody takes it where the net thread has ended.
    pub(crate) fn post(&self, delivery: Delivery) {
        let (key, bytes) = (delivery.key, delivery.bytes.len());
        let parcel = match self.totals.admit(bytes) {
            true => Parcel::Message(delivery),
            false => Parcel::NoPlace(key, bytes),
        };
        // Nobody misses it where the net thread has ended.
        let _ = self.leave_parcel(parcel);
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
        self.leave_parcel(Parcel::Message(push))
    }

    /// Has the net thread close connections that keep most.
    pub(crate) fn ask_for_room(&self) {
        let _ = self.leave_parcel(Parcel::MakeRoom);
    }

    fn leave_parcel(&self, parcel: Parcel) -> Result<(), Unsent> {
        let left = self.leave(|left| {
            if left.closed {
                return Err(parcel);
            }
            left.parcels.push(parcel);
            Ok(())
        });
        // Dropped outside of the lock.
        left.map_err(|parcel| {
            if let Parcel::Message(delivery) = parcel {
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
        self.leave(|left| {
            let is_full = left.orders.len() >= ORDERS_MAX && !matches!(order, Order::Close { .. });
            if left.closed || is_full {
                return Err(order);
            }
            left.orders.push(order);
            Ok(())
        })
    }

    /// Rings only if nothing lay there before, and the net thread may wait.
    fn leave<E>(&self, put: impl FnOnce(&mut Left) -> Result<(), E>) -> Result<(), E> {
        let first = {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            let first = left.is_empty() && !left.is_awake;
            put(&mut left)?;
            first
        };
        if first {
            self.waker.bell.ring();
        }
        Ok(())
    }

    /// Nothing is taken any more: what lies there is given back, to be dropped.
    pub(crate) fn close(&self) -> Left {
        let closed = Left {
            closed: true,
            ..Left::default()
        };
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut left, closed)
    }

    /// The net thread takes everything before it waits again.
    pub(crate) fn set_awake(&self) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).is_awake = true;
    }

    /// Takes everything that is there, after the bell was heard or while the thread was awake, which it is no longer; `into` is empty
    /// and gives its memory to the queues.
    pub(crate) fn take(&self, into: &mut Left) {
        into.is_awake = false;
        std::mem::swap(
            &mut *self.left.lock().unwrap_or_else(PoisonError::into_inner),
            into,
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::poller::Bell;

    #[test]
    fn a_batch_of_answers_rings_once() {
        let mailbox = Mailbox::new(Arc::new(Totals::new(Arc::default(), 1, 1 << 20, "")), 0).unwrap();
        let rings = || {
            let mut count = [0; 8];
            rustix::io::read(&mailbox.waker.bell, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
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
        let mut left = Left::default();
        mailbox.take(&mut left);
        assert_eq!(left.parcels.len(), 10);
        left.parcels.clear();
        mailbox.take(&mut left);
        assert!(left.is_empty());
        (0..3).for_each(post);
        assert_eq!(rings(), 1);
        left.parcels.clear();
        mailbox.take(&mut left);
        mailbox.set_awake();
        (0..3).for_each(post);
        assert_eq!(rings(), 0, "the thread looks by itself");
        left.parcels.clear();
        mailbox.take(&mut left);
        assert_eq!(left.parcels.len(), 3);
        left.parcels.clear();
        (0..3).for_each(post);
        assert_eq!(rings(), 1);
    }

    #[test]
    fn orders_are_bounded() {
        let mailbox = Mailbox::new(Arc::new(Totals::new(Arc::default(), 1, 1 << 20, "")), 0).unwrap();
        let adopt = || {
            Order::Adopt(crate::net_thread::Newcomer {
                socket: Bell::new().unwrap().into(),
                peer: crate::RemoteAddr(None),
                kind: crate::net_thread::Kind::Served,
                tls: None,
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
