//! Ordered, durable byte keys: write-ahead log, group commit, recovery.
//!
//! All data is in memory, in key order; the log is what survives. The engine sees neither sockets nor
//! wire types. Its one invariant: readers see, and callers learn, only what is as durable as
//! configured. The log is
//! `millpond-wal`'s; its bytes are drawn in docs/formats/ordered-log.md.
//!
//! ```
//! use millpond_engines_ordered::{Options, Put, Scan, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let parent = tempfile::tempdir()?;
//! # let dir = parent.path().join("events");
//! let (store, recovery) = Store::open(&dir, Options::default())?;
//! assert_eq!(recovery.records, 0);
//! let written = store.write_wait(Put {
//!     entries: vec![
//!         (b"u/196/0001".to_vec(), b"film 242".to_vec()),
//!         (b"u/196/0002".to_vec(), b"film 393".to_vec()),
//!     ],
//!     ..Put::default()
//! })?;
//! assert_eq!(written.versions, [1, 2]);
//! store.close()?;
//!
//! let (store, recovery) = Store::open(&dir, Options::default())?;
//! assert_eq!((recovery.records, recovery.entries), (1, 2));
//! let mut films = Vec::new();
//! let scan = Scan { prefix: Some(b"u/196/".to_vec()), limit: 50, ..Scan::default() };
//! let cursor = store.scan(&scan, &mut |_key, value| films.push(value.to_vec()));
//! assert_eq!(films, [b"film 242", b"film 393"]);
//! assert_eq!(cursor, None);
//! # Ok(())
//! # }
//! ```

mod batch;
mod change;
mod checkpoint;
mod clear;
mod commit;
mod counter;
mod decimal;
mod error;
mod evaluate;
mod eviction;
mod index;
mod inspect;
mod judge;
mod list;
mod memory;
mod metrics;
pub mod offline;
mod options;
mod plan;
mod put;
mod read;
mod record;
mod recover;
mod replay;
mod replication;
mod scan;
mod section;
mod space;
mod store;
mod sweep;
mod tree;
mod write;

pub use batch::{BATCH_OPERATIONS_MAX, Batch, Effect, ITEMS_MAX, Operation};
pub use checkpoint::Checkpoint;
pub use clear::{Step, were_there};
pub use error::{WriteError, WrongKind};
pub use eviction::{EVICTED_MAX, Eviction};
pub use index::Versioned;
pub use inspect::Inspected;
pub use list::{Kind, LIST_BYTES_MAX};
pub use millpond_wal::{Deadline, Durability, Error, Mark, TornTail, Wake};
pub use options::Options;
pub use put::{KEY_BYTES_MAX, PUT_BYTES_MAX, PUT_ENTRIES_MAX, Put, VALUE_BYTES_MAX};
pub use read::ReadError;
pub use recover::{FoundCheckpoint, Progress, Recovery, Report};
pub use replication::{
    Acknowledge, CopyAsk, CopyDone, CopyError, CopyProgress, FollowError, FollowerSeen, Incoming, Lag,
    NotLeader, Piece, Position, Pull, PullDone, PullError, Role, Shipment, TakeError, TakesCopy, Took,
    Unacknowledged, Wanted,
};
pub use scan::{Entry, Scan};
pub use section::Section;
pub use store::Store;
pub use write::{Busy, Done, Write, Written};
