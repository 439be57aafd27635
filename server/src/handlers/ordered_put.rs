//! `ordered.put`: handed to the store's log and answered when it is as durable as configured.
//! Its invariant: "ok" is said only by the log's own callback.

use super::store;
use crate::router::Call;
use crate::slow::ModelTime;
use millpond_engines_ordered::{Put, PutError};
use millpond_wire_schema::frame::Map;
use millpond_wire_schema::{Code, Status, ordered_put as schema};
use millpond_wire_transport::Reply;
use std::sync::Arc;
use std::time::Instant;

pub(crate) fn answer(call: &Call<'_>, map: Map<'_>, reply: Reply<'_>) {
    let (decoded, reserved) = match schema::Call::decode(map) {
        Ok(decoded) => decoded,
        Err(error) => return call.refuse(reply, &error.into()),
    };
    let admitted = call
        .deadline(reserved.deadline_ms)
        .and_then(|_| store(call, decoded.table.as_ref()))
        .and_then(|store| Ok((store, call.shared.admission.enter()?)));
    let (store, permit) = match admitted {
        Ok(admitted) => admitted,
        Err(status) => return call.refuse(reply, &status),
    };
    let entries = decoded
        .entries
        .into_iter()
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect();
    let put = Put {
        entries,
        if_version: decoded.if_version,
        if_absent: decoded.if_absent,
    };
    let (shared, arrival) = (Arc::clone(call.shared), call.arrival);
    let trace = reserved.trace.as_deref().or(call.header_trace).map(str::to_owned);
    let mut ticket = reply.detach();
    let done = move |result: Result<_, PutError>| {
        match result {
            Ok(outcome) => {
                let outcome: millpond_engines_ordered::PutOutcome = outcome;
                let (ready, trace) = (Instant::now(), trace.as_deref());
                shared.answered(&arrival, ready, trace, ModelTime::default());
                tracing::debug!(
                    method = "ordered.put",
                    us = ready.saturating_duration_since(arrival.received).as_micros() as u64,
                    entries = outcome.versions.len(),
                    "answered"
                );
                ticket.set_ready(ready, arrival.method.mark());
                ticket.ok(|out| schema::encode_answer(out, &outcome.versions, outcome.durability.as_str()));
            }
            Err(error) => {
                let status = status_of(&error);
                shared.refused(&arrival, trace.as_deref(), &status);
                ticket.error(&status);
            }
        }
        drop(permit);
    };
    if let Err(busy) = store.put(put, Box::new(done)) {
        (busy.done)(Err(PutError::QueueFull));
    }
}

fn status_of(error: &PutError) -> Status {
    let code = match error {
        PutError::Conflict { .. } => Code::Conflict,
        PutError::TooLarge { .. } => Code::TooLarge,
        PutError::Empty => Code::BadArgument,
        PutError::QueueFull => Code::Overloaded,
        PutError::Closed => Code::Stopping,
        PutError::ReadOnly(_) | PutError::Storage(_) => {
            // Once, where it is consumed: the client's answer names no file of this machine.
            tracing::error!(%error, "a put was not written");
            return Status::new(
                Code::StorageFailed,
                "the store cannot write its log, so nothing was written; see the server's log",
            );
        }
        _ => Code::StorageFailed,
    };
    Status::new(code, error.to_string())
}
