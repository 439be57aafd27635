//! What an instance thread does: fetch a batch, run it, answer each of its requests.
//! It decides nothing about order. Its one invariant: whatever a model does, panics
//! included, the thread lives on and every request of the batch is answered.

mod alone;

use super::queue::{Cut, Dropped, Next, Waiting};
use super::stats::{add, micros};
use super::{Answer, Shared, Timing, batch, sizes};
use crate::{Error, FailureCause as Cause, affinity};
use millpond_backends_interface::{Error as ModelError, Instance, Loss as ModelLoss, Signature};
use millpond_tensor::Tensor;
use millpond_threads::{LeftOut, Panic, contain};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// The body of an instance thread: says through `ready` whether it could start, then
/// serves until the queue stops.
pub(super) fn run(shared: &Shared, number: usize, ready: SyncSender<Result<(), Error>>) {
    let mut runner = Runner {
        shared,
        number,
        instance: None,
        answered_from: None,
    };
    let started = runner.pin().and_then(|()| runner.build());
    let failed = started.is_err();
    drop(ready.send(started));
    drop(ready); // `Batcher::start` listens until nobody can report any more
    if failed {
        return;
    }
    let mut cut = Cut::default();
    let (mut seat, mut turn) = shared.queue.first(number, &mut cut);
    loop {
        match turn {
            Next::Serve => {
                runner.serve(&mut cut);
                cut.answered_from = runner.answered_from.take();
            }
            Next::WarmUp(errand) => errand.run(&mut runner),
            Next::Stop => return,
        }
        turn = shared.queue.next(&mut seat, &mut cut);
    }
}

/// Requests of a batch that failed which are run one by one rather than by halves.
const ONE_BY_ONE_MAX: usize = 4;

/// By what a run that requests shared lost the model; `None` where it did not.
type Loss = Option<Cause>;

/// That of a run which failed so.
fn loss_of(error: &Error) -> Loss {
    match error {
        &Error::ModelFailed { cause, .. } if matches!(cause, Cause::Crash | Cause::Hang | Cause::Panic) => {
            Some(cause)
        }
        _ => None,
    }
}

/// One run of the model and when it began.
struct Ran {
    outputs: Vec<Tensor>,
    started: Instant,
    took: Duration,
}

/// One thread's instance of the model.
pub(super) struct Runner<'a> {
    shared: &'a Shared,
    number: usize,
    /// `None` after a panic, until it is built again.
    pub(super) instance: Option<Box<dyn Instance>>,
    /// When the first run since it was looked at had ended.
    answered_from: Option<Instant>,
}

impl<'a> Runner<'a> {
    /// Runs the model on the thread that calls.
    pub(super) fn inline(shared: &'a Shared, instance: Option<Box<dyn Instance>>) -> Runner<'a> {
        let number = shared.options.instances;
        Runner {
            shared,
            number,
            instance,
            answered_from: None,
        }
    }

    /// Has an instance ready.
    pub(super) fn build(&mut self) -> Result<(), Error> {
        let built = self.rebuilt().map(|_| ());
        built.map_err(|error| self.cannot_start(error.to_string()))
    }

    pub(super) fn signature(&self) -> &Signature {
        self.shared.model.signature()
    }

    pub(super) fn model_name(&self) -> &str {
        &self.shared.name
    }

    pub(super) fn instance_number(&self) -> usize {
        self.number
    }

    fn pin(&self) -> Result<(), Error> {
        let cpus = &self.shared.options.cpus;
        let Some(&cpu) = cpus.get(self.number % cpus.len().max(1)) else {
            return Ok(());
        };
        affinity::pin_to(cpu).map_err(|error| {
            self.cannot_start(format!(
                "cpu {cpu}: {error}; list CPUs that are there and this process may use (server.cpus), or none"
            ))
        })
    }

    fn cannot_start(&self, problem: String) -> Error {
        Error::Start {
            model: self.shared.name.clone(),
            instance: self.number,
            problem,
        }
    }

    fn failed(&self, cause: Cause, problem: impl Into<String>) -> Error {
        Error::ModelFailed {
            model: self.shared.name.clone(),
            cause,
            problem: problem.into(),
        }
    }

    /// The instance, built again when a panic took it.
    fn rebuilt(&mut self) -> Result<&mut Box<dyn Instance>, ModelError> {
        if self.instance.is_none() {
            let built = contain(|| self.shared.model.instance());
            self.instance = Some(built.unwrap_or_else(|panic| {
                tell_panic(self.shared, &panic, "building an instance panicked");
                Err(ModelError::Lost {
                    loss: ModelLoss::Panic,
                    problem: format!("a panic while building it: {}", panic.message),
                })
            })?);
        }
        self.instance.as_mut().ok_or_else(|| ModelError::Run {
            problem: "no instance".to_string(),
        })
    }

    /// Drops an instance that a panic has left in an unknown state; dropping it may panic too.
    fn drop_instance(&mut self) {
        if let Err(panic) = contain(|| self.instance = None) {
            tell_panic(self.shared, &panic, "the end of an instance panicked");
        }
    }

    /// Runs the model once; a panic is an error that costs the instance.
    fn run_model(
        &mut self,
        inputs: Vec<Tensor>,
        deadline: Option<Instant>,
    ) -> Result<Vec<Tensor>, ModelError> {
        let rows = inputs.first().map_or(0, Tensor::rows);
        let size = sizes::padded(&self.shared.options.batch_sizes, rows);
        if size == rows {
            return self.contained(|instance| instance.run_by(inputs, deadline));
        }
        let failed = |problem: String| ModelError::Run { problem };
        let padded = batch::pad(&inputs, size - rows);
        let padded = padded.ok_or_else(|| failed(format!("its inputs cannot be padded to {size} rows")))?;
        add(&self.shared.counters.padded_rows, (size - rows) as u64);
        let outputs = self.contained(|instance| instance.run_by(padded, deadline))?;
        if let Some(problem) = batch::outputs_problem(self.signature(), &outputs, size) {
            return Err(failed(problem));
        }
        batch::slice(&outputs, 0..rows).ok_or_else(|| failed("its outputs cannot be cut".to_owned()))
    }

    fn contained<T>(
        &mut self,
        run: impl FnOnce(&mut Box<dyn Instance>) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        let instance = self.rebuilt()?;
        match contain(|| run(instance)) {
            Ok(result) => result,
            Err(panic) => {
                let problem = panicked(self.shared, &panic);
                self.drop_instance();
                Err(ModelError::Lost {
                    loss: ModelLoss::Panic,
                    problem,
                })
            }
        }
    }

    /// A run that answers nobody and is not counted.
    pub(super) fn warm(&mut self, inputs: Vec<Tensor>) -> Result<(), ModelError> {
        self.run_model(inputs, None).map(drop)
    }

    /// Learns what a run of so many rows costs from one that was not counted.
    pub(super) fn learn(&self, rows: usize, took: Duration) {
        self.shared.queue.lock().warmed(rows, took);
    }

    /// A counted run of `rows` rows whose outputs have the shapes that were promised; nobody waits for them after `deadline`.
    fn run_rows(
        &mut self,
        inputs: Vec<Tensor>,
        rows: usize,
        deadline: Option<Instant>,
    ) -> Result<Ran, Error> {
        let started = Instant::now();
        let result = self.run_model(inputs, deadline);
        let took = started.elapsed();
        self.shared.counters.ran(rows, took);
        let outputs = self.promised(result, rows)?;
        Ok(Ran {
            outputs,
            started,
            took,
        })
    }

    /// What a run gave, if it has the shapes that were promised.
    fn promised(&self, ran: Result<Vec<Tensor>, ModelError>, rows: usize) -> Result<Vec<Tensor>, Error> {
        let outputs = ran.map_err(|error| self.failure(error))?;
        match batch::outputs_problem(self.signature(), &outputs, rows) {
            Some(problem) => Err(self.failed(Cause::Output, problem)),
            None => Ok(outputs),
        }
    }

    /// What a run failed by.
    fn failure(&self, error: ModelError) -> Error {
        match error {
            ModelError::Run { problem } => self.failed(Cause::Backend, problem),
            ModelError::Lost { loss, problem } => self.failed(loss.into(), problem),
            other => self.failed(Cause::Backend, other.to_string()),
        }
    }

    /// Answers everything in `cut` and leaves it empty.
    pub(super) fn serve(&mut self, cut: &mut Cut) {
        for (waiting, reason) in cut.dropped.drain(..) {
            self.answer_dropped(waiting, reason, Instant::now());
        }
        let is_joined = self.signature().batched;
        let mut inputs = self.signature().inputs.iter();
        let is_dynamic = is_joined && inputs.any(|port| port.row_len().is_none());
        while is_dynamic && cut.batch.len() > 1 {
            let unlike = match &self.shared.padding {
                Some(padding) => padding.split_unlike(self.signature(), &mut cut.batch),
                None => batch::split_unlike(&mut cut.batch),
            };
            self.serve_batch(&mut cut.batch);
            cut.batch.extend(unlike);
        }
        self.serve_batch(&mut cut.batch);
    }

    /// Answers what is in `cut`, whose rows have one shape, by one run of the model, and says how long it took if it
    /// succeeded. Requests that failed together are left in it, to be run apart.
    pub(super) fn serve_once(&mut self, cut: &mut Cut) -> Option<Duration> {
        for (waiting, reason) in cut.dropped.drain(..) {
            self.answer_dropped(waiting, reason, Instant::now());
        }
        match cut.batch.len() {
            0 | 1 => self.serve_alone(cut.batch.pop()?, None),
            _ => self.serve_shared(&mut cut.batch).ok(),
        }
    }

    /// Answers all of `batch`, whose rows have one shape, and leaves it empty.
    fn serve_batch(&mut self, batch: &mut Vec<Waiting>) {
        self.serve_after(batch, None);
    }

    /// As [`Runner::serve_batch`], of requests that were part of a run which lost the model so, if it did.
    fn serve_after(&mut self, batch: &mut Vec<Waiting>, loss: Loss) {
        let shared = match batch.len() {
            0 | 1 => Err(None),
            _ => self.serve_shared(batch),
        };
        if let Err(latest) = shared {
            self.serve_failed(batch, latest.or(loss));
        }
    }

    /// Answers all of `batch`, which failed as a whole or is a single request, so that a bad item fails alone: few one by one, of many first
    /// one half and then the other. An item that is the only bad one of `n` costs two runs for each halving.
    fn serve_failed(&mut self, batch: &mut Vec<Waiting>, loss: Loss) {
        let now = Instant::now();
        if batch.len() <= ONE_BY_ONE_MAX || !self.shares_runs() {
            for waiting in batch.drain(..) {
                self.serve_one(waiting, Instant::now(), loss);
            }
            return;
        }
        // Runs that failed took their time.
        let late = batch.extract_if(.., |waiting| waiting.dropped(now).is_some());
        for waiting in late.collect::<Vec<_>>() {
            self.serve_one(waiting, now, loss);
        }
        let mut others = batch.split_off(batch.len() / 2);
        match self.serve_shared(batch) {
            // Then it is among the others, which need not fail together once more.
            Ok(_) => return self.serve_failed(&mut others, loss),
            Err(latest) => self.serve_failed(batch, latest.or(loss)),
        }
        self.serve_after(&mut others, loss);
    }

    /// Whether several requests can share a run.
    fn shares_runs(&self) -> bool {
        self.signature().batched || self.shared.model.takes_requests()
    }

    /// One run for all of `batch`, where they can share it, and how long it took.
    ///
    /// # Errors
    /// It failed, and `batch` is untouched.
    fn serve_shared(&mut self, batch: &mut Vec<Waiting>) -> Result<Duration, Loss> {
        match self.shared.model.takes_requests() {
            true => self.serve_unjoined(batch),
            false if self.signature().batched => self.serve_together(batch),
            false => Err(None),
        }
    }

    /// One run for all of `batch`, and how long it took.
    ///
    /// # Errors
    /// As [`Runner::serve_shared`].
    fn serve_together(&mut self, batch: &mut Vec<Waiting>) -> Result<Duration, Loss> {
        let began = Instant::now();
        let signature = self.shared.model.signature();
        let padding = self.shared.padding.as_ref();
        let padded = padding.and_then(|padding| Some((padding, padding.length(signature, batch)?)));
        let joined = match padded {
            Some((padding, length)) => {
                batch::join_made(batch, |inputs| padding.pad(signature, inputs, length).ok())
            }
            None => batch::join(batch),
        };
        let (inputs, rows) = joined.ok_or(None)?;
        let ran = self.run_rows(inputs, rows, batch::deadline(batch));
        let ran = ran.map_err(|error| loss_of(&error))?;
        let ended = ran.started + ran.took;
        self.answered_from.get_or_insert(ended);
        let requests = batch.len();
        let mut start = 0;
        for waiting in batch.drain(..) {
            let count = waiting.request.rows;
            let outputs = batch::slice(&ran.outputs, start..start + count).ok_or_else(|| {
                self.failed(
                    Cause::Output,
                    format!("rows {start}.. of its outputs cannot be cut"),
                )
            });
            start += count;
            let outputs = match padded {
                Some((_, length)) => {
                    outputs.and_then(|outputs| self.unpadded(outputs, &waiting.request.inputs, length))
                }
                None => outputs,
            };
            let answer = outputs.map(|outputs| Answer {
                outputs,
                timing: self.timing(&waiting, ran.started, ran.took, (rows, requests)),
            });
            self.answer(waiting, answer);
        }
        self.shared.counters.around(began, ran.started, ended);
        Ok(ran.took)
    }

    /// As [`Runner::serve_together`], for a model that takes requests as they are: each gets its own result.
    fn serve_unjoined(&mut self, batch: &mut Vec<Waiting>) -> Result<Duration, Loss> {
        let began = Instant::now();
        let requests: Vec<Vec<Tensor>> = batch
            .iter()
            .map(|waiting| waiting.request.inputs.clone())
            .collect();
        let (count, deadline) = (requests.len(), batch::deadline(batch));
        let started = Instant::now();
        let ran = self.contained(|instance| Ok(instance.run_requests(requests, deadline)));
        let took = started.elapsed();
        self.shared.counters.ran(count, took);
        let mut results = ran.unwrap_or_else(|error| vec![Err(error)]);
        if results.len() != count {
            // An error says by what the whole run failed.
            let error = results.pop().and_then(Result::err);
            return Err(error.and_then(|error| loss_of(&self.failure(error))));
        }
        self.answered_from.get_or_insert(started + took);
        for (waiting, result) in batch.drain(..).zip(results) {
            let timing = self.timing(&waiting, started, took, (count, count));
            let outputs = self.promised(result, waiting.request.rows);
            self.answer(waiting, outputs.map(|outputs| Answer { outputs, timing }));
        }
        self.shared.counters.around(began, started, started + took);
        Ok(took)
    }

    /// Answers one request, and says how long its run took if it succeeded.
    pub(super) fn serve_one(&mut self, waiting: Waiting, now: Instant, loss: Loss) -> Option<Duration> {
        let Some(reason) = waiting.dropped(now) else {
            return self.serve_alone(waiting, loss);
        };
        self.answer_dropped(waiting, reason, now);
        None
    }

    /// Where the time of a request went whose run began at `started`; its queue time is counted.
    fn timing(&self, waiting: &Waiting, started: Instant, took: Duration, batch: (usize, usize)) -> Timing {
        let queue = started.saturating_duration_since(waiting.submitted);
        self.shared.counters.wait.add_time(queue);
        let (batch_rows, batch_requests) = batch;
        Timing {
            queue,
            compute: took,
            ended: started + took,
            batch_rows,
            batch_requests,
        }
    }

    fn answer_dropped(&self, waiting: Waiting, reason: Dropped, now: Instant) {
        let error = self.dropped(&waiting, reason, now);
        self.call(waiting, Err(error));
    }

    /// Counts a request that is not worth running any more, and says why.
    fn dropped(&self, waiting: &Waiting, reason: Dropped, now: Instant) -> Error {
        let model = self.shared.name.clone();
        let (counter, error) = match reason {
            Dropped::ClientGone => (&self.shared.counters.abandoned, Error::ClientGone { model }),
            Dropped::DeadlinePassed => {
                let waited_us = micros(now.saturating_duration_since(waiting.submitted));
                (
                    &self.shared.counters.expired,
                    Error::DeadlinePassed { model, waited_us },
                )
            }
        };
        add(counter, 1);
        error
    }

    /// Counts and delivers the result of a request that ran; a NaN is a failure of this request alone.
    fn answer(&self, waiting: Waiting, answer: Result<Answer, Error>) {
        let answer = answer.and_then(
            |answer| match batch::not_finite(self.signature(), &answer.outputs) {
                Some(problem) => Err(self.failed(Cause::NotFinite, problem)),
                None => Ok(answer),
            },
        );
        self.shared.counters.came_to(&answer);
        self.call(waiting, answer);
    }

    /// The caller's code runs here; if it panics its batch-mates must still be answered.
    fn call(&self, waiting: Waiting, result: Result<Answer, Error>) {
        deliver(self.shared, waiting, result);
    }
}

/// Logs and counts a panic in a run, and says what its callers are told.
pub(super) fn panicked(shared: &Shared, panic: &Panic) -> String {
    tell_panic(shared, panic, "a run of the model panicked");
    add(&shared.counters.panics, 1);
    format!("it panicked: {}", panic.message)
}

/// Bounded, because a caller that knows an input that panics can send it at any rate.
fn tell_panic(shared: &Shared, panic: &Panic, what: &str) {
    if let Some(LeftOut(left_out)) = shared.model_panics.admits() {
        tracing::error!(model = shared.name, %panic, left_out, "{what}");
    }
}

/// Calls the request's `done`; a panic in it is logged and goes no further.
pub(super) fn deliver(shared: &Shared, waiting: Waiting, result: Result<Answer, Error>) {
    let done = waiting.request.done;
    if let Err(panic) = contain(|| done(result))
        && let Some(LeftOut(left_out)) = shared.receiver_panics.admits()
    {
        tracing::error!(model = shared.name, %panic, left_out, "the receiver of an answer panicked");
    }
}
