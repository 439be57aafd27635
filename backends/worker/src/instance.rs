//! A model whose instances are worker processes: started, started again when they fail, and ended when they hang.
//!
//! It speaks through [`Running`]. Its invariants: a run ends, by its limit at the latest; and whatever a worker does, its failure is that
//! of the run that it was at.

use crate::backoff::Backoff;
use crate::log;
use crate::process::{Bounds, Failure, Running};
use millpond_backends_interface::{Error, Instance, Loss, Model, Signature};
use millpond_tensor::Tensor;
use millpond_threads::{LeftOut, LineLimit};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A run is not ended for its callers' deadline before this time: deadlines are the callers', and a worker serves all of them.
const RUN_MIN: Duration = Duration::from_millis(100);
/// And not before so many times what runs have lately taken.
const RUN_TIMES: u32 = 10;
/// Bytes of what a worker says that are passed on.
const SAID_BYTES_MAX: usize = 600;

/// How a worker is started, and its bounds.
pub struct Launch {
    /// The program; its standard input, output and error are set here.
    pub command: Box<dyn Fn() -> io::Result<Command> + Send + Sync>,
    /// What it is to load, in JSON.
    pub what: String,
    /// The file that errors name.
    pub path: PathBuf,
    /// How long it may load.
    pub start_max: Duration,
    /// How long a run may take, whatever its callers' deadlines are.
    pub run_max: Duration,
    /// Bytes of data that the process may have, its shared memory aside.
    pub memory_bytes_max: Option<u64>,
    /// Bytes that the inputs of a run may take, and its outputs.
    pub shared_bytes_max: usize,
    /// Whether a run takes several requests that are not joined ([`Model::takes_requests`]).
    pub takes_requests: bool,
}

impl Launch {
    fn start(&self) -> Result<Running, String> {
        let started = (self.command)().and_then(|command| {
            let about = self.path.display().to_string();
            Running::start(command, &self.what, self.memory_bytes_max, &about)
        });
        started.map_err(|error| format!("its worker process cannot be started: {error}"))
    }

    /// Starts a worker and waits until it has loaded the model.
    ///
    /// # Errors
    /// The model's own words about its failure, how the worker ended, or that it took too long.
    pub fn load(self) -> Result<Arc<dyn Model>, Error> {
        let failed = |problem: String, hint: &str| Error::Load {
            path: self.path.clone(),
            problem: bounded(&problem),
            hint: hint.to_owned(),
        };
        let mut first = self
            .start()
            .map_err(|problem| failed(problem, "look at the limits of this user's processes"))?;
        let signature = match first.ready(first.started + self.start_max) {
            Ok(signature) => signature,
            Err(failure) => {
                let (problem, hint) = self.not_loaded(failure, first.end());
                return Err(failed(problem, &hint));
            }
        };
        Ok(Arc::new(WorkerModel {
            shared: Arc::new(Shared {
                launch: self,
                signature,
                failures: LineLimit::default(),
                restarts: AtomicU64::new(0),
            }),
            first: Mutex::new(Some(first)),
        }))
    }

    /// Why a worker has not loaded the model, and a hint; `has_said`: it wrote something.
    fn not_loaded(&self, failure: Failure, has_said: bool) -> (String, String) {
        let hint = match has_said {
            true => format!("see what it wrote {}", log::place()),
            false => "it wrote nothing else".to_owned(),
        };
        match failure {
            Failure::Run(text) | Failure::Start(text) => (text, hint),
            Failure::Lost(how) | Failure::Hung(how) | Failure::Unasked(how) => {
                (format!("its worker process {how} while it loaded"), hint)
            }
            Failure::Late => (
                format!("it had not loaded after {} ms", self.start_max.as_millis()),
                match has_said {
                    true => format!("{hint}, or raise start_ms_max"),
                    false => "look why, or raise start_ms_max".to_owned(),
                },
            ),
        }
    }
}

/// What all instances share.
struct Shared {
    launch: Launch,
    signature: Signature,
    /// Bounds the log's lines about workers that failed.
    failures: LineLimit,
    /// Workers that were started in the place of others.
    restarts: AtomicU64,
}

struct WorkerModel {
    shared: Arc<Shared>,
    /// The worker that loading has started, for the first instance.
    first: Mutex<Option<Running>>,
}

impl Model for WorkerModel {
    fn signature(&self) -> &Signature {
        &self.shared.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut instance = WorkerInstance {
            shared: Arc::clone(&self.shared),
            has_started: first.is_some(),
            worker: first,
            backoff: Backoff::default(),
            lately: Duration::ZERO,
        };
        // Here, so that the first run need not wait for it.
        let until = Instant::now() + self.shared.launch.start_max;
        instance
            .have_ready(until)
            .map_err(|problem| Error::Run { problem })?;
        Ok(Box::new(instance))
    }

    /// A run waits for another process.
    fn runs_inline(&self) -> bool {
        false
    }

    fn takes_requests(&self) -> bool {
        self.shared.launch.takes_requests
    }

    fn worker_restarts(&self) -> u64 {
        self.shared.restarts.load(Ordering::Relaxed)
    }
}

struct WorkerInstance {
    shared: Arc<Shared>,
    /// `None` after a failure.
    worker: Option<Running>,
    /// It has had one.
    has_started: bool,
    backoff: Backoff,
    /// What runs have lately taken, long ones above all.
    lately: Duration,
}

impl Instance for WorkerInstance {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        self.run_by(inputs, None)
    }

    fn run_by(&mut self, inputs: Vec<Tensor>, deadline: Option<Instant>) -> Result<Vec<Tensor>, Error> {
        if !self.shared.launch.takes_requests {
            return self.try_run(deadline, |worker, bounds| worker.run(&inputs, bounds));
        }
        let mut results = self.results(&[inputs], deadline)?;
        let nothing = || Err("it gave nothing".to_owned());
        results
            .pop()
            .unwrap_or_else(nothing)
            .map_err(|problem| told_of(&problem))
    }

    fn run_requests(
        &mut self,
        requests: Vec<Vec<Tensor>>,
        deadline: Option<Instant>,
    ) -> Vec<Result<Vec<Tensor>, Error>> {
        match self.results(&requests, deadline) {
            Ok(results) => {
                let results = results.into_iter();
                results
                    .map(|result| result.map_err(|problem| told_of(&problem)))
                    .collect()
            }
            // One error, so that several requests are run apart.
            Err(error) => vec![Err(error)],
        }
    }
}

/// The failure of a run, or of one of its requests, in the worker's words.
fn told_of(problem: &str) -> Error {
    let problem = bounded(problem);
    Error::Run { problem }
}

fn lost(loss: Loss, problem: &str) -> Error {
    let problem = bounded(problem);
    Error::Lost { loss, problem }
}

impl WorkerInstance {
    /// What each of these requests comes to, by one run.
    fn results(
        &mut self,
        requests: &[Vec<Tensor>],
        deadline: Option<Instant>,
    ) -> Result<Vec<Result<Vec<Tensor>, String>>, Error> {
        self.try_run(deadline, |worker, bounds| worker.run_requests(requests, bounds))
    }

    fn try_run<T>(
        &mut self,
        deadline: Option<Instant>,
        run: impl Fn(&mut Running, &Bounds<'_>) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        match self.run_once(deadline, &run) {
            // It ended between two runs, or could not take this one: another one can.
            Err(Failure::Unasked(why)) => {
                self.tell(&format!("could not be asked any more: {why}"));
                self.worker = None;
                match self.run_once(deadline, &run) {
                    Err(Failure::Unasked(why)) => {
                        let problem = self.lost(&format!("cannot be asked: {why}"));
                        Err(lost(Loss::Crash, &problem))
                    }
                    other => self.told(other),
                }
            }
            other => self.told(other),
        }
    }

    /// One run of the worker that is there, or of the next one.
    fn run_once<T>(
        &mut self,
        deadline: Option<Instant>,
        run: impl Fn(&mut Running, &Bounds<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // Before it is a run that may hang, it is a worker that starts, for which no one waits beyond the deadline.
        let until = Instant::now() + self.shared.launch.start_max;
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        self.have_ready(until).map_err(Failure::Start)?;
        let shared = Arc::clone(&self.shared);
        let Some(worker) = self.worker.as_mut() else {
            return Err(Failure::Start("its worker process is gone".to_owned()));
        };
        let started = Instant::now();
        let bounds = Bounds {
            signature: &shared.signature,
            until: run_until(started, deadline, self.lately, shared.launch.run_max),
            bytes_max: shared.launch.shared_bytes_max,
        };
        let ran = run(worker, &bounds);
        match ran {
            Ok(_) => self.lately = recent(self.lately, started.elapsed()),
            Err(Failure::Late) => {
                let took = started.elapsed().as_millis();
                let how = format!("hung: it was ended after {took} ms in this run");
                return Err(Failure::Hung(how));
            }
            Err(_) => {}
        }
        ran
    }

    /// What the callers of a run are told, and what becomes of the worker.
    fn told<T>(&mut self, ran: Result<T, Failure>) -> Result<T, Error> {
        match ran {
            Ok(outputs) => {
                self.backoff.succeeded();
                Ok(outputs)
            }
            Err(Failure::Run(text)) => {
                self.backoff.succeeded();
                Err(told_of(&text))
            }
            Err(Failure::Start(text)) => Err(lost(Loss::Absent, &text)),
            Err(Failure::Lost(how) | Failure::Unasked(how)) => Err(lost(Loss::Crash, &self.lost(&how))),
            Err(Failure::Hung(how)) => Err(lost(Loss::Hang, &self.lost(&how))),
            Err(Failure::Late) => Err(lost(Loss::Hang, &self.lost("hung"))),
        }
    }

    /// Starts a worker, in the place of the one before if there was one.
    fn start(&mut self) -> Result<Running, String> {
        let started = self.shared.launch.start()?;
        if std::mem::replace(&mut self.has_started, true) {
            self.shared.restarts.fetch_add(1, Ordering::Relaxed);
        }
        Ok(started)
    }

    /// Has a worker that has loaded the model, waiting until then for that.
    fn have_ready(&mut self, until: Instant) -> Result<(), String> {
        if let Some(gone) = self.worker.as_ref().filter(|worker| worker.is_gone()) {
            let (how, was_ready) = (gone.how_it_ended(), gone.is_ready);
            if !was_ready {
                return Err(self.lost(&format!("{how} while it loaded")));
            }
            // It ended between two runs: no run failed by it.
            self.tell(&how);
            self.worker = None;
        }
        if self.worker.is_none() {
            let now = Instant::now();
            let wait = self.backoff.wait(now);
            if until.saturating_duration_since(now) < wait {
                return Err(format!(
                    "its worker process has failed {} times in a row and is started again in {} ms",
                    self.backoff.failures(),
                    wait.as_millis()
                ));
            }
            thread::sleep(wait);
            let started = self.start();
            self.worker = Some(started.inspect_err(|_| self.backoff.failed(Instant::now()))?);
        }
        let shared = Arc::clone(&self.shared);
        let worker = self.worker.as_mut().ok_or("its worker process is gone")?;
        if worker.is_ready {
            return Ok(());
        }
        let last = worker.started + shared.launch.start_max;
        match worker.ready(until.min(last)) {
            Ok(signature) if signature == shared.signature => Ok(()),
            Ok(_) => Err(self.lost("has another signature than before; load the model again")),
            Err(Failure::Run(text)) => Err(self.lost(&format!("cannot load the model: {text}"))),
            Err(Failure::Lost(how) | Failure::Hung(how) | Failure::Unasked(how) | Failure::Start(how)) => {
                Err(self.lost(&format!("{how} while it loaded")))
            }
            Err(Failure::Late) if Instant::now() >= last => Err(self.lost(&format!(
                "had not loaded after {} ms",
                shared.launch.start_max.as_millis()
            ))),
            Err(Failure::Late) => Err("its worker process is still starting".to_owned()),
        }
    }

    /// A worker is of no use any more: it is ended, and unless it fails again and again the next one starts at once, so that the next run
    /// finds it. What to tell the callers.
    fn lost(&mut self, how: &str) -> String {
        self.tell(how);
        self.worker = None;
        self.backoff.failed(Instant::now());
        if self.backoff.wait(Instant::now()).is_zero() {
            // A start that fails is told by the next run, which tries again.
            self.worker = self.start().ok();
        }
        format!("its worker process {how}; it is started again")
    }

    fn tell(&self, how: &str) {
        let Some(LeftOut(left_out)) = self.shared.failures.admits() else {
            return;
        };
        let (path, how) = (self.shared.launch.path.display(), bounded(how));
        let process = self.worker.as_ref().map(Running::pid);
        let failures = self.backoff.failures() + 1;
        tracing::error!(left_out, process, failures, "the worker process of {path} {how}");
    }
}

/// When a run that began at `started` is ended: at its callers' deadline, but not where runs simply take that long, and after `run_max` in
/// any case.
fn run_until(started: Instant, deadline: Option<Instant>, lately: Duration, run_max: Duration) -> Instant {
    let last = started + run_max;
    let least = started + RUN_MIN.max(lately.saturating_mul(RUN_TIMES)).min(run_max);
    deadline.map_or(last, |deadline| deadline.max(least).min(last))
}

/// What runs have lately taken, one more included: the longest, forgotten over some dozens of shorter ones.
fn recent(lately: Duration, took: Duration) -> Duration {
    took.max(lately.mul_f64(0.95))
}

/// One line of bounded length.
fn bounded(said: &str) -> String {
    let mut words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    words.retain(|letter| !letter.is_control());
    if words.len() > SAID_BYTES_MAX {
        let end = (0..=SAID_BYTES_MAX)
            .rev()
            .find(|end| words.is_char_boundary(*end));
        words.truncate(end.unwrap_or_default());
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_its_deadline_but_not_where_runs_take_that_long() {
        let started = Instant::now();
        let ms = Duration::from_millis;
        let check = |deadline: Option<u64>, lately: u64, expected: u64| {
            let deadline = deadline.map(|deadline| started + ms(deadline));
            let until = run_until(started, deadline, ms(lately), ms(10_000));
            assert_eq!(until - started, ms(expected));
        };
        check(None, 1, 10_000);
        check(Some(5_000), 1, 5_000);
        check(Some(20_000), 1, 10_000);
        // A caller that gives a run less than it takes does not end the worker of all.
        check(Some(1), 1, 100);
        check(Some(1), 50, 500);
        check(Some(1), 5_000, 10_000);
    }

    #[test]
    fn long_runs_are_forgotten_over_short_ones() {
        let ms = Duration::from_millis;
        assert_eq!(recent(ms(0), ms(3000)), ms(3000));
        let after = (0..100).fold(ms(3000), |lately, _| recent(lately, ms(5)));
        assert!(after < ms(20), "{after:?}");
    }

    #[test]
    fn words_of_a_worker_are_one_line() {
        assert_eq!(bounded("a\n b\u{7}\t c"), "a b c");
        assert!(bounded(&"ä".repeat(1000)).ends_with("ä…"));
    }
}
