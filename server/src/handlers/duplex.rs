//! Methods of kind "duplex", `[methods."NAME"]`: they call their caller, and answer what it answers; or answer early, and call it
//! afterwards.
//!
//! They are for trying clients that take calls of a server, as FPNN's demo does. Their invariant: a stop waits for a call until its
//! caller has answered, or its time is up; and calls that wait take no place of calls that are worked on.

use super::own::{admit, as_it_came};
use crate::methods::Duplex;
use crate::router::Call;
use crate::slow::ModelTime;
use millpond_wire_payload::{Map, Payload, Value, decode_map};
use millpond_wire_schema::Status;
use millpond_wire_transport::{PushAnswer, PushError, Pusher, Reply, Request};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) fn answer(call: &Call<'_>, request: &Request<'_>, duplex: &Duplex, mut reply: Reply<'_>) {
    let payload = match Payload::new(request.encoding, request.payload) {
        Ok(payload) => payload,
        Err(error) => return call.refuse(reply, &error.into()),
    };
    let admitted = admit(call, &payload).and_then(|admitted| Ok((admitted, reply.pusher()?)));
    let (admitted, pusher) = match admitted {
        Ok(admitted) => admitted,
        Err(status) => return call.refuse(reply, &status),
    };
    let trace = admitted.trace;
    let to_caller = ToCaller {
        pusher,
        request,
        duplex,
    };
    match &duplex.early {
        Some(early) => {
            let early = early.bytes(request.encoding);
            call.answer(reply, trace, |out| out.raw(early));
            to_caller.afterwards(call);
        }
        None => {
            let trace = trace.or(call.header_trace).map(str::to_owned);
            to_caller.first(call, reply, admitted.deadline, trace);
        }
    }
}

/// What is said to the caller, and how it is reached.
struct ToCaller<'a> {
    pusher: Pusher,
    request: &'a Request<'a>,
    duplex: &'a Duplex,
}

impl ToCaller<'_> {
    /// Answers the call when its caller has answered.
    fn first(&self, call: &Call<'_>, reply: Reply<'_>, deadline: Instant, trace: Option<String>) {
        let permit = call.shared.admission.await_caller();
        let (shared, arrival) = (Arc::clone(call.shared), call.arrival);
        let (mut ticket, encoding) = (reply.detach(), self.request.encoding);
        let left = deadline.saturating_duration_since(Instant::now());
        self.ask(self.duplex.timeout.min(left), move |answer| {
            match answer.map_err(Status::from).and_then(checked) {
                Ok((answer, map)) => {
                    let ready = Instant::now();
                    shared.answered(&arrival, ready, trace.as_deref(), ModelTime::default());
                    ticket.set_ready(ready, arrival.method.mark());
                    ticket.ok(|out| match answer.encoding == encoding {
                        true => out.raw(as_it_came(encoding, answer.payload)),
                        // A peer that does not keep to the encoding it was called in.
                        false => out.value(&Value::Map(map)),
                    });
                }
                Err(status) => {
                    shared.refused(&arrival, trace.as_deref(), &status);
                    ticket.error(&status);
                }
            }
            drop(permit);
        });
    }

    /// Calls a caller that has its answer already; what comes of it is for the log alone.
    fn afterwards(&self, call: &Call<'_>) {
        let (shared, method) = (Arc::clone(call.shared), call.arrival.method);
        let log = move |told: Result<(), Status>| {
            let method = shared.methods.name(method);
            match told {
                Ok(()) => tracing::debug!(method, "the caller was called"),
                Err(status) => {
                    let code = status.code.number();
                    tracing::debug!(method, code, ex = ?status.ex, "the caller was called in vain");
                }
            }
        };
        if self.duplex.oneway {
            let (push, payload) = (&self.duplex.push, self.payload());
            let told = self
                .pusher
                .tell(push, self.request.encoding, |out| out.raw(payload));
            return log(told.map_err(Status::from));
        }
        self.ask(self.duplex.timeout, move |answer| {
            log(answer.map_err(Status::from).and_then(checked).map(drop));
        });
    }

    fn ask(
        &self,
        timeout: Duration,
        on_answer: impl FnOnce(Result<PushAnswer<'_>, PushError>) + Send + 'static,
    ) {
        let (push, payload) = (&self.duplex.push, self.payload());
        self.pusher.ask(
            push,
            self.request.encoding,
            Some(timeout),
            |out| out.raw(payload),
            on_answer,
        );
    }

    fn payload(&self) -> &[u8] {
        match &self.duplex.payload {
            Some(constant) => constant.bytes(self.request.encoding),
            None => as_it_came(self.request.encoding, self.request.payload),
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
