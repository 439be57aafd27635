//! What a batcher counts. Not a metrics exporter: the server gives these their names.
//! Invariant: every accepted request ends in exactly one of `answered`, `failed`,
//! `expired`, `abandoned` and `evicted`; every refused one that found the batcher
//! running is in one of `queue_full`, `queue_bytes` and `too_late`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A batcher's counters since its start, and what it holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Requests accepted.
    pub accepted: u64,
    /// Requests refused by [`crate::Batcher::submit`], for whatever reason.
    pub refused: u64,
    /// Of these, refused because the queue was full.
    pub queue_full: u64,
    /// Of these, refused because what waited and ran held too many bytes, or it alone did.
    pub queue_bytes: u64,
    /// Of these, refused because their deadline was expected to pass before their answer.
    pub too_late: u64,
    /// Accepted requests answered with outputs.
    pub answered: u64,
    /// Accepted requests answered with [`crate::Error::ModelFailed`].
    pub failed: u64,
    /// Accepted requests dropped unrun because their deadline passed.
    pub expired: u64,
    /// Accepted requests dropped unrun because their client went away.
    pub abandoned: u64,
    /// Accepted requests that made room for another source's.
    pub evicted: u64,
    /// Runs of the model, warm-up excluded.
    pub batches: u64,
    /// Rows of those runs.
    pub rows: u64,
    /// Runs that panicked.
    pub panics: u64,
    /// Times an idle instance was woken by a request.
    pub wakes: u64,
    /// Microseconds from submission to run, summed over requests that ran.
    pub queue_us_sum: u64,
    /// Microseconds of all runs.
    pub compute_us_sum: u64,
    /// Requests that wait now.
    pub queued: usize,
    /// Instances that are busy now.
    pub busy: usize,
}

/// The counters behind [`Stats`]; times in nanoseconds, so that short runs do not round to nothing.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub accepted: AtomicU64,
    pub refused: AtomicU64,
    pub queue_full: AtomicU64,
    pub queue_bytes: AtomicU64,
    pub too_late: AtomicU64,
    pub answered: AtomicU64,
    pub failed: AtomicU64,
    pub expired: AtomicU64,
    pub abandoned: AtomicU64,
    pub evicted: AtomicU64,
    pub batches: AtomicU64,
    pub rows: AtomicU64,
    pub panics: AtomicU64,
    pub queue_ns_sum: AtomicU64,
    pub compute_ns_sum: AtomicU64,
}

/// What the queue knows at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    pub queued: usize,
    pub busy: usize,
    pub wakes: u64,
}

/// Counters stand alone: no other memory is published with them, so relaxed is enough.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// Nanoseconds, saturating after 584 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Microseconds, saturating.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Counters {
    pub(super) fn clear(&self) {
        let Counters {
            accepted,
            refused,
            queue_full,
            queue_bytes,
            too_late,
            answered,
            failed,
            expired,
            abandoned,
            evicted,
            batches,
            rows,
            panics,
            queue_ns_sum,
            compute_ns_sum,
        } = self;
        for counter in [
            accepted,
            refused,
            queue_full,
            queue_bytes,
            too_late,
            answered,
            failed,
            expired,
            abandoned,
            evicted,
            batches,
            rows,
            panics,
            queue_ns_sum,
            compute_ns_sum,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self, load: Load) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            accepted: get(&self.accepted),
            refused: get(&self.refused),
            queue_full: get(&self.queue_full),
            queue_bytes: get(&self.queue_bytes),
            too_late: get(&self.too_late),
            answered: get(&self.answered),
            failed: get(&self.failed),
            expired: get(&self.expired),
            abandoned: get(&self.abandoned),
            evicted: get(&self.evicted),
            batches: get(&self.batches),
            rows: get(&self.rows),
            panics: get(&self.panics),
            wakes: load.wakes,
            queue_us_sum: get(&self.queue_ns_sum) / 1000,
            compute_us_sum: get(&self.compute_ns_sum) / 1000,
            queued: load.queued,
            busy: load.busy,
        }
    }
}
