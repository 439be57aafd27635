//! The slow log: a line for each call that took longer than `log.slow_ms`, whatever the log's level.
//! Its invariant: while it is off, a call pays one look at a number.

use crate::metrics::Arrival;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Events of this target are written at every level.
pub(crate) const TARGET: &str = "millpond::slow";

/// The threshold.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Nanoseconds; 0: off.
    threshold_ns: AtomicU64,
}

/// What of the time of a call to a model is known beside its arrival: not its decoding, the stages of its pipeline, nor the time in
/// which its batch-mates are answered before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelTime {
    /// From the batcher's taking it to the start of its run.
    pub(crate) batch_wait: Duration,
    /// The run it was part of, counted for each of its requests.
    pub(crate) compute: Duration,
}

impl SlowLog {
    /// Calls that take longer than `ms` are slow; 0: none is.
    pub(crate) fn new(ms: u64) -> SlowLog {
        let log = SlowLog {
            threshold_ns: AtomicU64::new(0),
        };
        log.set_ms(ms);
        log
    }

    /// Changes the threshold.
    pub(crate) fn set_ms(&self, ms: u64) {
        self.threshold_ns
            .store(ms.saturating_mul(1_000_000), Ordering::Relaxed);
    }

    /// The threshold in milliseconds.
    pub(crate) fn ms(&self) -> u64 {
        self.threshold_ns.load(Ordering::Relaxed) / 1_000_000
    }

    /// Whether any call can be slow.
    pub(crate) fn is_on(&self) -> bool {
        self.threshold_ns.load(Ordering::Relaxed) > 0
    }

    /// Writes the line of a slow call of that method that was over at `at`, and says whether it was one; `code` is of the error it
    /// was answered with, or 0.
    pub(crate) fn note(
        &self,
        name: &str,
        arrival: &Arrival,
        at: Instant,
        trace: Option<&str>,
        code: u32,
        model: Option<ModelTime>,
    ) -> bool {
        let threshold = self.threshold_ns.load(Ordering::Relaxed);
        let took = at.saturating_duration_since(arrival.received);
        if threshold == 0 || took <= Duration::from_nanos(threshold) {
            return false;
        }
        let queue = arrival.queue();
        tracing::warn!(
            target: TARGET,
            method = name,
            ms = ms(took),
            queue_ms = ms(queue),
            work_ms = ms(took.saturating_sub(queue)),
            batch_wait_ms = model.map(|model| ms(model.batch_wait)),
            compute_ms = model.map(|model| ms(model.compute)),
            trace,
            code,
            "slow"
        );
        true
    }
}

/// Milliseconds with three places.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
