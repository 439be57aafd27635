//! The ways to send bytes to a connection from any thread: the answer of a call, and what is no answer.
//!
//! It knows no protocol. Its invariant: what one thread sends to one connection leaves in its order.

use crate::mailbox::{Delivery, Key, Mailbox, What};
use crate::{Counters, Mark};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// Unsent bytes of a connection from which on pushes are refused; the last push may be as large as a frame.
const BACKLOG_BYTES_MAX: usize = 256 << 10;

/// The way of one answer.
#[derive(Debug)]
pub struct Outlet {
    pub(crate) key: Key,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Turns true when the caller has gone: work not begun is not worth doing.
    pub gone: Arc<AtomicBool>,
}

impl Outlet {
    /// Sends the answer, which may be empty; the connection ends with it where `close` says so. `ready` is since when it is only to be
    /// written, and the mark to tell that with ([`Local::end`](crate::Local::end)).
    pub fn answer(&self, bytes: Vec<u8>, close: bool, ready: Option<(Instant, Mark)>) {
        self.mailbox.post(Delivery {
            key: self.key,
            bytes,
            what: What::Answer { close, ready },
        });
    }
}

/// Why nothing was sent.
#[derive(Debug)]
pub enum Unsent {
    /// The connection is over.
    Closed,
    /// Too much waits for peers to read it: how much.
    Full(String),
}

/// The way of everything else. It outlives the connection: then it says so.
#[derive(Debug, Clone)]
pub struct PushOutlet {
    pub(crate) key: Key,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) backlog: Arc<Backlog>,
}

impl PushOutlet {
    /// Sends one message; its session is woken at `wake_at`, or sooner.
    ///
    /// # Errors
    /// [`Unsent`].
    pub fn send(&self, bytes: Vec<u8>, wake_at: Option<Instant>) -> Result<(), Unsent> {
        let before = self.backlog.queued.fetch_add(bytes.len(), Ordering::Relaxed);
        let owed = before + self.backlog.unsent.load(Ordering::Relaxed);
        if owed >= BACKLOG_BYTES_MAX {
            self.backlog.take(bytes.len());
            return Err(Unsent::Full(format!(
                "{owed} bytes wait for the peer to read them; the limit is {BACKLOG_BYTES_MAX}"
            )));
        }
        let count = bytes.len();
        let pushed = self.mailbox.push(Delivery {
            key: self.key,
            bytes,
            what: What::Push { wake_at },
        });
        // A connection that is gone counts nothing.
        pushed.inspect_err(|_| self.backlog.take(count))
    }

    /// The totals of its transport.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.mailbox.totals.counters
    }
}

/// What waits for a connection's peer, as its pushers see it.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Bytes of pushes in the mailbox.
    queued: AtomicUsize,
    /// Bytes that are written and not sent, as of its last turn.
    pub(crate) unsent: AtomicUsize,
}

impl Backlog {
    /// So many bytes have left the mailbox.
    pub(crate) fn take(&self, bytes: usize) {
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
    }
}
