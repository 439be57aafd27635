//! Pipelines in this process: what Python describes, opened as the server opens it, and called from threads and event loops.
//!
//! It schedules nothing; the batchers do. Its invariants: no thread that waits for the interpreter holds a lock, and under those that are
//! taken while the interpreter is held nobody runs Python; and nothing of a process is touched after a fork.

pub(crate) mod backend;
pub(crate) mod config;
mod inside;
mod keeping;
pub(crate) mod pipeline;
pub(crate) mod server;
mod stats;
mod torchpipe;
mod turns;
mod waiting;
