//! The slow log: a line for each call that took longer than `log.slow_ms`, whatever the log's level.
//! Its invariant: while it is off, a call pays one look at a number.

use crate::Arrival;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Events of this target are written at every level.
pub const TARGET: &str = "millpond::slow";

/// The threshold.
#[derive(Debug)]
pub struct SlowLog {
    /// Milliseconds; 0: off.
    threshold_ms: AtomicU64,
    /// Calls that were slow.
    pub(crate) noted: AtomicU64,
}

/// Where the time of a call went that ran a model or a pipeline, as far as that is known when it is answered.
#[derive(Clone, Copy, Default)]
pub struct Spent<'a> {
    /// The models that it ran, together.
    pub model: Option<ModelTime>,
    /// The stages of its pipeline, as the slow log prints them.
    pub stages: Option<&'a dyn fmt::Display>,
}

/// What of the time of a call to a model is known beside its arrival: not its decoding, nor the time in which
/// its batch-mates are answered before it.
#[derive(Debug, Clone, Copy)]
pub struct ModelTime {
    /// From the batcher's taking it to the start of its run.
    pub batch_wait: Duration,
    /// The run it was part of, counted for each of its requests.
    pub compute: Duration,
}

impl SlowLog {
    /// Calls that take longer than `ms` are slow; 0: none is.
    pub fn new(ms: u64) -> SlowLog {
        SlowLog {
            threshold_ms: AtomicU64::new(ms),
            noted: AtomicU64::new(0),
        }
    }

    /// Changes the threshold.
    pub fn set_ms(&self, ms: u64) {
        self.threshold_ms.store(ms, Ordering::Relaxed);
    }

    /// The threshold in milliseconds.
    pub fn ms(&self) -> u64 {
        self.threshold_ms.load(Ordering::Relaxed)
    }

    /// Writes the line of a call of that method that was over at `at`, if it was slow; `code` is of the error it was answered
    /// with, or 0.
    pub(crate) fn note(
        &self,
        name: &str,
        arrival: &Arrival,
        at: Instant,
        trace: Option<&str>,
        code: u32,
        spent: Spent<'_>,
    ) {
        let Spent { model, stages } = spent;
        let threshold = self.ms();
        let took = at.saturating_duration_since(arrival.received);
        if threshold == 0 || took <= Duration::from_millis(threshold) {
            return;
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
            stages_ms = stages.map(|stages| stages.to_string()),
            trace,
            code,
            "slow"
        );
        self.noted.fetch_add(1, Ordering::Relaxed);
    }
}

/// Milliseconds with three places.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
