//! `ordered.put`: handed to the store's log and answered when it is as durable as configured.
//! Its invariant: "ok" is said only by the log's own callback.

use super::store;
use crate::router::Call;
use millpond_calls::Reply;
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Error, Put, PutError};
use millpond_threads::{LeftOut, LineLimit};
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Code, Field as _, Status, ordered_put as schema};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What an entry takes beside its bytes while it waits for the log.
const ENTRY_BYTES: usize = 128;

pub(crate) fn answer(engines: &Catalog, call: &Call<'_>, payload: &Payload<'_>, reply: Reply<'_>) {
    let (decoded, reserved) = match schema::Call::decode(payload) {
        Ok(decoded) => decoded,
        Err(error) => return call.refuse(reply, &error.into()),
    };
    let lengths = decoded.entries.iter().map(|(key, value)| key.len() + value.len());
    let bytes = lengths.map(|length| length + ENTRY_BYTES).sum();
    let admitted = call
        .deadline(reserved.deadline_ms)
        .and_then(|_| store(engines, decoded.table.as_ref()))
        .and_then(|store| Ok((store, call.shared.admission.enter_holding(bytes)?)));
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
    let trace = reserved.trace.or(call.asked.meta.trace).map(str::to_owned);
    let mut ticket = reply.later();
    let done = move |result: Result<_, PutError>| {
        match result {
            Ok(outcome) => {
                let outcome: millpond_engines_ordered::PutOutcome = outcome;
                let (ready, trace) = (Instant::now(), trace.as_deref());
                shared.answered(&arrival, ready, trace, None);
                tracing::debug!(
                    method = "ordered.put",
                    us = ready.saturating_duration_since(arrival.received).as_micros() as u64,
                    entries = outcome.versions.len(),
                    "answered"
                );
                ticket.set_ready(ready, arrival.method.mark());
                let answer = schema::Answer {
                    versions: outcome.versions,
                    durability: outcome.durability.as_str().into(),
                };
                ticket.ok(|out| schema::Answer::write(&answer, out));
            }
            Err(error) => {
                shared.put_failures.note(&error);
                let status = status_of(&error);
                shared.refused(&arrival, trace.as_deref(), &status);
                ticket.error(&status);
            }
        }
        drop(permit);
    };
    if let Err(busy) = store.put(put, Box::new(done)) {
        (busy.done)(Err(busy.error));
    }
}

fn status_of(error: &PutError) -> Status {
    let code = match error {
        PutError::Conflict { .. } => Code::Conflict,
        PutError::TooLarge { .. } => Code::TooLarge,
        PutError::Empty => Code::BadArgument,
        PutError::Full { .. } => Code::Full,
        PutError::QueueFull { .. } => Code::Overloaded,
        // The store's bound is the server's (`Config::resources`).
        PutError::QueueBytesFull { waiting, bytes, max } => {
            let ex = format!(
                "puts that wait for the store hold {waiting} bytes already, this one has {bytes}, and {max} are allowed; try again \
                 later, put less at once, or raise server.in_flight_bytes_max"
            );
            return Status::new(Code::Overloaded, ex);
        }
        PutError::Closed => Code::Stopping,
        // The client's answer names no file of this machine.
        PutError::ReadOnly(_) | PutError::Storage(_) => {
            return Status::new(
                Code::StorageFailed,
                "the store cannot write its log, so nothing was written; see the server's log",
            );
        }
        PutError::OutcomeUnknown(_) => {
            return Status::new(
                Code::OutcomeUnknown,
                "the store's log failed, and whether the put was written is unknown: it is not visible, and may be after a \
                 restart; repeat it only with if_version or if_absent, or where twice does no harm; see the server's log",
            );
        }
        _ => Code::StorageFailed,
    };
    Status::new(code, error.to_string())
}

/// What the log is told of stores that fail. All puts after a failure that ended writing fail for the same one, which is logged
/// once a store; a disk that fails every write fails them often, so of others the log has a line a second.
#[derive(Default)]
pub(crate) struct PutFailures {
    /// What ended the writing of a store: no more than there are stores.
    ends: Mutex<Vec<Arc<Error>>>,
    others: LineLimit,
    /// Of stores at their `memory_bytes_max` it has a line a second too.
    full: LineLimit,
}

impl PutFailures {
    fn note(&self, error: &PutError) {
        if let PutError::Full { .. } = error
            && let Some(LeftOut(left_out)) = self.full.admits()
        {
            tracing::warn!(%error, left_out, "an ordered store is full");
        }
        let (PutError::Storage(cause) | PutError::OutcomeUnknown(cause) | PutError::ReadOnly(cause)) = error
        else {
            return;
        };
        if let Some(LeftOut(left_out)) = self.admits(cause) {
            tracing::error!(%error, left_out, "an ordered store cannot write its log");
        }
    }

    fn admits(&self, cause: &Arc<Error>) -> Option<LeftOut> {
        if !matches!(**cause, Error::ReadOnly { .. }) {
            return self.others.admits();
        }
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.iter().any(|end| Arc::ptr_eq(end, cause)) {
            return None;
        }
        ends.push(Arc::clone(cause));
        Some(LeftOut(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_names_what_bounds_it() {
        let check = |error: PutError, words: &[&str]| {
            let status = status_of(&error);
            assert_eq!(status.code, Code::Overloaded);
            assert!(words.iter().all(|word| status.ex.contains(word)), "{}", status.ex);
        };
        check(
            PutError::QueueFull { max: 7 },
            &["7 puts wait", "raise queue_max"],
        );
        let bytes = PutError::QueueBytesFull {
            waiting: 90,
            bytes: 20,
            max: 100,
        };
        check(bytes, &["90 bytes", "server.in_flight_bytes_max"]);
    }

    #[test]
    fn stores_that_failed_are_told_once_each() {
        let end = || {
            Arc::new(Error::ReadOnly {
                file: "log".into(),
                reason: "it failed".into(),
            })
        };
        let told = PutFailures::default();
        let (a, b) = (end(), end());
        let found = [&a, &b, &a, &b].map(|cause| told.admits(cause).is_some());
        assert_eq!(found, [true, true, false, false]);
        let other = Arc::new(Error::LogThreadDied);
        assert_eq!(told.admits(&other), Some(LeftOut(None)));
    }
}
