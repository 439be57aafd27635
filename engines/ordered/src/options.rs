//! How a store works, as its opener says.

use std::time::Duration;

use crate::{Acknowledge, Durability, Eviction};

/// How a store works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// When a put counts as done.
    pub durability: Durability,
    /// How often a log of durability "logged" is synced; only at segments' ends and the close where it is `None`.
    pub sync_every: Option<Duration>,
    /// Puts that may wait for the log thread, at least 1; beyond that they are [`crate::Busy`].
    pub queue_max: usize,
    /// Bytes of puts that may; a put that finds none waiting is taken whatever its size.
    pub queue_bytes_max: usize,
    /// Bytes of a log segment. A single put that is larger has a segment of its own.
    pub segment_bytes_max: u64,
    /// Memory that the entries may take, with what each takes beside its key and value; no limit where it is `None`. Puts that
    /// make them grow beyond it are [`crate::WriteError::Full`]. What the log holds is read whatever it takes.
    pub memory_bytes_max: Option<u64>,
    /// What gives way before that.
    pub eviction: Eviction,
    /// Bytes of the log since the last checkpoint after which the next is written, and no fewer than the last one has.
    pub checkpoint_log_bytes: u64,
    /// The server whose records it keeps, as a word for messages: it takes no writes, only [`crate::Store::follow`] changes it. Not of a store
    /// without a log.
    pub follows: Option<String>,
    /// Whose log has a write before it is shown and answered, where the store leads. Not of a store without a log.
    pub acknowledge: Acknowledge,
    /// Of [`Acknowledge::Follower`]: how long a write waits for a follower before its outcome is unknown.
    pub acknowledge_within: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::Synced,
            sync_every: None,
            queue_max: 1024,
            queue_bytes_max: 64 << 20,
            segment_bytes_max: 256 << 20,
            memory_bytes_max: None,
            eviction: Eviction::None,
            checkpoint_log_bytes: 256 << 20,
            follows: None,
            acknowledge: Acknowledge::Leader,
            acknowledge_within: Duration::from_secs(5),
        }
    }
}
