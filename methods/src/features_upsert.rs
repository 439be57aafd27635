//! `features.upsert`: handed to the log of the table's overlay and answered when it is as durable as configured.
//! Its invariant: "ok" is said only by the log's own callback, and nothing of a call waits that was not checked.

use crate::features_lookup::keys_of;
use crate::{Served, find};
use millpond_calls::Spent;
use millpond_catalog::Catalog;
use millpond_engines_features::{Error, Upsert, UpsertError, Upserted};
use millpond_wire_payload::Payload;
use millpond_wire_schema::{
    Code, FeaturesUpsert, Field as _, Method as _, Status, features_upsert as schema,
};
use std::sync::Arc;

/// What a key takes beside its row while it waits for the log.
const KEY_BYTES: usize = 24;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    call.deadline(reserved.deadline_ms)?;
    let name = &decoded.table;
    let table = find("feature table", &catalog.tables, name)?;
    let Some(overlay) = table.overlay() else {
        let ex = format!(
            "table {name:?} takes no upserts; give it a section [features.{name}.overlay] and restart the server"
        );
        return Err(Status::new(Code::ReadOnly, ex));
    };
    let written = keys_of(table, decoded.keys, decoded.texts)?;
    let removed = keys_of(table, decoded.remove, decoded.remove_texts)?;
    let bytes = decoded.values.len().saturating_mul(size_of::<f32>());
    let bytes = bytes.saturating_add((written.len() + removed.len()).saturating_mul(KEY_BYTES));
    let permit = call.calls.admission.enter_holding(bytes)?;
    let upsert = Upsert::new(table, written, &decoded.columns, &decoded.values, removed);
    let upsert = upsert.map_err(|error| refused(&error))?;
    let failures = Arc::clone(&catalog.store_failures);
    let name = name.clone().into_owned();
    let mut call = call.detach(Some(permit), reserved.trace)?;
    overlay.upsert(
        upsert,
        move |result: Result<Upserted, UpsertError>| match result {
            Ok(upserted) => {
                let ready = call.ready(Spent::default());
                tracing::debug!(
                    method = FeaturesUpsert::NAME,
                    us = ready.saturating_duration_since(call.arrival.received).as_micros() as u64,
                    sequence = upserted.sequence,
                    "answered"
                );
                let answer = schema::Answer {
                    sequence: upserted.sequence,
                    durability: upserted.durability.as_str().into(),
                };
                call.ok(|out| schema::Answer::write(&answer, out));
            }
            Err(error) => {
                failures.note_upsert(&name, &error);
                call.refuse(&status_of(&name, &error));
            }
        },
    );
    Ok(())
}

fn refused(error: &Error) -> Status {
    let code = match error {
        Error::Argument { name: "keys", .. } if error.to_string().contains("at most") => Code::TooLarge,
        _ => Code::BadArgument,
    };
    Status::new(code, error.to_string())
}

fn status_of(table: &str, error: &UpsertError) -> Status {
    use millpond_engines_features::QueueError;
    let code = match error {
        UpsertError::Full { .. } => Code::Full,
        UpsertError::Queue(QueueError::Closed) => Code::Stopping,
        // The bound on bytes is the server's (`Config::resources`).
        UpsertError::Queue(QueueError::BytesFull { waiting, bytes, max }) => {
            let ex = format!(
                "table {table:?}: upserts that wait hold {waiting} bytes already, this one has {bytes}, and {max} are allowed; try \
                 again later, send less at once, or raise server.in_flight_bytes_max"
            );
            return Status::new(Code::Overloaded, ex);
        }
        UpsertError::Queue(QueueError::Full { .. } | QueueError::Stands { .. }) => Code::Overloaded,
        UpsertError::OutcomeUnknown(_) | UpsertError::Queue(QueueError::OutcomeUnknown(_)) => {
            let ex = format!(
                "the log of table {table:?}'s overlay failed, and whether the upsert was written is unknown: it is not visible, and may \
                 be after a restart; see the server's log"
            );
            return Status::new(Code::OutcomeUnknown, ex);
        }
        UpsertError::Base(_) => {
            let ex = format!(
                "a file of table {table:?} was cut while it was served, so nothing was written; see the server's log, or send all columns"
            );
            return Status::new(Code::StorageFailed, ex);
        }
        // The client's answer names no file of this machine.
        _ => {
            let ex = format!(
                "the overlay of table {table:?} cannot write its log, so nothing was written; see the server's log"
            );
            return Status::new(Code::StorageFailed, ex);
        }
    };
    Status::new(code, format!("table {table:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_engines_features::QueueError;

    #[test]
    fn what_fails_names_the_table_and_what_bounds_it() {
        let check = |error: UpsertError, code, words: &[&str]| {
            let status = status_of("films", &error);
            assert_eq!(status.code, code);
            assert!(
                words
                    .iter()
                    .chain(&["films"])
                    .all(|word| status.ex.contains(word)),
                "{}",
                status.ex
            );
        };
        let full = UpsertError::Full {
            bytes: 90,
            more: 20,
            max: 100,
        };
        check(
            full,
            Code::Full,
            &[
                "90 bytes",
                "20 more",
                "100 are allowed",
                "features fold",
                "bytes_max",
            ],
        );
        let queue = UpsertError::Queue;
        check(
            queue(QueueError::Full { max: 7 }),
            Code::Overloaded,
            &["7 writes", "queue_max"],
        );
        let bytes = QueueError::BytesFull {
            waiting: 90,
            bytes: 20,
            max: 100,
        };
        check(
            queue(bytes),
            Code::Overloaded,
            &["90 bytes", "server.in_flight_bytes_max"],
        );
        check(queue(QueueError::Closed), Code::Stopping, &[]);
    }
}
