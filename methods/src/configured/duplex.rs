//! Methods of kind "duplex", `[methods."NAME"]`: they call their caller, and answer what it answers; or answer early, and call it
//! afterwards.
//!
//! They are for trying clients that take calls of a server, as FPNN's demo does. Their invariant: a stop waits for a call until its
//! caller has answered, or its time is up; and calls that wait take no place of calls that are worked on.

use super::section::DUPLEX_TIMEOUT_MS;
use super::{Constant, Section, as_it_came};
use crate::Served;
use millpond_calls::{PushAnswer, PushError, Pusher};
use millpond_wire_payload::{Map, Payload, Reserved, Value, decode_map};
use millpond_wire_schema::Status;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a method calls its caller.
pub(super) struct Duplex {
    /// The method that is called.
    push: String,
    /// What it is called with; the payload of its own call where there is none.
    payload: Option<Constant>,
    /// How long it may take.
    timeout: Duration,
    /// Whether it is asked for no answer.
    oneway: bool,
    /// What is answered before it is called; nothing: its answer is.
    early: Option<Constant>,
}

impl Duplex {
    pub(super) fn new(method: &Section) -> Duplex {
        let answer = method.answer.clone().unwrap_or_default();
        Duplex {
            push: method.push.clone().unwrap_or_default(),
            payload: method.payload.as_ref().map(Constant::new),
            oneway: method.oneway,
            timeout: Duration::from_millis(method.timeout_ms.unwrap_or(DUPLEX_TIMEOUT_MS)),
            early: method.early.then(|| Constant::new(&answer)),
        }
    }

    pub(super) fn serve(&self, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
        let reserved = Reserved::of(payload)?;
        let deadline = call.deadline(reserved.deadline_ms)?;
        let pusher = call.pusher()?;
        match &self.early {
            Some(early) => {
                let early = early.bytes(call.asked.encoding);
                call.answer(reserved.trace, |out| out.raw(early));
                self.afterwards(call, &pusher);
            }
            None => self.first(call, &pusher, deadline, reserved.trace)?,
        }
        Ok(())
    }

    /// Answers the call when its caller has answered.
    fn first(
        &self,
        call: &mut Served<'_>,
        pusher: &Pusher,
        deadline: Instant,
        trace: Option<&str>,
    ) -> Result<(), Status> {
        let permit = call.calls.admission.await_caller();
        let (detached, encoding) = (call.detach(Some(permit), trace)?, call.asked.encoding);
        let left = deadline.saturating_duration_since(Instant::now());
        self.ask(call, pusher, self.timeout.min(left), move |answer| {
            match answer.map_err(Status::from).and_then(checked) {
                Ok((answer, map)) => detached.answer(|out| match answer.encoding == encoding {
                    true => out.raw(as_it_came(encoding, answer.payload)),
                    // A peer that does not keep to the encoding it was called in.
                    false => out.value(&Value::Map(map)),
                }),
                Err(status) => detached.refuse(&status),
            }
        });
        Ok(())
    }

    /// Calls a caller that has its answer already; what comes of it is for the log alone.
    fn afterwards(&self, call: &Served<'_>, pusher: &Pusher) {
        let (calls, method) = (Arc::clone(call.calls), call.arrival.method);
        let log = move |told: Result<(), Status>| {
            let method = calls.methods.name(method);
            match told {
                Ok(()) => tracing::debug!(method, "the caller was called"),
                Err(status) => {
                    let code = status.code.number();
                    tracing::debug!(method, code, ex = ?status.ex, "the caller was called in vain");
                }
            }
        };
        if self.oneway {
            let told = pusher.tell(&self.push, call.asked.encoding, self.payload(call));
            return log(told.map_err(Status::from));
        }
        self.ask(call, pusher, self.timeout, move |answer| {
            log(answer.map_err(Status::from).and_then(checked).map(drop));
        });
    }

    fn ask(
        &self,
        call: &Served<'_>,
        pusher: &Pusher,
        timeout: Duration,
        on_answer: impl FnOnce(Result<PushAnswer<'_>, PushError>) + Send + 'static,
    ) {
        let (encoding, payload) = (call.asked.encoding, self.payload(call));
        pusher.ask(&self.push, encoding, payload, Some(timeout), Box::new(on_answer));
    }

    fn payload<'a>(&'a self, call: &'a Served<'_>) -> &'a [u8] {
        match &self.payload {
            Some(constant) => constant.bytes(call.asked.encoding),
            None => as_it_came(call.asked.encoding, call.asked.payload),
        }
    }
}

/// An answer that is one map, and no error.
fn checked(answer: PushAnswer<'_>) -> Result<(PushAnswer<'_>, Map<'_>), Status> {
    let map = decode_map(answer.encoding, answer.payload).map_err(|error| {
        let status = Status::from(error);
        Status::new(status.code, format!("the caller's answer: {}", status.ex))
    })?;
    if answer.status == 0 {
        return Ok((answer, map));
    }
    let told = Status::decode(&map);
    Err(Status::new(
        told.code,
        format!("the caller answered an error: {}", told.ex),
    ))
}
