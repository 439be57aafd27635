//! Hands a call's tensors to a model's batcher and answers from the instance thread.
//!
//! `infer` and `rank` differ in how they make and print; this is what they share. Its invariant: the permit is held until
//! the answer is on its way.

use crate::metrics::Stage;
use crate::router::Call;
use crate::slow::ModelTime;
use millpond_engines_infer::{Answer, Batcher, Error, Rejected, Request};
use millpond_tensor::Tensor;
use millpond_wire_frame::Encoder;
use millpond_wire_schema::{Code, Status};
use millpond_wire_transport::Reply;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

/// Scores that a log line shows: its length is bounded like everything else.
const LOGGED_SCORES_MAX: usize = 256;
/// As long as a refusal's text mostly is.
const EX_BYTES: usize = 256;

/// What is asked of a batcher.
pub(super) struct Run<'b> {
    pub(super) batcher: &'b Batcher,
    /// In signature order, checked.
    pub(super) inputs: Vec<Tensor>,
    pub(super) rows: usize,
    /// Bytes of the call that its answer is made from.
    pub(super) kept_bytes: usize,
    pub(super) deadline: Instant,
    pub(super) trace: Option<String>,
}

/// What is known of a run before its inputs are made.
pub(super) struct Load {
    pub(super) rows: usize,
    /// Of its inputs, and of what its answer is made from.
    pub(super) bytes: usize,
}

/// The refusal of a run that would find no room now. To be asked before its inputs are made and anything is set up for another
/// thread: under overload most calls are refused, and they cost the work of the rest; and the inputs of a call that would hold
/// too many bytes are not made at all.
pub(super) fn refusal(
    call: &Call<'_>,
    batcher: &Batcher,
    load: &Load,
    deadline: Instant,
) -> Result<(), Status> {
    match batcher.refusal(call.connection, load.rows, load.bytes, Some(deadline)) {
        Some(reason) => Err(status_of(&rejected(call, batcher, reason))),
        None => Ok(()),
    }
}

/// Runs what [`refusal`] let pass; `print` makes the answer's map from the model's outputs, and gives back its scores for the log.
pub(super) fn submit<P>(call: &Call<'_>, run: Run<'_>, reply: Reply<'_>, print: P)
where
    P: FnOnce(&Answer) -> Result<Printed, Status> + Send + 'static,
{
    let permit = match call.shared.admission.enter() {
        Ok(permit) => permit,
        Err(status) => return call.refuse(reply, &status),
    };
    let (shared, arrival) = (Arc::clone(call.shared), call.arrival);
    let mut ticket = reply.detach();
    let gone = ticket.gone();
    let trace = run.trace;
    let done = move |result: Result<Answer, Error>| {
        let printed = result
            .map_err(|error| status_of(&error))
            .and_then(|answer| Ok((print(&answer)?, answer)));
        match printed {
            Ok((printed, answer)) => {
                let ready = Instant::now();
                let metrics = &shared.metrics;
                metrics.spent(Stage::Queue, arrival.queue());
                metrics.spent(Stage::BatchWait, answer.queue);
                metrics.spent(Stage::Compute, answer.compute);
                let model = ModelTime {
                    batch_wait: Some(answer.queue),
                    compute: Some(answer.compute),
                };
                shared.answered(&arrival, ready, trace.as_deref(), model);
                ticket.set_ready(ready, arrival.method.model_mark());
                if !shared.is_rehearsal {
                    log(
                        shared.methods.name(arrival.method),
                        arrival.received,
                        trace.as_deref(),
                        &printed.scores,
                        &answer,
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
    let request = Request {
        source: call.connection,
        inputs: run.inputs,
        rows: run.rows,
        deadline: Some(run.deadline),
        gone,
        kept_bytes: run.kept_bytes,
        done: Box::new(done),
    };
    if let Err((reason, request)) = run.batcher.submit(request) {
        (request.done)(Err(rejected(call, run.batcher, reason)));
    }
}

/// The error of a request that was not let in; one that would be answered too late is counted by that reason.
fn rejected(call: &Call<'_>, batcher: &Batcher, reason: Rejected) -> Error {
    let wait_us = match reason {
        Rejected::TooLate { wait_us, .. } => Some(wait_us),
        _ => None,
    };
    if !matches!(reason, Rejected::TooManyBytes { .. } | Rejected::Stopping) {
        let admission = &call.shared.admission;
        admission.note_refusal(call.arrival.entered, wait_us);
    }
    if wait_us.is_some() {
        call.shared.metrics.too_late();
    }
    let model = batcher.name().to_owned();
    Error::Rejected { model, reason }
}

/// An answer ready to be written.
pub(super) struct Printed {
    /// What the debug line shows.
    pub(super) scores: Vec<f32>,
    /// Writes the answer's map.
    pub(super) write: Box<dyn FnOnce(&mut Encoder<'_>)>,
}

/// The one line a request that level 2 (debug) writes.
fn log(method: &str, received: Instant, trace: Option<&str>, scores: &[f32], answer: &Answer) {
    tracing::debug!(
        method,
        us = received.elapsed().as_micros() as u64,
        queue_us = answer.queue.as_micros() as u64,
        compute_us = answer.compute.as_micros() as u64,
        batch_rows = answer.batch_rows,
        batch_requests = answer.batch_requests,
        trace,
        scores = ?scores.get(..LOGGED_SCORES_MAX).unwrap_or(scores),
        "answered"
    );
}

fn status_of(error: &Error) -> Status {
    let code = match error {
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
    };
    // Made once a refusal, which under overload is most of the work: a text that does not have to grow.
    let mut ex = String::with_capacity(EX_BYTES);
    let _ = write!(ex, "{error}");
    Status::new(code, ex)
}
