//! Ordered stores under mixed load: what was written to them, exactly, and what may be read.
//!
//! A lane is a set of keys that one thread at a time writes, one write after the other, so a plain model says what each of them holds. A
//! write whose outcome nobody knows parks its lane until the store was started anew; then all of it is there, or nothing. Its
//! invariant: a lane that is written has no write in doubt.

mod book;
mod cells;
mod random;
pub(crate) mod read;
mod write;

pub use book::{Book, Lane, Promise, Together};
pub use cells::{Cell, Cells, Span, Value};
pub use random::{together, write};
pub use read::Found;
pub use write::{Condition, Operation, Write};

/// The stores of a life: one whose puts outlive the power, one whose puts need not.
pub const SYNCED: &str = "mixed_synced";
/// The other.
pub const LOGGED: &str = "mixed_logged";
/// Their folders, below that of a life.
pub const FOLDERS: [&str; 2] = ["store/mixed_synced", "store/mixed_logged"];
/// Keys that are always written by one batch: all of them hold the same number.
pub const TOGETHER: u64 = 6;
/// The counter that all writers add to.
pub const SHARED: &str = "shared";

/// What the keys of a lane begin with.
pub fn prefix(lane: u64) -> String {
    format!("lane/{lane:04}/")
}

/// One of the keys that are written together.
pub fn together_key(lane: u64, at: u64) -> String {
    format!("{}all/{at}", prefix(lane))
}
