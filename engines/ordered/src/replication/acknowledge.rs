//! Up to which record some follower has the log, and whether the log thread waits for more.
//!
//! Whoever answers followers notes what they have; the log thread waits for it (`commit::held`). Invariant: what is noted is of a follower
//! whose last record is this log's own, while this store leads.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::Deserialize;

use crate::Store;

/// Whose log has a write before it is shown and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Acknowledge {
    /// The store's own; followers get it behind that.
    #[default]
    Leader,
    /// One follower's too, by its own durability.
    Follower,
}

/// Why a write that is in the log is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unacknowledged {
    /// No follower had it in time.
    Late {
        /// How long it waited, in milliseconds.
        waited_ms: u64,
    },
    /// The store was closed before.
    Closed,
    /// Another store was promoted before one was known to have it.
    Replaced,
}

impl fmt::Display for Unacknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is in the log, but ")?;
        match self {
            Unacknowledged::Late { waited_ms } => write!(
                f,
                "no follower had it within {waited_ms} ms (acknowledge_ms); it is shown once one has it, and lost if another store is promoted before; "
            ),
            Unacknowledged::Closed => f.write_str(
                "the store was closed before a follower had it; it is there after the next start, and lost if another store is promoted before; ",
            ),
            Unacknowledged::Replaced => f.write_str(
                "another server was promoted before a follower was known to have it; read it there; ",
            ),
        }?;
        f.write_str("repeat it only with if_version or if_absent, or where twice does no harm")
    }
}

/// What followers have, and what is waited for.
#[derive(Default)]
pub(crate) struct Acks {
    /// The last record that some follower has.
    had: AtomicU64,
    /// The record that the log thread waits for; 0 where it waits for none.
    awaited: AtomicU64,
    /// Whether it has waited for so long that nothing more is written before.
    is_stalled: AtomicBool,
    /// When it is to wait no longer, as the server stops.
    ends: Mutex<Option<Instant>>,
}

impl Acks {
    /// A follower has everything up to this record. Whether that was waited for.
    pub fn note(&self, sequence: u64) -> bool {
        self.had.fetch_max(sequence, Ordering::SeqCst);
        let awaited = self.awaited.load(Ordering::SeqCst);
        awaited != 0 && sequence >= awaited
    }

    /// For the log thread: waits for this record from here on, or for none.
    pub fn wait_for(&self, sequence: u64) {
        self.awaited.store(sequence, Ordering::SeqCst);
    }

    pub fn has(&self, sequence: u64) -> bool {
        self.had.load(Ordering::SeqCst) >= sequence
    }

    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Acquire)
    }

    pub fn set_stalled(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Ordering::Release);
    }

    /// The earlier of `until` and the time at which the server ends all waits.
    pub fn ends_by(&self, until: Instant) -> Instant {
        let ends = *self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.map_or(until, |ends| ends.min(until))
    }
}

impl Store {
    /// Of a store that acknowledges what a follower has: whether it does, and no write is held back for longer than it may be. `None` where it
    /// acknowledges by its own log, or does not lead.
    pub fn is_acknowledging(&self) -> Option<bool> {
        let shared = self.handle.replication.as_ref()?;
        let waits = shared.acknowledge == Acknowledge::Follower && shared.may_write().is_ok();
        waits.then(|| !shared.acks.is_stalled())
    }

    /// No write waits for a follower beyond then: the server stops.
    pub fn end_waits_by(&self, ends: Instant) {
        let Some(shared) = &self.handle.replication else {
            return;
        };
        *shared.acks.ends.lock().unwrap_or_else(PoisonError::into_inner) = Some(ends);
        shared.queue.nudge();
    }
}
