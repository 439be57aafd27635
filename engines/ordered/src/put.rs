//! A put: what is written, under which conditions, and how it ends.
//!
//! Not how it is written (`commit`, `log`). Invariant: a put that passes [`Put::check`] fits in one
//! record of the log.

use std::fmt;
use std::sync::Arc;

use millpond_wal::{QueueError, Work};

use crate::{Durability, Error};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 8 << 20;
/// The most bytes one put may carry: its keys and values, and 8 for each entry.
pub const PUT_BYTES_MAX: usize = 16 << 20;
/// The most entries one put may carry.
pub const PUT_ENTRIES_MAX: usize = 64 << 10;

/// One atomic write: all its entries or none, for readers and across a crash.
///
/// Both conditions are tested against every entry's key before the first entry is written. An
/// absent key has version 0, so `if_version: Some(0)` says the same as `if_absent`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Put {
    /// Keys and values, written in this order; of a repeated key the last one stays.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Write only if every key is at this version.
    pub if_version: Option<u64>,
    /// Write only if no key is there yet.
    pub if_absent: bool,
}

impl Put {
    /// Bytes of the entries as the log writes them.
    pub(crate) fn entries_bytes(&self) -> usize {
        self.entries
            .iter()
            .map(|(key, value)| key.len() + value.len() + 8)
            .sum()
    }

    pub(crate) fn is_conditional(&self) -> bool {
        self.if_absent || self.if_version.is_some()
    }

    pub(crate) fn check(&self) -> Result<(), PutError> {
        if self.entries.is_empty() {
            return Err(PutError::Empty);
        }
        at_most("entries of the put", self.entries.len(), PUT_ENTRIES_MAX)?;
        for (key, value) in &self.entries {
            at_most("bytes of a key", key.len(), KEY_BYTES_MAX)?;
            at_most("bytes of a value", value.len(), VALUE_BYTES_MAX)?;
        }
        at_most("bytes of the put", self.entries_bytes(), PUT_BYTES_MAX)
    }
}

fn at_most(what: &'static str, found: usize, max: usize) -> Result<(), PutError> {
    if found > max {
        return Err(PutError::TooLarge { what, found, max });
    }
    Ok(())
}

/// Called exactly once with a put's end.
///
/// It runs on the log thread, or, where a put is refused without any work (too large, empty, store
/// closed), on the caller's thread before [`crate::Store::put`] returns. It holds up every other
/// put while it runs: it must be short and must not call [`crate::Store::put_wait`].
pub type Done = millpond_wal::Done<Put>;

/// A put that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutOutcome {
    /// The version of each entry, in the put's order.
    pub versions: Vec<u64>,
    /// What the write has survived to: see [`Durability`].
    pub durability: Durability,
}

/// Why a put was not acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// A condition does not hold. Versions count from 1; 0 is an absent key.
    #[error(
        "key {:?} is at version {found}, the put expects {expected} (0 = absent); read it again and retry",
        KeyText(key)
    )]
    Conflict {
        /// The first key that fails the condition.
        key: Vec<u8>,
        /// The version the put asked for.
        expected: u64,
        /// The version the key has.
        found: u64,
    },

    /// A key, a value or the put is beyond its limit.
    #[error("{what}: {found}, at most {max} allowed; shorten or split it")]
    TooLarge {
        /// What is too large, with its unit.
        what: &'static str,
        /// Its size.
        found: usize,
        /// The limit.
        max: usize,
    },

    /// As many puts wait for the log as may; [`crate::Store::put`] says so by [`Busy`], which leaves the put whole.
    #[error("{max} puts wait for the log already; try again later, or raise queue_max")]
    QueueFull {
        /// How many may.
        max: usize,
    },

    /// The puts that wait for the log hold too much for this one; said by [`Busy`] too.
    #[error(
        "puts that wait for the log hold {waiting} bytes already, this one has {bytes}, and {max} are allowed; try again later, put less at once, or raise queue_bytes_max"
    )]
    QueueBytesFull {
        /// Bytes that wait.
        waiting: usize,
        /// Bytes of the put.
        bytes: usize,
        /// How many may wait.
        max: usize,
    },

    /// Puts wait for the log, have done so for long, and were refused: until the queue has drained it is shorter. Said by [`Busy`] too.
    #[error(
        "more is put than the log takes: puts that wait hold {waiting} bytes already, this one has {bytes}, and {max} are allowed until it has drained; try again later, or put less"
    )]
    QueueStands {
        /// Bytes that wait.
        waiting: usize,
        /// Bytes of the put.
        bytes: usize,
        /// How many may wait.
        max: usize,
    },

    /// The entries may take no more memory. Nothing was written.
    #[error(
        "the store is full: its entries take {bytes} bytes of memory, the put needs {more} more, and {max} are allowed; write over what is there, or raise memory_bytes_max"
    )]
    Full {
        /// What the entries take now.
        bytes: u64,
        /// What the put would add.
        more: u64,
        /// The limit.
        max: u64,
    },

    /// The put has no entries.
    #[error("the put has no entries; send at least one")]
    Empty,

    /// The log could not be written. Nothing of the put is visible, or will be found when the store is
    /// opened again.
    #[error(transparent)]
    Storage(Arc<Error>),

    /// The log failed, and what was written of the put could not be cut off again. The put is not
    /// visible; whether it is found when the store is opened again is unknown.
    #[error("the outcome of the put is unknown: {0}")]
    OutcomeUnknown(Arc<Error>),

    /// An earlier failure made the store read-only; nothing was attempted.
    #[error("put refused: {0}")]
    ReadOnly(Arc<Error>),

    /// The store is closed or closing.
    #[error("put refused: the store is closed")]
    Closed,
}

impl Work for Put {
    type Outcome = PutOutcome;
    type Error = PutError;

    fn bytes(&self) -> usize {
        self.entries_bytes()
    }
}

impl From<QueueError> for PutError {
    fn from(error: QueueError) -> PutError {
        match error {
            QueueError::Full { max } => PutError::QueueFull { max },
            QueueError::BytesFull { waiting, bytes, max } => PutError::QueueBytesFull { waiting, bytes, max },
            QueueError::Stands { waiting, bytes, max } => PutError::QueueStands { waiting, bytes, max },
            QueueError::Closed => PutError::Closed,
            QueueError::OutcomeUnknown(cause) => PutError::OutcomeUnknown(cause),
            QueueError::Failed(cause) => PutError::Storage(cause),
            // A further one is a refusal: nothing was written.
            _ => PutError::Storage(Arc::new(Error::LogThreadDied)),
        }
    }
}

/// The queue is full: the put and its `Done`, handed back uncalled.
pub struct Busy {
    /// The put as it came.
    pub put: Put,
    /// The callback, not called.
    pub done: Done,
    /// What is full: [`PutError::QueueFull`], [`PutError::QueueBytesFull`] or [`PutError::QueueStands`].
    pub error: PutError,
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Busy")
            .field("put", &self.put)
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

/// A key for people: its first bytes, unprintable ones escaped.
struct KeyText<'a>(&'a [u8]);

impl fmt::Debug for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 64;
        let shown = self.0.get(..SHOWN_MAX).unwrap_or(self.0);
        write!(f, "\"{}\"", shown.escape_ascii())?;
        if shown.len() < self.0.len() {
            write!(f, "… ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn check(entries: &[(usize, usize)], expected: &str) {
        let put = Put {
            entries: entries
                .iter()
                .map(|&(key, value)| (vec![b'k'; key], vec![b'v'; value]))
                .collect(),
            ..Put::default()
        };
        let found = put
            .check()
            .map_or_else(|error| error.to_string(), |()| "ok".into());
        assert_eq!(found, expected);
    }

    #[test]
    fn limits_are_inclusive() {
        check(&[(0, 0)], "ok");
        check(&[(KEY_BYTES_MAX, VALUE_BYTES_MAX)], "ok");
        check(&[], "the put has no entries; send at least one");
        check(
            &[(KEY_BYTES_MAX + 1, 0)],
            "bytes of a key: 65537, at most 65536 allowed; shorten or split it",
        );
        check(
            &[(1, 1), (0, VALUE_BYTES_MAX + 1)],
            "bytes of a value: 8388609, at most 8388608 allowed; shorten or split it",
        );
        check(&[(0, VALUE_BYTES_MAX), (0, VALUE_BYTES_MAX - 16)], "ok");
        check(
            &[(0, VALUE_BYTES_MAX), (1, VALUE_BYTES_MAX - 16)],
            "bytes of the put: 16777217, at most 16777216 allowed; shorten or split it",
        );
        check(
            &vec![(1, 0); PUT_ENTRIES_MAX + 1],
            "entries of the put: 65537, at most 65536 allowed; shorten or split it",
        );
    }

    #[test]
    fn conflict_shows_the_key_escaped_and_cut() {
        let error = PutError::Conflict {
            key: vec![0xff; 100],
            expected: 0,
            found: 7,
        };
        let text = error.to_string();
        assert!(text.contains(r"\xff"), "{text}");
        assert!(text.contains("(100 bytes)"), "{text}");
        assert!(text.contains("is at version 7"), "{text}");
    }
}
