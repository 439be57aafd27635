//! What a batcher counts, and under which names others see it.
//! Invariant: every accepted request ends in exactly one of `answered`, `failed`,
//! `expired`, `abandoned` and `evicted`; every refused one that found the batcher
//! running is in one of `queue_full`, `queue_bytes` and `too_late`; `standing` is a part of the last.

use super::state::filling;
use super::state::holding::Counts;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

millpond_metrics::counters! {
    /// A batcher's counters since its start, and what it holds now.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Stats {
        /// What a page and `*infos` have of each model.
        METRICS {
            pub answered: u64 = counter("millpond_model_requests_total",
                "Requests answered with outputs.").info("answered"),
            pub refused: u64 = counter("millpond_model_refused_total",
                "Requests refused when they came, for whatever reason.").info("refused"),
            pub queue_full: u64 = counter("millpond_model_queue_full_total",
                "Of these: the queue was full.").info("queue_full"),
            pub queue_bytes: u64 = counter("millpond_model_queue_bytes_total",
                "Of these: what waited and ran held too many bytes, or would have with this one alone.").info("queue_bytes"),
            pub too_late: u64 = counter("millpond_model_too_late_total",
                "Of these: the predicted wait and the run were longer than the deadline allowed, or the wait longer than may be in a queue that stands.").info("too_late"),
            pub standing: u64 = counter("millpond_model_standing_total",
                "Of these: in time for their deadline, but the queue stood.").info("standing"),
            pub episodes: u64 = counter("millpond_model_standing_episodes_total",
                "Times a queue stood: long for a while, and refusing.").info("standing_episodes"),
            pub evicted: u64 = counter("millpond_model_evicted_total",
                "Accepted requests that gave way to another connection's.").info("evicted"),
            pub expired: u64 = counter("millpond_model_expired_total",
                "Requests dropped unrun: deadline passed.").info("expired"),
            pub abandoned: u64 = counter("millpond_model_abandoned_total",
                "Requests dropped unrun: client gone.").info("abandoned"),
            pub failed: u64 = counter("millpond_model_failed_total", "Requests the model failed on."),
            pub panics: u64 = counter("millpond_model_panics_total", "Runs that panicked."),
            pub batches: u64 = counter("millpond_model_batches_total", "Runs.").info("batches"),
            pub rows: u64 = counter("millpond_model_rows_total", "Rows of all runs.").info("rows"),
            pub padded_rows: u64 = counter("millpond_model_padded_rows_total",
                "Rows that runs had besides, for their number to be one of batch_sizes.").info("padded_rows"),
            pub queue_us_sum: u64 = counter("millpond_model_queue_seconds_total",
                "Waiting for a run, summed over requests.").micros(),
            pub compute_us_sum: u64 = counter("millpond_model_compute_seconds_total",
                "Running, summed over runs.").micros(),
            pub holds: u64 = counter("millpond_model_holds_total",
                "Times an instance waited for callers that it had just answered.").info("holds"),
            pub held_us_sum: u64 = counter("millpond_model_held_seconds_total",
                "Waiting for such callers, summed over instances.").micros(),
            pub joined_rows: u64 = counter("millpond_model_joined_rows_total",
                "Rows of requests that came meanwhile.").info("joined_rows"),
            pub delays: u64 = counter("millpond_model_delays_total",
                "Times an instance waited for a batch to fill (batch_delay_us_max).").info("delays"),
            pub delayed_us_sum: u64 = counter("millpond_model_delayed_seconds_total",
                "Waiting for batches to fill, summed over instances.").micros(),
            pub filled: u64 = counter("millpond_model_filled_total",
                "Of these waits: the batch filled.").info("filled"),
            pub queued: usize = gauge("millpond_model_queued", "Requests waiting now."),
            pub busy: usize = gauge("millpond_model_busy", "Instances running now."),
        }
    }
    and {
        /// Requests accepted.
        pub accepted: u64,
        /// Times an idle instance was woken by a request.
        pub wakes: u64,
    }
}

macro_rules! counted {
    ($($name:ident,)*) => {
        /// The counters behind [`Stats`]; times in nanoseconds, so that short runs do not round to nothing.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub $name: AtomicU64,)*
        }

        impl Counters {
            pub(super) fn clear(&self) {
                $(self.$name.store(0, Ordering::Relaxed);)*
            }
        }
    };
}

counted! {
    accepted, refused, queue_full, queue_bytes, too_late, standing, answered, failed, expired, abandoned, evicted, batches, rows, padded_rows, panics,
    queue_ns_sum, compute_ns_sum,
}

/// What the queue knows at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occupancy {
    pub queued: usize,
    pub busy: usize,
    pub wakes: u64,
    pub counts: Counts,
    pub filling: filling::Counts,
    pub episodes: u64,
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
    pub(super) fn read(&self, occupancy: Occupancy) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            accepted: get(&self.accepted),
            refused: get(&self.refused),
            queue_full: get(&self.queue_full),
            queue_bytes: get(&self.queue_bytes),
            too_late: get(&self.too_late),
            standing: get(&self.standing),
            answered: get(&self.answered),
            failed: get(&self.failed),
            expired: get(&self.expired),
            abandoned: get(&self.abandoned),
            evicted: get(&self.evicted),
            batches: get(&self.batches),
            rows: get(&self.rows),
            padded_rows: get(&self.padded_rows),
            panics: get(&self.panics),
            wakes: occupancy.wakes,
            queue_us_sum: get(&self.queue_ns_sum) / 1000,
            compute_us_sum: get(&self.compute_ns_sum) / 1000,
            holds: occupancy.counts.holds,
            held_us_sum: micros(occupancy.counts.held),
            joined_rows: occupancy.counts.joined_rows,
            delays: occupancy.filling.delays,
            delayed_us_sum: micros(occupancy.filling.delayed),
            filled: occupancy.filling.filled,
            episodes: occupancy.episodes,
            queued: occupancy.queued,
            busy: occupancy.busy,
        }
    }
}
