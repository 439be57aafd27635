//! Disks for tests: a disk that fails, a disk that records, and what a crash leaves of the latter.

pub mod failing;
pub mod recording;
pub mod survival;

/// What these disks draw from.
pub use rand::{RngExt, SeedableRng, rngs::StdRng};
