//! What the server counts of its calls, and how `/metrics` prints it.
//!
//! Engines and transport count for themselves; here their figures get names. Its invariant: counting a call writes to cells
//! of the counting thread alone, and what is read is the exact sum over all threads.

mod cells;
mod histogram;
mod page;

use crate::methods::{Method, Methods};
use cells::{CallTimes, Registry};
pub(crate) use histogram::Times;
use histogram::{Histogram, bump};
use millpond_wire_schema::{Code, Status};
use millpond_wire_transport::Run;
pub use page::Page;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where the time of an answered call to a model goes, as far as it is measured: not its decoding, the stages of its
/// pipeline, nor the time in which its batch-mates are answered before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// From the read to the router: calls of the same read come first.
    Queue,
    /// From the batcher's taking it to the start of its run.
    BatchWait,
    /// The run it was part of, counted for each of its requests.
    Compute,
    /// From the answer's being ready to its bytes' being the kernel's: encoding, the mailbox, the socket.
    Write,
}

impl Stage {
    /// All of them, in the order of time.
    pub const ALL: [Stage; 4] = [Stage::Queue, Stage::BatchWait, Stage::Compute, Stage::Write];

    /// Its name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Queue => "queue",
            Stage::BatchWait => "batch_wait",
            Stage::Compute => "compute",
            Stage::Write => "write",
        }
    }
}

/// The parts of any method's time.
///
/// Echoes and constant answers of one read that follow each other are one run ([`Run`]), at whose two ends the clock is looked at:
/// their answers are ready when the last is, each has an equal part of the run as its work, and waited for the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// From the read to the router; of a call in a run, all of its time that is not work.
    Queue,
    /// From the router to the ready answer; of a call in a run, its part of that.
    Work,
    /// From the ready answer to its last byte's being the kernel's; not of its time, which ends with the ready answer.
    Write,
}

impl Split {
    /// All of them, in the order of time.
    pub const ALL: [Split; 3] = [Split::Queue, Split::Work, Split::Write];

    /// Its name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Split::Queue => "queue",
            Split::Work => "work",
            Split::Write => "write",
        }
    }
}

/// Which method was called, and when.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub(crate) method: Method,
    /// When the request's last byte was read.
    pub(crate) received: Instant,
    /// When the router had it, or the run began that it is one of.
    pub(crate) entered: Instant,
}

impl Arrival {
    /// From the read to the router.
    pub fn queue(&self) -> Duration {
        self.entered.saturating_duration_since(self.received)
    }
}

/// Why a call got no work done, as `/metrics` groups the codes.
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
    /// From the read to the ready answer, of answered calls.
    pub(crate) times: Times,
    /// The same in its parts, and what comes after.
    pub(crate) split: [Times; Split::ALL.len()],
    errors: BTreeMap<u32, u64>,
}

impl Totals {
    /// Calls answered with a result.
    pub(crate) fn answered(&self) -> u64 {
        self.times.count()
    }

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

    /// Counts a call whose result was ready at `ready`.
    pub fn answered(&self, arrival: &Arrival, ready: Instant) {
        if !self.is_on() {
            return;
        }
        let (queue, work) = (arrival.queue(), ready.saturating_duration_since(arrival.entered));
        self.registry.count(|cells| {
            let times: &CallTimes = cells.of(arrival.method).own_times();
            times.total.add(queue + work);
            times.split[Split::Queue as usize].add(queue);
            times.split[Split::Work as usize].add(work);
        });
    }

    /// Counts the answered calls of a run.
    pub(crate) fn ran(&self, method: Method, run: &Run) {
        if !self.is_on() || run.answered == 0 {
            return;
        }
        let (queue, work) = (run.queue(), run.work());
        self.registry.count(|cells| {
            let times: &CallTimes = cells.of(method).own_times();
            times.total.add_all(queue + work, run.answered);
            times.split[Split::Queue as usize].add_all(queue, run.answered);
            times.split[Split::Work as usize].add_all(work, run.answered);
        });
    }

    /// Counts how long so many answers were only to be written.
    pub(crate) fn wrote(&self, method: Method, took: Duration, answers: u32) {
        if self.is_on() {
            self.registry.count(|cells| {
                cells.of(method).own_times().split[Split::Write as usize].add_all(took, answers);
            });
        }
    }

    /// Counts what one call spent in a stage.
    pub fn spent(&self, stage: Stage, took: Duration) {
        if self.is_on() {
            self.registry
                .count(|cells| cells.stages[stage as usize].add(took));
        }
    }

    /// Counts a call that was answered with an error.
    pub fn failed(&self, method: Method, status: &Status) {
        self.registry
            .count(|cells| bump(&cells.of(method).errors[status.code as usize], 1));
    }

    /// Counts a call to a method that does not exist.
    pub fn unknown(&self) {
        self.registry.count(cells::Cells::unknown);
    }

    /// Counts a call that is refused because its answer would come after its deadline; it is counted as failed besides.
    pub fn too_late(&self) {
        self.registry.count(cells::Cells::too_late);
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
            if let Some(times) = calls.times() {
                totals.times.merge(&times.total);
                for (sum, part) in totals.split.iter_mut().zip(&times.split) {
                    sum.merge(part);
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

    /// Prints all of it, beside the requests that were refused `unfinished`, before their methods were known.
    pub fn print(&self, methods: &Methods, unfinished: u64, page: &mut Page) {
        let totals: Vec<(&str, Totals)> = methods
            .all()
            .map(|(method, name)| (name, self.totals(method)))
            .collect();
        page.family("millpond_calls_total", "counter", "Calls answered with a result.");
        for (name, totals) in &totals {
            let answered = totals.answered() as f64;
            page.sample("millpond_calls_total", &[("method", name)], answered);
        }
        self.print_errors(&totals, unfinished, page);
        let calls = "millpond_call_seconds";
        page.family(calls, "histogram", "From the read of a call to its answer.");
        for (name, totals) in &totals {
            page.times(calls, &[("method", name)], &totals.times);
        }
        let parts = "millpond_call_part_seconds";
        page.family(
            parts,
            "histogram",
            "The same in its parts: from the read to the router (queue), from the router to the ready answer (work); and after it, \
             from the ready answer to the kernel (write). Short calls of one read have equal parts of their work.",
        );
        for (name, totals) in &totals {
            for (split, times) in Split::ALL.iter().zip(&totals.split) {
                page.times(parts, &[("method", name), ("part", split.name())], times);
            }
        }
        self.print_stages(page);
    }

    fn print_errors(&self, totals: &[(&str, Totals)], unfinished: u64, page: &mut Page) {
        let name = "millpond_errors_total";
        page.family(name, "counter", "Calls answered with an error, by code.");
        for (method, totals) in totals {
            for (code, count) in &totals.errors {
                let labels = [("method", *method), ("code", &code.to_string())];
                page.sample(name, &labels, *count as f64);
            }
        }
        let (mut unknown, mut too_late) = (0, 0);
        self.registry.each(|cells| {
            unknown += cells.unknown_methods.load(Ordering::Relaxed);
            too_late += cells.too_late.load(Ordering::Relaxed);
        });
        page.single(
            "millpond_unknown_methods_total",
            "counter",
            "Calls to methods that do not exist.",
            unknown as f64,
        );
        let name = "millpond_refused_total";
        page.family(name, "counter", "Calls refused, by reason, over all methods.");
        for (reason, code) in REFUSALS {
            let of = |totals: &Totals| totals.errors.get(&code.number()).copied().unwrap_or(0);
            let mut count: u64 = totals.iter().map(|(_, totals)| of(totals)).sum();
            if code == Code::Overloaded {
                // A reason of its own below; a thread may be between its two counts.
                count = count.saturating_sub(too_late);
            }
            page.sample(name, &[("reason", reason)], count as f64);
        }
        page.sample(name, &[("reason", "too_late")], too_late as f64);
        page.sample(name, &[("reason", "unknown_method")], unknown as f64);
        page.sample(name, &[("reason", "unfinished")], unfinished as f64);
        page.single(
            "millpond_slow_calls_total",
            "counter",
            "Calls that took longer than log.slow_ms.",
            self.slow.load(Ordering::Relaxed) as f64,
        );
    }

    fn print_stages(&self, page: &mut Page) {
        let name = "millpond_stage_seconds";
        page.family(
            name,
            "histogram",
            "Parts of the time of answered infer and rank calls: from the read to the router (queue), from the batcher to the \
             run (batch_wait), the run, once a request (compute), from the ready answer to the kernel (write).",
        );
        for stage in Stage::ALL {
            let mut times = Times::default();
            self.registry.each(|cells| {
                let part: &Histogram = &cells.stages[stage as usize];
                times.merge(part);
            });
            page.times(name, &[("stage", stage.name())], &times);
        }
    }
}

#[cfg(test)]
mod tests;
