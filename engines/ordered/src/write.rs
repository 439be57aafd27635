//! What waits for the log: a put or a batch, and its end.
//!
//! Invariant: a write is answered once, by a [`Written`] or a [`WriteError`].

use std::fmt;

use millpond_wal::Work;

use crate::Durability;
use crate::batch::{Batch, Effect, Operation};
use crate::error::WriteError;
use crate::put::Put;

/// One atomic write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Entries under common conditions.
    Put(Put),
    /// Mixed operations.
    Batch(Batch),
}

/// Called exactly once with a write's end.
///
/// It runs on the log thread, or, where a write is refused without any work (too large, empty, store
/// closed) or made at once (no log), on the caller's thread before [`crate::Store::write`] returns. It holds up every other
/// write while it runs: it must be short and must not call [`crate::Store::write_wait`].
pub type Done = millpond_wal::Done<Write>;

/// A write that took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Of a put: the version of each entry, in its order.
    pub versions: Vec<u64>,
    /// Of a batch: what each operation found or did, in its order.
    pub effects: Vec<Effect>,
    /// What the write has survived to: see [`Durability`].
    pub durability: Durability,
}

impl From<Put> for Write {
    fn from(put: Put) -> Write {
        Write::Put(put)
    }
}

impl From<Batch> for Write {
    fn from(batch: Batch) -> Write {
        Write::Batch(batch)
    }
}

impl Write {
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        match self {
            Write::Put(put) => put.check(),
            Write::Batch(batch) => batch.check(),
        }
    }

    /// Whether it may change anything.
    pub(crate) fn changes(&self) -> bool {
        match self {
            Write::Put(_) => true,
            Write::Batch(batch) => batch.operations.iter().any(Operation::changes),
        }
    }

    /// Whether what becomes of it depends on what keys hold.
    pub(crate) fn reads(&self) -> bool {
        match self {
            Write::Put(put) => put.reads(),
            Write::Batch(batch) => !batch.operations.iter().all(Operation::is_blind),
        }
    }

    /// Keys that it names, one for each time.
    pub(crate) fn operations(&self) -> usize {
        match self {
            Write::Put(put) => put.entries.len(),
            Write::Batch(batch) => batch.operations.len(),
        }
    }
}

impl Work for Write {
    type Outcome = Written;
    type Error = WriteError;

    fn bytes(&self) -> usize {
        match self {
            Write::Put(put) => put.entries_bytes(),
            Write::Batch(batch) => batch.bytes(),
        }
    }
}

/// The queue takes it not: the write and its `Done`, handed back uncalled.
pub struct Busy {
    /// The write as it came.
    pub write: Write,
    /// The callback, not called.
    pub done: Done,
    /// What is full: [`WriteError::QueueFull`], [`WriteError::QueueBytesFull`] or [`WriteError::QueueStands`]; or that it would come too
    /// late, [`WriteError::TooLate`].
    pub error: Box<WriteError>,
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Busy")
            .field("write", &self.write)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Busy {}
