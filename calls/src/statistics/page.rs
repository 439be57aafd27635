//! What a page of metrics has of the calls of a process.
//! Its invariant: a label is the name of a method of the table, a code, a reason or a part, and nothing that a caller sent.

use super::{Split, Totals};
use crate::{Backing, Calls, Cost, MethodId};
use millpond_metrics::{Kind, Metric, Samples, Times};
use millpond_wire_schema::Code;
use std::sync::atomic::Ordering;

/// Why a call got no work done, as a page groups the codes.
const REFUSALS: [(&str, Code); 8] = [
    ("overloaded", Code::Overloaded),
    ("deadline", Code::DeadlinePassed),
    ("stopping", Code::Stopping),
    ("not_ready", Code::NotReady),
    ("forbidden", Code::Forbidden),
    ("unauthenticated", Code::Unauthenticated),
    ("too_large", Code::TooLarge),
    ("client_gone", Code::ConnectionClosed),
];

/// What all threads have counted of calls, at one moment.
pub struct CallCounts {
    methods: Vec<(String, Totals)>,
    /// Of calls to models, in the order of time.
    stages: [(&'static str, Times); 4],
    /// To methods that do not exist.
    unknown: u64,
    too_late: u64,
    /// Refused before their methods were known.
    unfinished: u64,
    slow: u64,
}

impl CallCounts {
    /// All of it, beside the requests that were refused `unfinished`, before their methods were known.
    pub fn read<S: Backing>(calls: &Calls<S>, unfinished: u64) -> CallCounts {
        let (statistics, methods) = (&calls.statistics, &calls.methods);
        let of = |(method, name): (MethodId, &str)| (name.to_owned(), statistics.totals(method));
        let mut counts = CallCounts {
            methods: methods.all().map(of).collect(),
            stages: ["queue", "batch_wait", "compute", "write"].map(|stage| (stage, Times::default())),
            unknown: 0,
            too_late: 0,
            unfinished,
            slow: calls.slow.noted.load(Ordering::Relaxed),
        };
        let ids = methods.all().map(|(method, _)| method);
        let batched: Vec<MethodId> = ids
            .filter(|method| methods.entry(*method).cost == Cost::Batched)
            .collect();
        let [(_, queue), (_, batch_wait), (_, compute), (_, write)] = &mut counts.stages;
        statistics.registry.each(|cells| {
            for times in batched.iter().filter_map(|method| cells.of(*method).times()) {
                queue.add(&times.split[Split::Queue as usize]);
                write.add(&times.split[Split::Write as usize]);
            }
            batch_wait.add(&cells.batch_wait);
            compute.add(&cells.compute);
            counts.unknown += cells.unknown_methods.load(Ordering::Relaxed);
            counts.too_late += cells.too_late.load(Ordering::Relaxed);
        });
        counts
    }

    /// What a page has of it.
    pub const METRICS: &'static [Metric<CallCounts>] = &[
        Metric::samples(
            "millpond_calls_total",
            Kind::Counter,
            "Calls answered with a result.",
            |calls: &CallCounts, samples| {
                for (method, totals) in &calls.methods {
                    samples.add(&[("method", method)], totals.answered as f64);
                }
            },
        ),
        Metric::samples(
            "millpond_errors_total",
            Kind::Counter,
            "Calls answered with an error, by code.",
            |calls: &CallCounts, samples| {
                for (method, totals) in &calls.methods {
                    for (code, count) in &totals.errors {
                        samples.add(&[("method", method), ("code", &code.to_string())], *count as f64);
                    }
                }
            },
        ),
        Metric::counter(
            "millpond_unknown_methods_total",
            "Calls to methods that do not exist.",
            |calls: &CallCounts| calls.unknown as f64,
        ),
        Metric::samples(
            "millpond_refused_total",
            Kind::Counter,
            "Calls refused, by reason, over all methods.",
            CallCounts::refusals,
        ),
        Metric::counter(
            "millpond_slow_calls_total",
            "Calls that took longer than log.slow_ms.",
            |calls: &CallCounts| calls.slow as f64,
        ),
        Metric::samples(
            "millpond_call_seconds",
            Kind::Histogram,
            "From the read of a call to its answer. Calls that a net thread answers itself take its turn: their answers leave with it.",
            |calls: &CallCounts, samples| {
                for (method, totals) in &calls.methods {
                    samples.times(&[("method", method)], &totals.times);
                }
            },
        ),
        Metric::samples(
            "millpond_call_part_seconds",
            Kind::Histogram,
            "The same in its parts, where another thread answers: from the read to the service (queue), from the service to the ready \
             answer (work); and after it, from the ready answer to the kernel (write).",
            |calls: &CallCounts, samples| {
                for (method, totals) in &calls.methods {
                    for (split, times) in Split::NAMES.iter().zip(&totals.split) {
                        samples.times(&[("method", method), ("part", split)], times);
                    }
                }
            },
        ),
        Metric::samples(
            "millpond_stage_seconds",
            Kind::Histogram,
            "Parts of the time of answered infer and rank calls: from the read to the service (queue), from the batcher to the \
             run (batch_wait), the run, once a request (compute), from the ready answer to the kernel (write).",
            |calls: &CallCounts, samples| {
                for (stage, times) in &calls.stages {
                    samples.times(&[("stage", stage)], times);
                }
            },
        ),
    ];

    fn refusals(&self, samples: &mut Samples<'_>) {
        for (reason, code) in REFUSALS {
            let of = |totals: &Totals| totals.errors.get(&code.number()).copied().unwrap_or(0);
            let mut count: u64 = self.methods.iter().map(|(_, totals)| of(totals)).sum();
            if code == Code::Overloaded {
                // A reason of its own below; a thread may be between its two counts.
                count = count.saturating_sub(self.too_late);
            }
            samples.add(&[("reason", reason)], count as f64);
        }
        samples.add(&[("reason", "too_late")], self.too_late as f64);
        samples.add(&[("reason", "unknown_method")], self.unknown as f64);
        samples.add(&[("reason", "unfinished")], self.unfinished as f64);
    }
}
