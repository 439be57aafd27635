//! A write-ahead log: groups of records that are written at once, and what is left of them after a crash.
//!
//! Who keeps a log says what its records mean ([`Format`]); here they are bytes. The crate sees no engine and no socket. Its one
//! invariant: what [`read`] gives back is what [`Log::append`] reported as done, and perhaps one group more, but no hole and no
//! half of a record. The bytes are drawn in docs/formats/ordered-log.md.
//!
//! ```
//! use millpond_wal::{Body, Durability, Format, Log, RealDisk, read};
//! use std::sync::Arc;
//!
//! static FORMAT: Format = Format {
//!     keeper: "diary",
//!     magic: b"DIRY",
//!     version: 1,
//!     history_from: None,
//!     body_bytes_min: 0,
//!     body_bytes_max: 1 << 20,
//!     kinds: &[1],
//!     check: |_, _| Ok(()),
//!     number: "page",
//!     first_number: 0,
//!     may_begin_late: false,
//! };
//!
//! struct Line(&'static str);
//!
//! impl Body for Line {
//!     fn kind(&self) -> u8 { 1 }
//!     fn number(&self) -> u64 { 0 }
//!     fn bytes(&self) -> usize { self.0.len() }
//!     fn encode(&self, out: &mut Vec<u8>) { out.extend_from_slice(self.0.as_bytes()) }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let found = read(&FORMAT, dir.path(), &mut |_, page| Ok(page))?;
//! let mut log = Log::open(&FORMAT, Arc::new(RealDisk), dir.path(), Durability::Synced, 1 << 20, &found)?;
//! assert!(log.append(&[&Line("calm"), &Line("rain")]).is_ok());
//! log.finish()?;
//!
//! let mut lines = Vec::new();
//! read(&FORMAT, dir.path(), &mut |record, page| {
//!     lines.push((record.sequence, record.body.to_vec()));
//!     Ok(page)
//! })?;
//! assert_eq!(lines, [(1, b"calm".to_vec()), (2, b"rain".to_vec())]);
//! # Ok(())
//! # }
//! ```

mod clock;
mod closed;
pub mod disk;
mod durability;
mod epoch;
mod error;
#[cfg(feature = "faults")]
pub mod faults;
mod folder;
mod history;
mod log;
mod log_thread;
mod pace;
mod queue;
mod record;
mod recover;
mod segment;
mod settle;
mod standing;
mod tail;
mod waits;

pub use clock::Clock;
pub use closed::{Closed, Records};
pub use disk::{Disk, LogFile, RealDisk};
pub use durability::Durability;
pub use error::Error;
pub use folder::{create_dir, is_held, lock};
pub use history::History;
pub use log::{Failure, Log, ReadOnly, write_all};
pub use log_thread::LogThread;
pub use pace::{check_sync_every, next_group};
pub use queue::{Done, Notice, Pending, Queue, QueueError, Refused, Reply, Wake, Work, outcome_unknown};
pub use record::{Body, FRAME_BYTES, Fault, Format, Record, SEGMENT_HEADER_BYTES};
pub use recover::{
    Apply, Begin, BrokenRun, Recovered, TornTail, read, read_from, segment_path, segments, sync_segments,
};
pub use settle::sync_folders;
pub use tail::{Mark, Tail, Taken, records_in};
pub use waits::Deadline;
