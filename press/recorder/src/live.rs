//! What a client thread shows while it runs, for a progress line and a series by the second.
//!
//! Plain relaxed atomics that one thread writes: readers see recent figures, never exact ones. Nothing is derived from
//! these but the progress line and the series; results come from the [`crate::Tally`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The figures of one thread so far.
#[derive(Debug, Default)]
#[repr(align(128))] // One cache line pair a thread: writers never share one.
pub struct Live {
    /// Connections that are up.
    pub connected: AtomicU64,
    /// Answers.
    pub answers: AtomicU64,
    /// Refusals.
    pub refused: AtomicU64,
    /// Wrong answers and errors.
    pub failed: AtomicU64,
    /// The 99th percentile in microseconds, refreshed about once a second; 0 while too few samples stand behind it.
    pub us_p99: AtomicU64,
}

impl Live {
    /// Adds one to a figure that only the calling thread writes; cheaper than an atomic addition.
    #[inline]
    pub fn bump(figure: &AtomicU64) {
        figure.store(figure.load(Relaxed) + 1, Relaxed);
    }
}
