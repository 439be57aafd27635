//! `ordered.clear`, by a thread of its own that waits for each step.
//! Its invariant: it is answered when no step is left.

use crate::ordered_write::status_of;
use crate::{Served, led_store, own_thread};
use millpond_calls::Spent;
use millpond_catalog::Catalog;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, Status, ordered_clear as schema};
use std::sync::Arc;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    // One that is too late already removes nothing.
    call.deadline(reserved.deadline_ms)?;
    let store = led_store(catalog, decoded.table.as_deref(), &reserved)?.clone();
    let permit = call.calls.admission.enter()?;
    let failures = Arc::clone(&catalog.store_failures);
    let call = call.detach(Some(permit), reserved.trace)?;
    own_thread::run("ordered-clear", move || {
        let mut call = call;
        match store.clear_wait() {
            Ok(removed) => {
                call.ready(Spent::default());
                let durability = store.durability().as_str().into();
                let answer = schema::Answer { removed, durability };
                call.ok(|out: &mut Encoder<'_>| schema::Answer::write(&answer, out));
            }
            Err(error) => {
                failures.note(&error);
                let mut status = status_of(&error);
                let ex = &status.ex;
                status.ex = format!("some keys may be removed already, and the next were not: {ex}");
                call.refuse(&status);
            }
        }
    })
}
