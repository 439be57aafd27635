//! `ordered.put`: handed to the store's log and answered when it is as durable as configured.
//! Its invariant: "ok" is said only by the log's own callback.

use crate::{Served, store};
use millpond_calls::Spent;
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Put, PutError, PutOutcome};
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Code, Field as _, Method as _, OrderedPut, Status, ordered_put as schema};
use std::sync::Arc;

/// What an entry takes beside its bytes while it waits for the log.
const ENTRY_BYTES: usize = 128;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let lengths = decoded.entries.iter().map(|(key, value)| key.len() + value.len());
    let bytes = lengths.map(|length| length + ENTRY_BYTES).sum();
    call.deadline(reserved.deadline_ms)?;
    let store = store(catalog, decoded.table.as_ref())?;
    let permit = call.calls.admission.enter_holding(bytes)?;
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
    let failures = Arc::clone(&catalog.store_failures);
    let mut call = call.detach(Some(permit), reserved.trace)?;
    let done = move |result: Result<PutOutcome, PutError>| match result {
        Ok(outcome) => {
            let ready = call.ready(Spent::default());
            tracing::debug!(
                method = OrderedPut::NAME,
                us = ready.saturating_duration_since(call.arrival.received).as_micros() as u64,
                entries = outcome.versions.len(),
                "answered"
            );
            let answer = schema::Answer {
                versions: outcome.versions,
                durability: outcome.durability.as_str().into(),
            };
            call.ok(|out| schema::Answer::write(&answer, out));
        }
        Err(error) => {
            failures.note(&error);
            call.refuse(&status_of(&error));
        }
    };
    if let Err(busy) = store.put(put, Box::new(done)) {
        (busy.done)(Err(busy.error));
    }
    Ok(())
}

fn status_of(error: &PutError) -> Status {
    let code = match error {
        PutError::Conflict { .. } => Code::Conflict,
        PutError::TooLarge { .. } => Code::TooLarge,
        PutError::Empty => Code::BadArgument,
        PutError::Full { .. } => Code::Full,
        PutError::QueueFull { .. } | PutError::QueueStands { .. } => Code::Overloaded,
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
        let stands = PutError::QueueStands {
            waiting: 90,
            bytes: 20,
            max: 100,
        };
        check(stands, &["90 bytes", "100 are allowed until it has drained"]);
    }
}
