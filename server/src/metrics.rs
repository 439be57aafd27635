//! What the server counts of its calls, and how `/metrics` prints it.
//!
//! Engines and transport count for themselves; here their figures get names. Its invariant: counting a call is a few
//! relaxed additions and no lock. Source of the text format: Prometheus exposition format 0.0.4.

mod histogram;

use crate::methods::{Method, Methods};
use histogram::Histogram;
use millpond_wire_schema::{Code, Status};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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

/// One method's counts.
#[derive(Debug, Default)]
struct Calls {
    answered: AtomicU64,
    latency: Histogram,
    errors: [AtomicU64; Code::ALL.len()],
}

/// All methods' counts.
#[derive(Debug)]
pub struct Metrics {
    calls: Vec<Calls>,
    stages: [Histogram; Stage::ALL.len()],
    unknown_methods: AtomicU64,
}

impl Metrics {
    /// Nothing counted yet, for so many methods.
    pub fn new(methods: usize) -> Metrics {
        Metrics {
            calls: std::iter::repeat_with(Calls::default).take(methods).collect(),
            stages: Default::default(),
            unknown_methods: AtomicU64::new(0),
        }
    }

    /// Counts a call that was answered with a result.
    pub fn answered(&self, method: Method, took: Duration) {
        let calls = &self.calls[method.index()];
        calls.answered.fetch_add(1, Ordering::Relaxed);
        calls.latency.add(took);
    }

    /// Counts what one call spent in a stage.
    pub fn spent(&self, stage: Stage, took: Duration) {
        self.stages[stage as usize].add(took);
    }

    /// Counts a call that was answered with an error.
    pub fn failed(&self, method: Method, status: &Status) {
        let at = Code::ALL
            .iter()
            .position(|code| *code == status.code)
            .unwrap_or(0);
        self.calls[method.index()].errors[at].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call to a method that does not exist.
    pub fn unknown(&self) {
        self.unknown_methods.fetch_add(1, Ordering::Relaxed);
    }

    /// Answered and failed calls of a method since start.
    pub fn totals(&self, method: Method) -> (u64, u64) {
        let calls = &self.calls[method.index()];
        let failed = calls
            .errors
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum();
        (calls.answered.load(Ordering::Relaxed), failed)
    }

    /// Prints all of it.
    pub fn print(&self, methods: &Methods, page: &mut Page) {
        page.family("millpond_calls_total", "counter", "Calls answered with a result.");
        for (method, name) in methods.all() {
            page.sample(
                "millpond_calls_total",
                &[("method", name)],
                self.totals(method).0 as f64,
            );
        }
        page.family(
            "millpond_errors_total",
            "counter",
            "Calls answered with an error, by code.",
        );
        for (method, name) in methods.all() {
            for (code, count) in Code::ALL.iter().zip(&self.calls[method.index()].errors) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let code = code.number().to_string();
                    page.sample(
                        "millpond_errors_total",
                        &[("method", name), ("code", &code)],
                        count as f64,
                    );
                }
            }
        }
        let unknown = self.unknown_methods.load(Ordering::Relaxed);
        page.single(
            "millpond_unknown_methods_total",
            "counter",
            "Calls to methods that do not exist.",
            unknown as f64,
        );
        self.print_times(methods, page);
    }

    fn print_times(&self, methods: &Methods, page: &mut Page) {
        let calls = "millpond_call_seconds";
        page.family(calls, "histogram", "From the read of a call to its answer.");
        for (method, name) in methods.all() {
            let label = ("method", name);
            self.calls[method.index()].latency.print(page, calls, label);
        }
        let stages = "millpond_stage_seconds";
        page.family(
            stages,
            "histogram",
            "Parts of the time of answered infer and rank calls: from the read to the router (queue), from the batcher to the \
             run (batch_wait), the run, once a request (compute), from the ready answer to the kernel (write).",
        );
        for stage in Stage::ALL {
            self.stages[stage as usize].print(page, stages, ("stage", stage.name()));
        }
    }
}

/// A page of metrics as Prometheus reads it.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// Begins a family: its samples follow.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample. Labels hold names from the configuration, so quotes and backslashes are escaped.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (at, (key, label)) in labels.iter().enumerate() {
            let label = label
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.text, "{}{key}=\"{label}\"", if at == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::config::Config;

    fn methods() -> Methods {
        Methods::new(&Config::default())
    }

    #[test]
    fn buckets_hold_what_they_say() {
        let methods = methods();
        let metrics = Metrics::new(methods.len());
        let infer = methods.named("infer").unwrap();
        for us in [0, 1, 2, 3, 1024, 1025, u64::MAX / 2] {
            metrics.answered(infer, Duration::from_micros(us));
        }
        metrics.failed(infer, &Status::new(Code::Overloaded, ""));
        let mut page = Page::default();
        metrics.print(&methods, &mut page);
        let text = page.into_text();
        for expected in [
            "millpond_call_seconds_bucket{method=\"infer\",le=\"0.000001\"} 2",
            "millpond_call_seconds_bucket{method=\"infer\",le=\"0.000004\"} 4",
            "millpond_call_seconds_bucket{method=\"infer\",le=\"0.001024\"} 5",
            "millpond_call_seconds_bucket{method=\"infer\",le=\"0.002048\"} 6",
            "millpond_call_seconds_bucket{method=\"infer\",le=\"+Inf\"} 7",
            "millpond_errors_total{method=\"infer\",code=\"30101\"} 1",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
    }

    #[test]
    fn stages_have_sums_and_counts_of_their_own() {
        let methods = methods();
        let metrics = Metrics::new(methods.len());
        metrics.spent(Stage::BatchWait, Duration::from_nanos(300));
        metrics.spent(Stage::BatchWait, Duration::from_nanos(2001));
        metrics.spent(Stage::Compute, Duration::from_millis(2));
        let mut page = Page::default();
        metrics.print(&methods, &mut page);
        let text = page.into_text();
        for expected in [
            "# TYPE millpond_stage_seconds histogram",
            "millpond_stage_seconds_bucket{stage=\"batch_wait\",le=\"0.000001\"} 1",
            "millpond_stage_seconds_bucket{stage=\"batch_wait\",le=\"0.000002\"} 1",
            "millpond_stage_seconds_bucket{stage=\"batch_wait\",le=\"0.000004\"} 2",
            "millpond_stage_seconds_sum{stage=\"batch_wait\"} 0.000002301",
            "millpond_stage_seconds_count{stage=\"batch_wait\"} 2",
            "millpond_stage_seconds_sum{stage=\"compute\"} 0.002",
            "millpond_stage_seconds_count{stage=\"compute\"} 1",
            "millpond_stage_seconds_count{stage=\"queue\"} 0",
            "millpond_stage_seconds_count{stage=\"write\"} 0",
        ] {
            let line = format!("{expected}\n");
            assert!(text.contains(&line), "{expected} is not in\n{text}");
        }
    }
}
