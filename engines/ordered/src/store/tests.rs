//! The store on disks that fail: single failures, groups of puts, and random traces that end in crashes.

mod acknowledged;
mod batches;
mod bed;
mod checkpoints;
mod copies;
mod every_operation;
mod eviction;
mod eviction_traces;
mod expiry;
mod expiry_traces;
mod failures;
mod groups;
mod late;
mod lists;
mod pace;
mod reserve;
mod sweeps;
mod traces;

use super::*;
