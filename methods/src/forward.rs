//! Calls of the ordered stores in a process that has none: another process of this server has them, and each call is sent on to it.
//!
//! What is asked is as it came, and so is the answer; nothing of either is decoded here but what every method reads. Its invariants:
//! a call that its token does not open, or that would be one too many, is not sent; what became of a write whose process was lost
//! is not guessed; no stop waits for a call that waits for others' writes.

use crate::{Engines, Served};
use millpond_calls::{Detached, NodeAnswer, NodeCall, NodeError, NodeSink, Outbound, Spent, forwarded};
use millpond_catalog::Catalog;
use millpond_wire_payload::{Encoding, Payload, Reserved};
use millpond_wire_schema::{Code, Method as _, OrderedFollow, Status};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a call that no stop waits for is looked after.
const LOOK: Duration = Duration::from_millis(200);
/// What a call that is on its way takes beside its payload.
const CALL_BYTES: usize = 256;

pub(crate) fn serve(_: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let reserved = Reserved::of(payload)?;
    let deadline = call.deadline(reserved.deadline_ms)?;
    let (Some(process), Some((outbound, _))) = (call.calls.stores_at().cloned(), call.outbound()) else {
        return Err(Status::new(
            Code::Internal,
            "no process is known that has the ordered stores",
        ));
    };
    let entry = call.calls.methods.entry(call.arrival.method);
    let Cow::Borrowed(method) = entry.name else {
        return Err(Status::new(Code::Internal, "it is no method of an ordered store"));
    };
    let changes = entry.changes;
    let permit = match method {
        // It waits for others' writes, and takes no place meanwhile.
        OrderedFollow::NAME => None,
        _ => {
            let bytes = call.asked.payload.len().saturating_add(CALL_BYTES);
            Some(call.calls.admission.enter_holding(bytes)?)
        }
    };
    let left = deadline.saturating_duration_since(call.asked.clock.last());
    let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
    let encoding = call.asked.encoding;
    let asked = forwarded(left_ms, call.asked.payload);
    let waits_for_others = permit.is_none();
    let detached = call.detach(permit, reserved.trace)?;
    let detached = match waits_for_others {
        false => Held::Alone(Box::new(detached)),
        true => {
            let shared = Arc::new(Mutex::new(Some(detached)));
            look(Arc::clone(&shared), outbound, call.asked.clock.last());
            Held::Shared(shared)
        }
    };
    outbound.send_on(NodeCall {
        node: process,
        encoding,
        method,
        payload: asked,
        sink: Box::new(SentOn {
            detached,
            encoding,
            changes,
        }),
    });
    Ok(())
}

/// A call that was sent on.
struct SentOn {
    detached: Held,
    encoding: Encoding,
    changes: bool,
}

/// Who may answer it.
enum Held {
    /// What comes back.
    Alone(Box<Detached<Engines>>),
    /// The stop of this process too.
    Shared(Arc<Shared>),
}

type Shared = Mutex<Option<Detached<Engines>>>;

fn take(shared: &Shared) -> Option<Detached<Engines>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Answers a call where this process stops before what it waits for comes. Writes of its own callers may wait for what a follower says by it:
/// they are finished first.
fn look(shared: Arc<Shared>, outbound: &Outbound, now: Instant) {
    let is_stopping = match &*shared.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(detached) => detached.calls.is_stopping() && detached.calls.admission.unfinished() == 0,
        None => return,
    };
    if !is_stopping {
        outbound.at(
            now + LOOK,
            Box::new(move |outbound, now| look(shared, outbound, now)),
        );
    } else if let Some(detached) = take(&shared) {
        detached.refuse(&Status::new(
            Code::Stopping,
            "the server is stopping; call another one",
        ));
    }
}

impl NodeSink for SentOn {
    fn ended(self: Box<Self>, _: &Outbound, _: Instant, answer: Result<NodeAnswer<'_>, NodeError>) {
        let SentOn {
            detached,
            encoding,
            changes,
        } = *self;
        let detached = match detached {
            Held::Alone(detached) => Some(*detached),
            Held::Shared(shared) => take(&shared),
        };
        let Some(mut detached) = detached else { return };
        match answer {
            Ok(answer) if answer.encoding == encoding => {
                detached.ready(Spent::default());
                detached.ok(|out| out.raw(answer.payload));
            }
            Ok(_) => {
                let ex = "the process that has the ordered stores answered in another encoding";
                detached.refuse(&Status::new(Code::Internal, ex));
            }
            Err(NodeError { status, is_answer }) => {
                detached.refuse(&ended(status, is_answer, changes));
            }
        }
    }
}

/// What to say of a call that ended so: of one that changes nothing it does not matter whether it was served.
fn ended(status: Status, is_answer: bool, changes: bool) -> Status {
    match status.code {
        Code::OutcomeUnknown if !is_answer && !changes => {
            let ex = "the process of this server that has its ordered stores was lost before it answered; try again";
            Status::new(Code::NotReady, ex)
        }
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_whose_process_was_lost_may_be_repeated_and_a_write_may_not() {
        let code = |code, is_answer, changes| ended(Status::new(code, "why"), is_answer, changes).code;
        assert_eq!(code(Code::OutcomeUnknown, false, false), Code::NotReady);
        assert_eq!(code(Code::OutcomeUnknown, false, true), Code::OutcomeUnknown);
        assert_eq!(code(Code::OutcomeUnknown, true, false), Code::OutcomeUnknown);
        assert_eq!(code(Code::NotReady, false, true), Code::NotReady);
        assert_eq!(code(Code::Conflict, true, true), Code::Conflict);
    }
}
