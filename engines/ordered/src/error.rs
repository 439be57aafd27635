//! Why writes are refused, and what each of their ends means.
//!
//! Invariant: an error says whether something was written, or may have been.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use millpond_wal::QueueError;

use crate::Error;
use crate::list::Kind;
use crate::record::FORMAT;
use crate::replication::{NotLeader, Unacknowledged};

/// Why a write was not acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// A condition does not hold. Versions count from 1; 0 is an absent key.
    #[error(
        "key {:?} is {}, and the write expects it to be {}; read it, then retry with what it is, or without the condition",
        KeyText(key),
        VersionText(*found),
        VersionText(*expected)
    )]
    Conflict {
        /// The first key that fails the condition.
        key: Vec<u8>,
        /// The version the write asked for.
        expected: u64,
        /// The version the key has.
        found: u64,
    },

    /// The key must be there, and is not.
    #[error(
        "key {:?} is not there, and the write expects it to be; put it without if_present",
        KeyText(key)
    )]
    Absent {
        /// The first such key.
        key: Vec<u8>,
    },

    /// What is asked of the key is not done with the kind of value that it holds.
    #[error(transparent)]
    WrongKind(#[from] WrongKind),

    /// A key, a value or the write is beyond its limit.
    #[error("{what}: {found}, at most {max} allowed; shorten or split it")]
    TooLarge {
        /// What is too large, with its unit.
        what: &'static str,
        /// Its size.
        found: usize,
        /// The limit.
        max: usize,
    },

    /// As many writes wait for the log as may; [`crate::Store::write`] says so by [`crate::Busy`], which leaves the write whole.
    #[error("{max} writes wait for the log already; try again later, or raise queue_max")]
    QueueFull {
        /// How many may.
        max: usize,
    },

    /// The writes that wait for the log hold too much for this one; said by [`crate::Busy`] too.
    #[error(
        "writes that wait for the log hold {waiting} bytes already, this one has {bytes}, and {max} are allowed; try again later, write less at once, or raise queue_bytes_max"
    )]
    QueueBytesFull {
        /// Bytes that wait.
        waiting: usize,
        /// Bytes of the write.
        bytes: usize,
        /// How many may wait.
        max: usize,
    },

    /// Writes wait for the log, have done so for long, and were refused: until the queue has drained it is shorter. Said by
    /// [`crate::Busy`] too.
    #[error(
        "more is written than the log takes: writes that wait hold {waiting} bytes already, this one has {bytes}, and {max} are allowed until it has drained; try again later, or write less"
    )]
    QueueStands {
        /// Bytes that wait.
        waiting: usize,
        /// Bytes of the write.
        bytes: usize,
        /// How many may wait.
        max: usize,
    },

    /// By what the log has taken so far, the write would be answered behind its deadline; nothing was written. Said by
    /// [`crate::Busy`] too.
    #[error(
        "the predicted wait for the store's log is {wait_us} us, the deadline is in {left_us} us; allow more time (_deadline_ms), or write less"
    )]
    TooLate {
        /// Microseconds until it would be answered.
        wait_us: u64,
        /// Microseconds until the deadline.
        left_us: u64,
    },

    /// The entries may take no more memory. Nothing was written.
    #[error(
        "the store is full: its entries take {bytes} bytes of memory, the write needs {more} more, and {max} are allowed; remove keys or write over what is there, or raise memory_bytes_max"
    )]
    Full {
        /// What the entries take now.
        bytes: u64,
        /// What the write would add.
        more: u64,
        /// The limit.
        max: u64,
    },

    /// The write has no entries or operations.
    #[error("nothing to write; send at least one entry or operation")]
    Empty,

    /// An entry that lasts no time at all.
    #[error("a time to live of 0 ms; expected at least 1, or remove the key")]
    NoTime,

    /// An append of nothing, or one that leaves nothing.
    #[error("an append without items, or with keep = 0; send at least one item, and keep at least one")]
    NoItems,

    /// What is to be incremented is no whole number, as text, of 64 bits.
    #[error(
        "key {:?} does not hold a whole number of 64 bits, so it cannot be incremented; put a number first",
        KeyText(key)
    )]
    NotANumber {
        /// The key.
        key: Vec<u8>,
    },

    /// What is to be incremented, or is to be added, is no decimal number as text.
    #[error(
        "key {:?} holds no decimal number, or none is to be added to it; expected text such as \"-12.5\", below 10^21, of at most 64 bytes",
        KeyText(key)
    )]
    NotADecimal {
        /// The key.
        key: Vec<u8>,
    },

    /// The sum of decimal numbers is too large.
    #[error(
        "the decimal number of key {:?} would have more than 21 digits before its point",
        KeyText(key)
    )]
    DecimalOverflow {
        /// The key.
        key: Vec<u8>,
    },

    /// The sum has more than 64 bits.
    #[error("key {:?} holds {value}, and {by} more does not fit 64 bits", KeyText(key))]
    Overflow {
        /// The key.
        key: Vec<u8>,
        /// What it holds.
        value: i64,
        /// What was to be added.
        by: i64,
    },

    /// The log could not be written. Nothing of the write is visible, or will be found when the store is
    /// opened again.
    #[error(transparent)]
    Storage(Arc<Error>),

    /// The log failed, and what was written could not be cut off again. The write is not
    /// visible; whether it is found when the store is opened again is unknown.
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(Arc<Error>),

    /// An earlier failure made the store read-only; nothing was attempted.
    #[error("write refused: {0}")]
    ReadOnly(Arc<Error>),

    /// It is in the log, and no follower is known to have it. It is not shown before one has it, or the store is opened again.
    #[error("the outcome of the write is unknown: {0}")]
    Unacknowledged(Unacknowledged),

    /// No follower has what was written before, and this store acknowledges nothing without. Nothing was written.
    #[error(
        "write refused: no follower has this store's last writes, and it acknowledges none before one has it (acknowledge = \"follower\"); nothing was written; let a follower connect and try again"
    )]
    NoFollower,

    /// Another server takes the store's writes. Nothing was written.
    #[error(transparent)]
    NotLeader(NotLeader),

    /// The store is closed or closing.
    #[error("write refused: the store is closed")]
    Closed,
}

impl From<QueueError> for WriteError {
    fn from(error: QueueError) -> WriteError {
        match error {
            QueueError::Full { max } => WriteError::QueueFull { max },
            QueueError::BytesFull { waiting, bytes, max } => {
                WriteError::QueueBytesFull { waiting, bytes, max }
            }
            QueueError::Stands { waiting, bytes, max } => WriteError::QueueStands { waiting, bytes, max },
            QueueError::TooLate { wait_us, left_us } => WriteError::TooLate { wait_us, left_us },
            QueueError::Closed => WriteError::Closed,
            QueueError::OutcomeUnknown(cause) => WriteError::OutcomeUnknown(cause),
            QueueError::Failed(cause) => WriteError::Storage(cause),
            // A further one is a refusal: nothing was written.
            _ => WriteError::Storage(Arc::new(Error::LogThreadDied)),
        }
    }
}

/// A key holds one kind of value where another is expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "wrong kind of value: key {:?} holds {}, and this is done with {} alone",
    KeyText(key),
    named(*found),
    named(match found { Kind::Bytes => Kind::List, Kind::List => Kind::Bytes })
)]
pub struct WrongKind {
    /// The key.
    pub key: Vec<u8>,
    /// What it holds.
    pub found: Kind,
}

fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Bytes => "bytes",
        Kind::List => "a list",
    }
}

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

/// A version for people; 0 is that of an absent key.
struct VersionText(u64);

impl fmt::Display for VersionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("absent"),
            version => write!(f, "at version {version}"),
        }
    }
}

pub(crate) fn at_most(what: &'static str, found: usize, max: usize) -> Result<(), WriteError> {
    if found > max {
        return Err(WriteError::TooLarge { what, found, max });
    }
    Ok(())
}

pub(crate) fn check_ttl(ttl_ms: Option<u64>) -> Result<(), WriteError> {
    match ttl_ms {
        Some(0) => Err(WriteError::NoTime),
        _ => Ok(()),
    }
}

/// What goes wrong with a store's folder.
pub(crate) fn folder_error(dir: &Path, action: &'static str, source: io::Error) -> Error {
    Error::Folder {
        keeper: FORMAT.keeper,
        dir: dir.to_owned(),
        action,
        source,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn conflict_shows_the_key_escaped_and_cut() {
        let error = WriteError::Conflict {
            key: vec![0xff; 100],
            expected: 0,
            found: 7,
        };
        let text = error.to_string();
        assert!(text.contains(r"\xff"), "{text}");
        assert!(text.contains("(100 bytes)"), "{text}");
        assert!(
            text.contains("is at version 7, and the write expects it to be absent;"),
            "{text}"
        );
    }
}
