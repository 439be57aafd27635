//! What a batcher counts, and under which names others see it.
//! Invariant: every request ends in exactly one count, `answered` or one cause of failure. An accepted one is never among the
//! causes of refusal: `queue_full`, `queue_bytes`, `too_late`, `standing` and `stopping`.

use super::state::filling;
use super::state::holding::Counts;
use crate::{Error, FailureCause};
use millpond_metrics::{Kind, Metric, OctaveHistogram, Octaves, Samples};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

millpond_metrics::counters! {
    /// A batcher's counters since its start, and what it holds now.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Stats {
        /// What a page and `*infos` have of each model.
        METRICS {
            pub answered: u64 = counter("millpond_model_requests_total",
                "Requests answered with outputs.").info("answered"),
            pub queue_full: u64 = counter("millpond_model_failed_total",
                "Requests without outputs, each by one cause. Refused: the queue was full.")
                .label("cause", "queue_full").info("queue_full"),
            pub queue_bytes: u64 = counter("millpond_model_failed_total",
                "Refused: what waited and ran held too many bytes, or would have with this one alone.")
                .label("cause", "queue_bytes").info("queue_bytes"),
            pub too_late: u64 = counter("millpond_model_failed_total",
                "Refused: the predicted wait and the run were longer than the deadline allowed.")
                .label("cause", "too_late").info("too_late"),
            pub standing: u64 = counter("millpond_model_failed_total",
                "Refused: in time for the deadline, but longer to wait than a queue that stands allows.")
                .label("cause", "standing").info("standing"),
            pub stopping: u64 = counter("millpond_model_failed_total",
                "Refused: the model was stopping.").label("cause", "stopping"),
            pub evicted: u64 = counter("millpond_model_failed_total",
                "Accepted requests that gave way to another connection's.").label("cause", "evicted").info("evicted"),
            pub expired: u64 = counter("millpond_model_failed_total",
                "Requests dropped unrun: deadline passed.").label("cause", "expired").info("expired"),
            pub abandoned: u64 = counter("millpond_model_failed_total",
                "Requests dropped unrun: client gone.").label("cause", "abandoned").info("abandoned"),
            pub failed_input: u64 = counter("millpond_model_failed_total",
                "Inputs that no run can have.").label("cause", "input"),
            pub failed_backend: u64 = counter("millpond_model_failed_total",
                "Runs: the backend's own errors.").label("cause", "backend"),
            pub failed_crash: u64 = counter("millpond_model_failed_total",
                "Runs in a process that ended.").label("cause", "crash"),
            pub failed_absent: u64 = counter("millpond_model_failed_total",
                "Runs that were not made, because no process was there.").label("cause", "absent"),
            pub failed_hang: u64 = counter("millpond_model_failed_total",
                "Runs that did not end in time, and were ended.").label("cause", "hang"),
            pub failed_panic: u64 = counter("millpond_model_failed_total",
                "Runs that panicked.").label("cause", "panic"),
            pub failed_output: u64 = counter("millpond_model_failed_total",
                "Outputs of another number, shape or type than the signature promises.").label("cause", "output"),
            pub failed_not_finite: u64 = counter("millpond_model_failed_total",
                "Outputs with a NaN or an infinity.").label("cause", "not_finite"),
            pub episodes: u64 = counter("millpond_model_standing_episodes_total",
                "Times a queue stood: long for a while, and refusing.").info("standing_episodes"),
            pub panics: u64 = counter("millpond_model_panics_total",
                "Runs that panicked, those of a batch that failed together included."),
            pub worker_restarts: u64 = counter("millpond_model_worker_restarts_total",
                "Worker processes that were started in the place of others.").info("worker_restarts"),
            pub padded_rows: u64 = counter("millpond_model_padded_rows_total",
                "Rows added to runs to reach one of batch_sizes.").info("padded_rows"),
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
            pub instances: usize = gauge("millpond_model_instances", "Instances, on all its devices.").info("instances"),
        }
        /// What `*infos` has in addition: sums of what a page has by cause, or in a histogram.
        SUMS {
            pub refused: u64 = counter("refused", "Requests refused when they came, for whatever reason.").info("refused"),
            pub failed: u64 = counter("failed", "Requests that ran, or were to, and have no outputs.").info("failed"),
            pub batches: u64 = counter("batches", "Runs.").info("batches"),
            pub rows: u64 = counter("rows", "Rows of all runs.").info("rows"),
        }
    }
    and {
        /// Requests accepted.
        pub accepted: u64,
        /// Times an idle instance was woken by a request.
        pub wakes: u64,
        /// Rows of each run.
        pub batch_rows: Octaves,
        /// Nanoseconds that each request waited for the run that gave it outputs.
        pub wait: Octaves,
        /// Nanoseconds of each run.
        pub compute: Octaves,
        /// Nanoseconds of making the batch, of each run for several requests.
        pub pre: Octaves,
        /// Nanoseconds of checking and handing out what a run gave, of each run that gave it.
        pub post: Octaves,
    }
}

type Read = fn(&Stats, &mut Samples<'_>);

impl Stats {
    /// What a page has in addition: histograms.
    pub const HISTOGRAMS: &'static [Metric<Stats>] = &[
        Stats::histogram(
            "millpond_model_batch_rows",
            "Rows of each run.",
            |stats, samples| {
                samples.octave_sizes(&[], &stats.batch_rows);
            },
        ),
        Stats::histogram(
            "millpond_model_wait_seconds",
            "From the submission of each request to the run that gave it outputs.",
            |stats, samples| samples.octave_times(&[], &stats.wait),
        ),
        Stats::histogram("millpond_model_compute_seconds", "Each run.", |stats, samples| {
            samples.octave_times(&[], &stats.compute);
        }),
        Stats::histogram(
            "millpond_model_pre_seconds",
            "Before each run for several requests: making one batch of their inputs.",
            |stats, samples| samples.octave_times(&[], &stats.pre),
        ),
        Stats::histogram(
            "millpond_model_post_seconds",
            "Behind each run that gave outputs: checking them and answering its requests, what they do on that thread included.",
            |stats, samples| samples.octave_times(&[], &stats.post),
        ),
    ];

    const fn histogram(name: &'static str, help: &'static str, read: Read) -> Metric<Stats> {
        Metric::samples(name, Kind::Histogram, help, read)
    }
}

macro_rules! counted {
    ($($name:ident,)*) => {
        /// The counters behind [`Stats`]; times in nanoseconds, so that short runs do not round to nothing.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub $name: AtomicU64,)*
            failed: [AtomicU64; FailureCause::COUNT],
            pub batch_rows: OctaveHistogram,
            pub wait: OctaveHistogram,
            pub compute: OctaveHistogram,
            pub pre: OctaveHistogram,
            pub post: OctaveHistogram,
        }

        impl Counters {
            pub(super) fn clear(&self) {
                let counts = [$(&self.$name,)*];
                let counts = counts.into_iter().chain(&self.failed);
                counts.for_each(|count| count.store(0, Ordering::Relaxed));
                let histograms = [&self.batch_rows, &self.wait, &self.compute, &self.pre, &self.post];
                histograms.into_iter().for_each(OctaveHistogram::clear);
            }
        }
    };
}

counted! {
    accepted, refused, queue_full, queue_bytes, too_late, standing, stopping, answered, expired, abandoned, evicted, padded_rows, panics,
}

/// What the queue knows at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occupancy {
    pub queued: usize,
    pub busy: usize,
    pub instances: usize,
    pub wakes: u64,
    pub counts: Counts,
    pub filling: filling::Counts,
    pub episodes: u64,
}

/// Counters stand alone: no other memory is published with them, so relaxed is enough.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// Microseconds, saturating.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Counters {
    /// Counts a run.
    pub(super) fn ran(&self, rows: usize, took: Duration) {
        self.batch_rows.add(rows as u64);
        self.compute.add_time(took);
    }

    /// Counts what was done before a run for several requests, since `began`, and behind it, until now.
    pub(super) fn around(&self, began: Instant, started: Instant, ended: Instant) {
        self.pre.add_time(started.saturating_duration_since(began));
        self.post.add_time(ended.elapsed());
    }

    /// Counts what a request that ran came to.
    pub(super) fn came_to<T>(&self, result: &Result<T, Error>) {
        match result {
            Ok(_) => add(&self.answered, 1),
            Err(error) => self.failed(error),
        }
    }

    /// Counts a request that the model failed, by the error's cause.
    fn failed(&self, error: &Error) {
        let cause = match error {
            Error::ModelFailed { cause, .. } => *cause,
            // They were counted when they were dropped.
            Error::ClientGone { .. } | Error::DeadlinePassed { .. } => return,
            _ => FailureCause::Backend,
        };
        add(&self.failed[cause as usize], 1);
    }

    pub(super) fn read(&self, occupancy: Occupancy, worker_restarts: u64) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let failed = |cause: FailureCause| get(&self.failed[cause as usize]);
        let batch_rows = self.batch_rows.read();
        Stats {
            accepted: get(&self.accepted),
            refused: get(&self.refused),
            queue_full: get(&self.queue_full),
            queue_bytes: get(&self.queue_bytes),
            too_late: get(&self.too_late),
            standing: get(&self.standing),
            answered: get(&self.answered),
            stopping: get(&self.stopping),
            failed: self.failed.iter().map(get).sum(),
            failed_input: failed(FailureCause::Input),
            failed_backend: failed(FailureCause::Backend),
            failed_crash: failed(FailureCause::Crash),
            failed_absent: failed(FailureCause::Absent),
            failed_hang: failed(FailureCause::Hang),
            failed_panic: failed(FailureCause::Panic),
            failed_output: failed(FailureCause::Output),
            failed_not_finite: failed(FailureCause::NotFinite),
            expired: get(&self.expired),
            abandoned: get(&self.abandoned),
            evicted: get(&self.evicted),
            batches: batch_rows.count(),
            rows: batch_rows.sum(),
            padded_rows: get(&self.padded_rows),
            batch_rows,
            wait: self.wait.read(),
            compute: self.compute.read(),
            pre: self.pre.read(),
            post: self.post.read(),
            worker_restarts,
            panics: get(&self.panics),
            wakes: occupancy.wakes,
            holds: occupancy.counts.holds,
            held_us_sum: micros(occupancy.counts.held),
            joined_rows: occupancy.counts.joined_rows,
            delays: occupancy.filling.delays,
            delayed_us_sum: micros(occupancy.filling.delayed),
            filled: occupancy.filling.filled,
            episodes: occupancy.episodes,
            queued: occupancy.queued,
            busy: occupancy.busy,
            instances: occupancy.instances,
        }
    }
}
