//! Hands a call to a model's batcher, and answers it from the thread that runs the model: this one, at the end of its turn, or an
//! instance's.
//!
//! Shared by `infer`, `rank` and `run`: submit to a model or pipeline, then encode the answer. Its invariant: the permit is held until
//! the answer is on its way.

use crate::{Engines, Served};
use millpond_calls::{Detached, ModelTime, Spent};
use millpond_engines_batcher::{self as batcher, Batcher, FailureCause, Priority, Rejected, Timing};
use millpond_pipelines::{Ask, Error, Output, Pipeline, Progress, Request, StageTimes, Values, Wait};
use millpond_tensor::Tensor;
use millpond_wire_payload::Encoder;
use millpond_wire_schema::{Code, Status};
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

/// Scores that a log line shows: its length is bounded like everything else.
const LOGGED_SCORES_MAX: usize = 256;
/// As long as a refusal's text mostly is.
const EX_BYTES: usize = 256;

/// What is known of a run before its inputs are made.
pub(crate) struct Run<'a> {
    pub(crate) rows: usize,
    /// Bytes of its inputs.
    pub(crate) bytes: usize,
    /// Bytes of the call that its answer is made from.
    pub(crate) kept_bytes: usize,
    pub(crate) deadline: Instant,
    pub(crate) priority: Priority,
    /// The payload's own.
    pub(crate) trace: Option<&'a str>,
}

/// How a call asks its batcher.
struct Asking {
    kept_bytes: usize,
    deadline: Instant,
    priority: Priority,
}

impl Run<'_> {
    fn asking(&self) -> Asking {
        Asking {
            kept_bytes: self.kept_bytes,
            deadline: self.deadline,
            priority: self.priority,
        }
    }
}

/// The level of a call's requests; `payload` is the one that its payload names.
pub(crate) fn priority(call: &Served<'_>, payload: Option<u8>) -> Priority {
    call.priority(payload).and_then(Priority::new).unwrap_or_default()
}

/// The refusal of a run for which the batcher has no space now. It is asked before its inputs are made and anything is set up for another
/// thread: under overload most calls are refused, and they cost the work of the rest; and the inputs of a call that would hold
/// too many bytes are not made at all.
fn refusal(call: &Served<'_>, batcher: &Batcher, run: &Run<'_>) -> Result<(), Status> {
    let bytes = run.bytes.saturating_add(run.kept_bytes);
    let batch = call.batch();
    let source = (call.asked.caller.connection, run.priority);
    match batcher.refusal(
        batch.as_deref().map(|batch| &batch.sweep),
        source,
        run.rows,
        bytes,
        Some(run.deadline),
    ) {
        Some(reason) => {
            count_late(call, reason);
            let model = batcher.name().to_owned();
            Err(status_of(&batcher::Error::Rejected { model, reason }.into()))
        }
        None => Ok(()),
    }
}

/// Runs a pipeline for one request. What `printer` gives makes the answer's map from what the pipeline came to; it is asked once
/// the request is on its way to the model.
pub(crate) fn run<P>(
    call: &mut Served<'_>,
    pipeline: &Arc<Pipeline>,
    request: &dyn Request,
    run: &Run<'_>,
    printer: impl FnOnce() -> P,
) -> Result<(), Status>
where
    P: FnOnce(&Output) -> Result<Printed, Status> + Send + 'static,
{
    if let Some(batcher) = pipeline.batcher() {
        refusal(call, batcher, run)?;
    }
    let progress = pipeline.run(request).map_err(|error| status_of(&error))?;
    // A pipeline of items or samples ends with a model, so it always waits; only a request without rows is done here.
    let Progress::Waits(waiting) = progress else {
        return Err(no_scores());
    };
    let (ask, detached) = detach(call, run.asking(), run.trace)?;
    let print = printer();
    let done = move |output: Result<Output, Error>| {
        let ran = output.and_then(|mut output| {
            let timing = output.timing.ok_or_else(|| Error::not_given("a run"))?;
            let times = std::mem::take(&mut output.times);
            Ok((timing, times, output))
        });
        answer(detached, ran, print);
    };
    waiting.start(ask, |batcher, request| submit(call, &batcher, request), done);
    Ok(())
}

/// Runs a pipeline for named values; `print` makes what writes the answer's map. What waits for nothing is answered here.
pub(crate) fn run_values(
    call: &mut Served<'_>,
    pipeline: &Arc<Pipeline>,
    values: Values,
    (deadline, priority): (Instant, Priority),
    trace: Option<&str>,
    print: fn(Output) -> Result<Write, Status>,
) -> Result<(), Status> {
    let waiting = match pipeline.run_values(values).map_err(|error| status_of(&error))? {
        Progress::Waits(waiting) => waiting,
        Progress::Done(mut output) => {
            let times = std::mem::take(&mut output.times);
            check_bytes(&output, call.calls.answer_bytes_max)?;
            let write = print(output)?;
            call.answer_after(spent(None, &times), trace, write);
            return Ok(());
        }
    };
    let asking = Asking {
        kept_bytes: 0,
        deadline,
        priority,
    };
    let (ask, mut detached) = detach(call, asking, trace)?;
    let answer_bytes_max = call.calls.answer_bytes_max;
    let done = move |output: Result<Output, Error>| {
        let output = output.map_err(|error| status_of(&error));
        let printed = output.and_then(|mut output| {
            let times = std::mem::take(&mut output.times);
            check_bytes(&output, answer_bytes_max)?;
            Ok((output.timing, times, print(output)?))
        });
        match printed {
            Ok((timing, times, write)) => {
                detached.ready(spent(timing, &times));
                detached.ok(write);
            }
            Err(status) => detached.refuse(&status),
        }
    };
    waiting.start(ask, |batcher, request| submit(call, &batcher, request), done);
    Ok(())
}

/// Refuses an answer that would be too large, before it is written.
fn check_bytes(output: &Output, limit: usize) -> Result<(), Status> {
    let values = output.values.iter().map(|(_, value)| value.bytes_held());
    let bytes = values.fold(0, usize::saturating_add);
    match bytes > limit {
        true => Err(Status::new(
            Code::TooLarge,
            format!(
                "the answer would hold {bytes} bytes; the limit is {limit} (name fewer `outputs`, or give less at once)"
            ),
        )),
        false => Ok(()),
    }
}

/// Runs a model on tensors; `print` makes the answer's map from the model's outputs.
pub(crate) fn run_tensors<P>(
    call: &mut Served<'_>,
    batcher: &Arc<Batcher>,
    inputs: Vec<Tensor>,
    run: &Run<'_>,
    print: P,
) -> Result<(), Status>
where
    P: FnOnce(&Vec<Tensor>) -> Result<Printed, Status> + Send + 'static,
{
    refusal(call, batcher, run)?;
    let wait = Wait::new(batcher, inputs, run.rows);
    let (ask, detached) = detach(call, run.asking(), run.trace)?;
    let (batcher, request) = wait.request(ask, move |answered| {
        let ran = answered.map(|answered| (answered.timing, StageTimes::default(), answered.outputs));
        answer(detached, ran.map_err(Error::from), print);
    });
    submit(call, &batcher, request);
    Ok(())
}

/// Has a request run: at the end of this turn where its model is fast enough, else by the model's own threads.
fn submit(call: &Served<'_>, batcher: &Arc<Batcher>, request: batcher::Request) {
    let submitted = match call.batch() {
        Some(mut batch) => batch.sweep.submit(batcher, request),
        None => batcher.submit(request),
    };
    if let Err((reason, request)) = submitted {
        count_late(call, reason);
        request.refuse(batcher.name(), reason);
    }
}

/// Takes an admitted call to where its result comes from, as who asks the batcher.
fn detach(
    call: &mut Served<'_>,
    asking: Asking,
    trace: Option<&str>,
) -> Result<(Ask, Detached<Engines>), Status> {
    let permit = call.calls.admission.enter()?;
    let detached = call.detach(Some(permit), trace)?;
    let ask = Ask {
        source: call.asked.caller.connection,
        priority: asking.priority,
        deadline: Some(asking.deadline),
        gone: detached.gone(),
        kept_bytes: asking.kept_bytes,
    };
    Ok((ask, detached))
}

/// Where the time of a call went.
fn spent(timing: Option<Timing>, times: &StageTimes) -> Spent<'_> {
    let model = timing.map(|timing| ModelTime {
        batch_wait: timing.queue,
        compute: timing.compute,
    });
    // A model that is called by itself has no stages.
    let stages = times.iter().next().map(|_| times as &dyn fmt::Display);
    Spent { model, stages }
}

/// Answers a call with what its run came to.
fn answer<T>(
    mut call: Detached<Engines>,
    ran: Result<(Timing, StageTimes, T), Error>,
    print: impl FnOnce(&T) -> Result<Printed, Status>,
) {
    let printed = ran
        .map_err(|error| status_of(&error))
        .and_then(|(timing, times, result)| Ok((print(&result)?, timing, times)));
    match printed {
        Ok((printed, timing, times)) => {
            call.ready(spent(Some(timing), &times));
            if !call.arrival.is_internal {
                log(&call, &printed.scores, &timing);
            }
            call.ok(printed.write);
        }
        Err(status) => call.refuse(&status),
    }
}

/// Counts a request that was not let in because it would be answered too late, or wait too long.
fn count_late(call: &Served<'_>, reason: Rejected) {
    if matches!(reason, Rejected::TooLate { .. } | Rejected::Standing { .. }) && !call.arrival.is_internal {
        call.calls.statistics.too_late();
    }
}

/// Writes an answer's map.
pub(crate) type Write = Box<dyn FnOnce(&mut Encoder<'_>)>;

/// An answer ready to be written.
pub(crate) struct Printed {
    /// What the debug line shows.
    pub(crate) scores: Vec<f32>,
    pub(crate) write: Write,
}

/// The error of a model that gives something else than scores.
pub(crate) fn no_scores() -> Status {
    Status::new(Code::Internal, "the model gave no f32 output")
}

/// The one line a request that level 2 (debug) writes.
fn log(call: &Detached<Engines>, scores: &[f32], timing: &Timing) {
    tracing::debug!(
        method = call.calls.methods.name(call.arrival.method),
        us = call.arrival.received.elapsed().as_micros() as u64,
        queue_us = timing.queue.as_micros() as u64,
        compute_us = timing.compute.as_micros() as u64,
        batch_rows = timing.batch_rows,
        batch_requests = timing.batch_requests,
        trace = call.trace.as_deref(),
        scores = ?scores.get(..LOGGED_SCORES_MAX).unwrap_or(scores),
        "answered"
    );
}

fn status_of(error: &Error) -> Status {
    let code = match error {
        Error::Model(error) => model_code(error),
        Error::Request { .. } => Code::BadArgument,
        Error::Missing { .. } => Code::KeyNotFound,
        Error::TakesCopy(_) => Code::NotReady,
        _ => Code::Internal,
    };
    // Made once a refusal, which under overload is most of the work: a text that does not have to grow.
    let mut ex = String::with_capacity(EX_BYTES);
    let _ = write!(ex, "{error}");
    Status::new(code, ex)
}

fn model_code(error: &batcher::Error) -> Code {
    use batcher::Error;
    match error {
        Error::Rejected {
            reason:
                Rejected::QueueFull { .. }
                | Rejected::BytesFull { .. }
                | Rejected::TooLate { .. }
                | Rejected::Standing { .. },
            ..
        }
        | Error::Evicted { .. } => Code::Overloaded,
        Error::Rejected {
            reason: Rejected::TooManyBytes { .. },
            ..
        } => Code::TooLarge,
        Error::Rejected { .. } | Error::Stopping { .. } => Code::Stopping,
        Error::DeadlinePassed { .. } => Code::DeadlinePassed,
        Error::ModelFailed {
            cause: FailureCause::Absent,
            ..
        } => Code::NotReady,
        Error::ModelFailed { .. } => Code::ModelFailed,
        Error::ClientGone { .. } => Code::ConnectionClosed,
        _ => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cause: FailureCause, expected: Code) {
        let failed = batcher::Error::ModelFailed {
            model: "m".to_owned(),
            cause,
            problem: "why".to_owned(),
        };
        assert_eq!(model_code(&failed), expected, "{cause:?}");
    }

    #[test]
    fn a_call_that_no_run_was_made_for_may_be_repeated() {
        check(FailureCause::Absent, Code::NotReady);
        check(FailureCause::Crash, Code::ModelFailed);
        assert!(Code::NotReady.retryable() && !Code::ModelFailed.retryable());
    }
}
