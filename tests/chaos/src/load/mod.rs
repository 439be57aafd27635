//! Callers that behave: what they are answered is checked.

mod builds;
mod callers;
mod folds;
mod fresh;
mod lookups;
mod mixed;
mod readers;
mod reads;
mod switches;
mod upserts;
mod writers;

pub use builds::{Unbroken, run as build};
pub use callers::run as call;
pub use folds::{between as fold_between, run as fold};
pub use fresh::run as look_at_fresh;
pub use lookups::run as look_up;
pub(crate) use lookups::{bytes, floats};
pub(crate) use mixed::probe as probe_mixed;
pub use mixed::{Ground, checkpoint, read_mixed, write_mixed};
pub use readers::run as read;
pub(crate) use readers::text;
pub use switches::run as switch;
pub use upserts::run as upsert;
pub(crate) use upserts::upsert as upsert_once;
pub use writers::run as write;

/// Codes that tell a caller to try again, which any fault may cause.
pub const TRY_AGAIN: &[u64] = &[20014, 30101, 30102, 30103];
/// Codes that a failing disk causes besides, of puts.
pub const DISK: &[u64] = &[30107, 30111, 30113, 30114];
