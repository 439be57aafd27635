//! Methods of one's own, `[methods."NAME"]`: the payload as it came, or one map always.
//!
//! They are the shortest way through the server. Their invariant: what is echoed is one valid map, byte for byte as it
//! came: reserved keys included, and a key that occurs twice, twice.

use crate::methods::Constant;
use crate::router::Call;
use millpond_wire_frame::{Encoding, Fields, decode_map, is_plain_map};
use millpond_wire_schema::Status;
use millpond_wire_transport::{Reply, Request};
use std::borrow::Cow;
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
    match admit(call, request) {
        Ok(admitted) => call.answer(reply, admitted.trace.as_deref(), |out| out.raw(bytes)),
        Err(status) => call.refuse(reply, &status),
    }
}

/// What a payload says for itself.
pub(super) struct Admitted<'r> {
    pub(super) trace: Option<Cow<'r, str>>,
    pub(super) deadline: Instant,
}

/// Checks payload and deadline.
pub(super) fn admit<'r>(call: &Call<'_>, request: &Request<'r>) -> Result<Admitted<'r>, Status> {
    if is_plain_map(request.encoding, request.payload) {
        call.open(None)?;
        return Ok(Admitted {
            trace: None,
            deadline: call.deadline(None)?,
        });
    }
    let map = decode_map(request.encoding, request.payload)?;
    call.open(Some(&map))?;
    let (_, reserved) = Fields::root(map)?;
    Ok(Admitted {
        deadline: call.deadline(reserved.deadline_ms)?,
        trace: reserved.trace,
    })
}
