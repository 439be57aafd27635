//! Callers that behave: what they are answered is checked.

mod builds;
mod callers;
mod lookups;
mod readers;
mod switches;
mod writers;

pub use builds::run as build;
pub use callers::run as call;
pub use lookups::run as look_up;
pub use readers::run as read;
pub use switches::run as switch;
pub use writers::run as write;

/// Codes that tell a caller to try again, which any fault may cause.
pub const TRY_AGAIN: &[u64] = &[20014, 30101, 30102, 30103];
/// Codes that a failing disk causes besides, of puts.
pub const DISK: &[u64] = &[30107, 30111, 30113, 30114];
