//! Hands a call to a model's batcher and answers from the instance thread.
//!
//! `infer` and `rank` differ in how they make and print; this is what they share. Its invariant: the permit is held until
//! the answer is on its way.

use crate::router::Call;
use crate::slow::ModelTime;
use millpond_calls::Reply;
use millpond_engines_batcher::{self as batcher, Batcher, Rejected, Timing};
use millpond_pipelines::{Ask, Error, Output, Pipeline, Progress, Request, Wait};
use millpond_tensor::Tensor;
use millpond_wire_payload::Encoder;
use millpond_wire_schema::{Code, Status};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

/// Scores that a log line shows: its length is bounded like everything else.
const LOGGED_SCORES_MAX: usize = 256;
/// As long as a refusal's text mostly is.
const EX_BYTES: usize = 256;

/// What is known of a run before its inputs are made.
pub(super) struct Run {
    pub(super) rows: usize,
    /// Bytes of its inputs.
    pub(super) bytes: usize,
    /// Bytes of the call that its answer is made from.
    pub(super) kept_bytes: usize,
    pub(super) deadline: Instant,
    pub(super) trace: Option<String>,
}

/// The refusal of a run that would find no room now. To be asked before its inputs are made and anything is set up for another
/// thread: under overload most calls are refused, and they cost the work of the rest; and the inputs of a call that would hold
/// too many bytes are not made at all.
pub(super) fn refusal(call: &Call<'_>, batcher: &Batcher, run: &Run) -> Result<(), Status> {
    let bytes = run.bytes.saturating_add(run.kept_bytes);
    match batcher.refusal(call.asked.caller.connection, run.rows, bytes, Some(run.deadline)) {
        Some(reason) => Err(status_of(&rejected(call, batcher, reason).into())),
        None => Ok(()),
    }
}

/// Runs a pipeline for one request. What `printer` gives makes the answer's map from what the pipeline came to; it is asked once
/// the request is on its way to the model.
pub(super) fn run<P>(
    call: &Call<'_>,
    pipeline: &Arc<Pipeline>,
    request: &dyn Request,
    run: Run,
    reply: Reply<'_>,
    printer: impl FnOnce() -> P,
) where
    P: FnOnce(&Output) -> Result<Printed, Status> + Send + 'static,
{
    let progress = refusal(call, pipeline.batcher(), &run)
        .and_then(|()| pipeline.run(request).map_err(|error| status_of(&error)));
    let waiting = match progress {
        Ok(Progress::Waits(waiting)) => waiting,
        // The last stage of every plan is a model, which answers no rows alone.
        Ok(Progress::Done(_)) => return call.refuse(reply, &no_scores()),
        Err(status) => return call.refuse(reply, &status),
    };
    let Some((ask, done)) = detach(call, run, reply, printer()) else {
        return;
    };
    let submitted = waiting.submit(ask, move |output| {
        done(output.and_then(|output| Ok((output.timing.ok_or_else(|| Error::not_given("a run"))?, output))));
    });
    if let Err((reason, request)) = submitted {
        (request.done)(Err(rejected(call, pipeline.batcher(), reason)));
    }
}

/// Runs what [`refusal`] let pass on tensors; `print` makes the answer's map from the model's outputs.
pub(super) fn run_tensors<P>(
    call: &Call<'_>,
    batcher: &Arc<Batcher>,
    inputs: Vec<Tensor>,
    run: Run,
    reply: Reply<'_>,
    print: P,
) where
    P: FnOnce(&Vec<Tensor>) -> Result<Printed, Status> + Send + 'static,
{
    let wait = Wait::new(batcher, inputs, run.rows);
    let Some((ask, done)) = detach(call, run, reply, print) else {
        return;
    };
    let submitted = wait.submit(ask, move |answer| {
        done(
            answer
                .map(|answer| (answer.timing, answer.outputs))
                .map_err(Error::from),
        );
    });
    if let Err((reason, request)) = submitted {
        (request.done)(Err(rejected(call, batcher, reason)));
    }
}

/// What a run came to, and where its time went.
type Ran<T> = Result<(Timing, T), Error>;

/// Who asks the batcher, and what answers the call from the thread that the result comes from. Nothing where admission refuses
/// the call, which is then answered.
fn detach<T, P>(
    call: &Call<'_>,
    run: Run,
    reply: Reply<'_>,
    print: P,
) -> Option<(Ask, impl FnOnce(Ran<T>) + Send + 'static + use<T, P>)>
where
    T: 'static,
    P: FnOnce(&T) -> Result<Printed, Status> + Send + 'static,
{
    let permit = match call.shared.admission.enter() {
        Ok(permit) => permit,
        Err(status) => {
            call.refuse(reply, &status);
            return None;
        }
    };
    let (shared, arrival) = (Arc::clone(call.shared), call.arrival);
    let mut ticket = reply.later();
    let ask = Ask {
        source: call.asked.caller.connection,
        deadline: Some(run.deadline),
        gone: ticket.gone(),
        kept_bytes: run.kept_bytes,
    };
    let trace = run.trace;
    let done = move |result: Ran<T>| {
        let printed = result
            .map_err(|error| status_of(&error))
            .and_then(|(timing, result)| Ok((print(&result)?, timing)));
        match printed {
            Ok((printed, timing)) => {
                let ready = Instant::now();
                let model = ModelTime {
                    batch_wait: timing.queue,
                    compute: timing.compute,
                };
                shared.answered(&arrival, ready, trace.as_deref(), Some(model));
                ticket.set_ready(ready, arrival.method.mark());
                if !arrival.is_own {
                    log(
                        shared.methods.name(arrival.method),
                        arrival.received,
                        trace.as_deref(),
                        &printed.scores,
                        &timing,
                    );
                }
                ticket.ok(printed.write);
            }
            Err(status) => {
                shared.refused(&arrival, trace.as_deref(), &status);
                ticket.error(&status);
            }
        }
        drop(permit);
    };
    Some((ask, done))
}

/// The error of a request that was not let in; one that would be answered too late is counted by that reason.
fn rejected(call: &Call<'_>, batcher: &Batcher, reason: Rejected) -> batcher::Error {
    if matches!(reason, Rejected::TooLate { .. }) && !call.arrival.is_own {
        call.shared.metrics.too_late();
    }
    let model = batcher.name().to_owned();
    batcher::Error::Rejected { model, reason }
}

/// An answer ready to be written.
pub(super) struct Printed {
    /// What the debug line shows.
    pub(super) scores: Vec<f32>,
    /// Writes the answer's map.
    pub(super) write: Box<dyn FnOnce(&mut Encoder<'_>)>,
}

/// The error of a model that gives something else than scores.
pub(super) fn no_scores() -> Status {
    Status::new(Code::Internal, "the model gave no f32 output")
}

/// The one line a request that level 2 (debug) writes.
fn log(method: &str, received: Instant, trace: Option<&str>, scores: &[f32], timing: &Timing) {
    tracing::debug!(
        method,
        us = received.elapsed().as_micros() as u64,
        queue_us = timing.queue.as_micros() as u64,
        compute_us = timing.compute.as_micros() as u64,
        batch_rows = timing.batch_rows,
        batch_requests = timing.batch_requests,
        trace,
        scores = ?scores.get(..LOGGED_SCORES_MAX).unwrap_or(scores),
        "answered"
    );
}

fn status_of(error: &Error) -> Status {
    let code = match error {
        Error::Model(error) => model_code(error),
        Error::Request { .. } => Code::BadArgument,
        Error::Missing { .. } => Code::KeyNotFound,
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
            reason: Rejected::QueueFull { .. } | Rejected::BytesFull { .. } | Rejected::TooLate { .. },
            ..
        }
        | Error::Evicted { .. } => Code::Overloaded,
        Error::Rejected {
            reason: Rejected::TooManyBytes { .. },
            ..
        } => Code::TooLarge,
        Error::Rejected { .. } | Error::Stopping { .. } => Code::Stopping,
        Error::DeadlinePassed { .. } => Code::DeadlinePassed,
        Error::ModelFailed { .. } => Code::ModelFailed,
        Error::ClientGone { .. } => Code::ConnectionClosed,
        _ => Code::Internal,
    }
}
