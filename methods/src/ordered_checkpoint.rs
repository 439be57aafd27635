//! `ordered.checkpoint`, by a thread of its own that waits for it.
//! Its invariant: "ok" is said when the checkpoint is on the disk.

use crate::{Served, own_thread, store};
use millpond_calls::Spent;
use millpond_catalog::Catalog;
use millpond_engines_ordered::Error;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, ordered_checkpoint as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    call.deadline(reserved.deadline_ms)?;
    let store = store(catalog, decoded.table.as_deref())?.clone();
    if !store.durability().has_log() {
        return Err(Status::new(
            Code::BadArgument,
            "the store has no log (durability = \"memory\"), so there is nothing that a checkpoint would stand for",
        ));
    }
    let permit = call.calls.admission.enter()?;
    let call = call.detach(Some(permit), reserved.trace)?;
    own_thread::run("ordered-asked", move || {
        let mut call = call;
        match store.checkpoint() {
            Ok(checkpoint) => {
                call.ready(Spent::default());
                let answer = schema::Answer {
                    entries: checkpoint.entries,
                    bytes: checkpoint.bytes,
                    took_ms: u64::try_from(checkpoint.took.as_millis()).unwrap_or(u64::MAX),
                };
                call.ok(|out: &mut Encoder<'_>| schema::Answer::write(&answer, out));
            }
            Err(error) => call.refuse(&status_of(&error)),
        }
    })
}

fn status_of(error: &Error) -> Status {
    match error {
        Error::GivenUp(why) => Status::new(Code::Conflict, format!("no checkpoint was written: {why}")),
        // The answer names no file of this machine.
        _ => {
            tracing::error!(%error, "an ordered store has not written the checkpoint that it was asked for");
            let ex = "the store cannot write a checkpoint, and its log is kept whole; see the server's log";
            Status::new(Code::StorageFailed, ex)
        }
    }
}
