//! What the server counts of its calls, and what a page has of it.
//!
//! It counts nothing but calls. Its invariant: counting a call writes to cells
//! of the counting thread alone, and what is read is the exact sum over all threads.

mod cells;
mod turn;

pub(crate) use turn::Turn;

use crate::methods::{Method, Methods};
use crate::slow::ModelTime;
use cells::{CallTimes, Registry};
use millpond_metrics::{Kind, Metric, Samples, Times, bump};
use millpond_wire_schema::{Code, Infer, Method as _, Rank, Status};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The methods that call models.
const OF_MODELS: [&str; 2] = [Infer::NAME, Rank::NAME];

/// The parts of the time of calls that other threads answer. Those that a net thread answers itself take its turn, which has no
/// parts: they are answered when it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// From the read to the router.
    Queue,
    /// From the router to the ready answer.
    Work,
    /// From the ready answer to its last byte's being the kernel's; not of its time, which ends with the ready answer.
    Write,
}

impl Split {
    /// Their names on the page, in the order of time.
    pub const NAMES: [&str; 3] = ["queue", "work", "write"];
}

/// Which method was called, and when.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub(crate) method: Method,
    /// When the request's last byte was read.
    pub(crate) received: Instant,
    /// When the router had it; of a call that is answered at once, when the clock was last read before that.
    pub(crate) entered: Instant,
    /// The server called itself: the call is counted and logged nowhere.
    pub(crate) is_own: bool,
}

impl Arrival {
    /// From the read to the router.
    pub fn queue(&self) -> Duration {
        self.entered.saturating_duration_since(self.received)
    }
}

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

/// What is known of one method.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Calls answered with a result.
    pub(crate) answered: u64,
    /// From the read to the answer, of answered calls: those of a turn are told when it ends.
    pub(crate) times: Times,
    /// The same in its parts, and what comes after.
    pub(crate) split: [Times; Split::NAMES.len()],
    errors: BTreeMap<u32, u64>,
}

impl Totals {
    /// Calls answered with an error.
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// All methods' counts.
#[derive(Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// Whether answered calls are counted; errors always are.
    on: AtomicBool,
    /// Seldom, so one for all threads.
    slow: AtomicU64,
}

impl Metrics {
    /// Nothing counted yet, for so many methods.
    pub fn new(methods: usize) -> Metrics {
        Metrics {
            registry: Registry::new(methods),
            on: AtomicBool::new(true),
            slow: AtomicU64::new(0),
        }
    }

    /// Counts a call of another thread's whose result was ready at `ready`.
    pub(crate) fn answered(&self, arrival: &Arrival, ready: Instant, model: Option<ModelTime>) {
        if !self.is_on() {
            return;
        }
        let (queue, work) = (arrival.queue(), ready.saturating_duration_since(arrival.entered));
        self.registry.count(|cells| {
            let calls = cells.of(arrival.method);
            bump(&calls.answered, 1);
            let times: &CallTimes = calls.own_times();
            times.total.add(queue + work);
            times.split[Split::Queue as usize].add(queue);
            times.split[Split::Work as usize].add(work);
            if let Some(model) = model {
                cells.batch_wait.add(model.batch_wait);
                cells.compute.add(model.compute);
            }
        });
    }

    /// Counts a call that is answered in this turn, which [`Metrics::timed`] is told of when it ends; false if it is not counted.
    pub(crate) fn answered_at_once(&self, method: Method) -> bool {
        let is_on = self.is_on();
        if is_on {
            self.registry.count(|cells| bump(&cells.of(method).answered, 1));
        }
        is_on
    }

    /// Counts what each of so many calls took that were answered in one turn.
    pub(crate) fn timed(&self, method: Method, took: Duration, calls: u32) {
        self.registry
            .count(|cells| cells.of(method).own_times().total.add_all(took, calls));
    }

    /// Counts how long an answer was only to be written.
    pub(crate) fn wrote(&self, method: Method, took: Duration) {
        if self.is_on() {
            self.registry.count(|cells| {
                cells.of(method).own_times().split[Split::Write as usize].add(took);
            });
        }
    }

    /// Counts a call that was answered with an error.
    pub fn failed(&self, method: Method, status: &Status) {
        self.registry
            .count(|cells| bump(&cells.of(method).errors[status.code as usize], 1));
    }

    /// Counts a call to a method that does not exist.
    pub fn unknown(&self) {
        self.registry.count(|cells| bump(&cells.unknown_methods, 1));
    }

    /// Counts a call that is refused because its answer would come after its deadline; it is counted as failed besides.
    pub fn too_late(&self) {
        self.registry.count(|cells| bump(&cells.too_late, 1));
    }

    /// Counts a call that was slow.
    pub fn slow(&self) {
        self.slow.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether answered calls are counted.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Counts answered calls from now on, or no more.
    pub fn set_on(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// One method's figures since start.
    pub(crate) fn totals(&self, method: Method) -> Totals {
        let mut totals = Totals::default();
        self.registry.each(|cells| {
            let calls = cells.of(method);
            totals.answered += calls.answered.load(Ordering::Relaxed);
            if let Some(times) = calls.times() {
                totals.times.add(&times.total);
                for (sum, part) in totals.split.iter_mut().zip(&times.split) {
                    sum.add(part);
                }
            }
            for (code, count) in Code::ALL.iter().zip(&calls.errors) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    *totals.errors.entry(code.number()).or_default() += count;
                }
            }
        });
        totals
    }

    /// All of it, beside the requests that were refused `unfinished`, before their methods were known.
    pub(crate) fn calls(&self, methods: &Methods, unfinished: u64) -> Calls {
        let of = |(method, name): (Method, &str)| (name.to_owned(), self.totals(method));
        let mut calls = Calls {
            methods: methods.all().map(of).collect(),
            stages: ["queue", "batch_wait", "compute", "write"].map(|stage| (stage, Times::default())),
            unknown: 0,
            too_late: 0,
            unfinished,
            slow: self.slow.load(Ordering::Relaxed),
        };
        let of_models = OF_MODELS.map(|name| methods.named(name));
        let [(_, queue), (_, batch_wait), (_, compute), (_, write)] = &mut calls.stages;
        self.registry.each(|cells| {
            for times in of_models
                .iter()
                .flatten()
                .filter_map(|method| cells.of(*method).times())
            {
                queue.add(&times.split[Split::Queue as usize]);
                write.add(&times.split[Split::Write as usize]);
            }
            batch_wait.add(&cells.batch_wait);
            compute.add(&cells.compute);
            calls.unknown += cells.unknown_methods.load(Ordering::Relaxed);
            calls.too_late += cells.too_late.load(Ordering::Relaxed);
        });
        calls
    }
}

/// What all threads have counted of calls, at one moment.
pub(crate) struct Calls {
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

impl Calls {
    pub(crate) const METRICS: &'static [Metric<Calls>] = &[
        Metric::samples(
            "millpond_calls_total",
            Kind::Counter,
            "Calls answered with a result.",
            |calls: &Calls, samples| {
                for (method, totals) in &calls.methods {
                    samples.add(&[("method", method)], totals.answered as f64);
                }
            },
        ),
        Metric::samples(
            "millpond_errors_total",
            Kind::Counter,
            "Calls answered with an error, by code.",
            |calls: &Calls, samples| {
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
            |calls: &Calls| calls.unknown as f64,
        ),
        Metric::samples(
            "millpond_refused_total",
            Kind::Counter,
            "Calls refused, by reason, over all methods.",
            Calls::refusals,
        ),
        Metric::counter(
            "millpond_slow_calls_total",
            "Calls that took longer than log.slow_ms.",
            |calls: &Calls| calls.slow as f64,
        ),
        Metric::samples(
            "millpond_call_seconds",
            Kind::Histogram,
            "From the read of a call to its answer. Calls that a net thread answers itself take its turn: their answers leave with it.",
            |calls: &Calls, samples| {
                for (method, totals) in &calls.methods {
                    samples.times(&[("method", method)], &totals.times);
                }
            },
        ),
        Metric::samples(
            "millpond_call_part_seconds",
            Kind::Histogram,
            "The same in its parts, where another thread answers: from the read to the router (queue), from the router to the ready \
             answer (work); and after it, from the ready answer to the kernel (write).",
            |calls: &Calls, samples| {
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
            "Parts of the time of answered infer and rank calls: from the read to the router (queue), from the batcher to the \
             run (batch_wait), the run, once a request (compute), from the ready answer to the kernel (write).",
            |calls: &Calls, samples| {
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

#[cfg(test)]
mod tests;
