//! `ordered.promote`, by a thread of its own that waits for the store's log.
//! Its invariant: it is answered when the store takes writes.

use crate::{Served, own_thread, store};
use millpond_calls::Spent;
use millpond_catalog::Catalog;
use millpond_engines_ordered::FollowError;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, ordered_promote as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    call.deadline(reserved.deadline_ms)?;
    let store = store(catalog, decoded.table.as_deref())?.clone();
    let permit = call.calls.admission.enter()?;
    let call = call.detach(Some(permit), reserved.trace)?;
    own_thread::run("ordered-promote", move || {
        let mut call = call;
        match store.promote() {
            Ok(position) => {
                call.ready(Spent::default());
                let answer = schema::Answer {
                    epoch: position.epoch,
                    record: position.sequence,
                };
                call.ok(|out: &mut Encoder<'_>| schema::Answer::write(&answer, out));
            }
            Err(error) => call.refuse(&status_of(&error)),
        }
    })
}

fn status_of(error: &FollowError) -> Status {
    match error {
        FollowError::Closed => Status::new(Code::Stopping, error.to_string()),
        // The answer names no file of this machine.
        FollowError::Storage(_) => {
            tracing::error!(%error, "an ordered store was not promoted");
            let ex = "the store cannot write its log, so it was not promoted; see the server's log";
            Status::new(Code::StorageFailed, ex)
        }
        _ => Status::new(Code::Conflict, error.to_string()),
    }
}
