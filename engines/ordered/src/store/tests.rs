//! The store on disks that fail: single failures, groups of puts, and random traces that end in crashes.

mod batches;
mod bed;
mod checkpoints;
mod copies;
mod eviction;
mod eviction_traces;
mod expiry;
mod failures;
mod groups;
mod late;
mod lists;
mod pace;
mod reserve;
mod sweeps;
mod traces;

use super::*;
