//! `*tune`: changes one setting of the running server, and answers with the setting's new value.
//! Its invariant: a change that would lock its caller out is refused, unless the call sets `force`.

use crate::Served;
use millpond_calls::Tuned;
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Field as _, Status, tune as schema};
use std::sync::Arc;

pub(crate) fn serve(call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, _) = schema::Call::decode(payload)?;
    let keeps = call.asked.caller.peer.ip().filter(|_| !decoded.force);
    match Arc::clone(call.host).tune(&decoded, keeps)? {
        Tuned::Done(answer) => call.answer(None, |out| schema::Answer::write(&answer, out)),
        Tuned::Asks(ask) => {
            // A stop waits for it; where the server is full of calls, tuning it is what may help.
            let permit = call.calls.admission.enter().ok();
            let call = call.detach(permit, None)?;
            ask(Box::new(move |decision| match decision {
                Ok(answer) => call.answer(|out| schema::Answer::write(&answer, out)),
                Err(status) => call.refuse(&status),
            }));
        }
    }
    Ok(())
}
