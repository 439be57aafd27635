//! What a client thread shows while it runs, for a progress line and a series by the second.
//!
//! Plain relaxed atomics that one thread writes: readers see recent figures, never exact ones. Nothing is derived from
//! these but the progress line and the wait for a stationary state; results come from the [`crate::Tally`]. Its invariant:
//! each figure has one writer.

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
    /// Requests handed to the kernel.
    pub sent: AtomicU64,
    /// Requests sent and not answered, now.
    pub outstanding: AtomicU64,
    /// Nanoseconds of latency of the answers, summed: two readings give the mean of the time between them.
    pub latency_ns_sum: AtomicU64,
    /// The 99th percentile in microseconds, refreshed about once a second; 0 while too few samples stand behind it.
    pub us_p99: AtomicU64,
}

impl Live {
    /// Adds one to a figure that only the calling thread writes; cheaper than an atomic addition.
    #[inline]
    pub fn bump(figure: &AtomicU64) {
        Live::add(figure, 1);
    }

    /// Adds `more` to a figure that only the calling thread writes; it wraps.
    #[inline]
    pub fn add(figure: &AtomicU64, more: u64) {
        figure.store(figure.load(Relaxed).wrapping_add(more), Relaxed);
    }
}
