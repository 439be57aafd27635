//! Methods of one's own, `[methods."NAME"]`: the payload as it came, or one map always.
//!
//! They are the shortest way through the server. Their invariant: what is echoed is one valid map, byte for byte as it
//! came: reserved keys included, and a key that occurs twice, twice.

use crate::methods::Constant;
use crate::router::Call;
use millpond_wire_payload::{Encoding, Payload, Reserved};
use millpond_wire_schema::Status;
use millpond_wire_transport::{Reply, Request};
use std::time::Instant;

pub(crate) fn echo(call: &Call<'_>, request: &Request<'_>, reply: Reply<'_>) {
    answer(
        call,
        request,
        as_it_came(request.encoding, request.payload),
        reply,
    );
}

/// A payload's map, without the space around it.
pub(super) fn as_it_came(encoding: Encoding, payload: &[u8]) -> &[u8] {
    match encoding {
        Encoding::Msgpack => payload,
        Encoding::Json => payload.trim_ascii(),
    }
}

pub(crate) fn constant(call: &Call<'_>, request: &Request<'_>, constant: &Constant, reply: Reply<'_>) {
    answer(call, request, constant.bytes(request.encoding), reply);
}

fn answer(call: &Call<'_>, request: &Request<'_>, bytes: &[u8], reply: Reply<'_>) {
    let payload = match Payload::new(request.encoding, request.payload) {
        Ok(payload) => payload,
        Err(error) => return call.refuse(reply, &error.into()),
    };
    match admit(call, &payload) {
        Ok(admitted) => call.answer(reply, admitted.trace, |out| out.raw(bytes)),
        Err(status) => call.refuse(reply, &status),
    }
}

/// What a payload says for itself.
pub(super) struct Admitted<'p> {
    pub(super) trace: Option<&'p str>,
    pub(super) deadline: Instant,
}

/// Checks payload, token and deadline.
pub(super) fn admit<'p>(call: &Call<'_>, payload: &'p Payload<'_>) -> Result<Admitted<'p>, Status> {
    let reserved = Reserved::of(payload)?;
    call.open_with(reserved.token)?;
    Ok(Admitted {
        deadline: call.deadline(reserved.deadline_ms)?,
        trace: reserved.trace,
    })
}
