//! Disks for tests: a disk that fails, a disk that records, and what a crash leaves of the latter.

pub(crate) mod failing;
pub(crate) mod recording;
pub(crate) mod survival;

use super::*;
