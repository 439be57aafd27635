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

pub(crate) fn echo(call: &Call<'_>, request: &Request<'_>, reply: Reply<'_>) {
    let payload = match request.encoding {
        Encoding::Msgpack => request.payload,
        Encoding::Json => request.payload.trim_ascii(),
    };
    answer(call, request, payload, reply);
}

pub(crate) fn constant(call: &Call<'_>, request: &Request<'_>, constant: &Constant, reply: Reply<'_>) {
    answer(call, request, constant.bytes(request.encoding), reply);
}

fn answer(call: &Call<'_>, request: &Request<'_>, bytes: &[u8], reply: Reply<'_>) {
    match admit(call, request) {
        Ok(trace) => {
            call.answer(reply, trace.as_deref(), |out| out.raw(bytes));
        }
        Err(status) => call.refuse(reply, &status),
    }
}

/// Checks payload and deadline; returns the payload's trace.
fn admit<'r>(call: &Call<'_>, request: &Request<'r>) -> Result<Option<Cow<'r, str>>, Status> {
    if is_plain_map(request.encoding, request.payload) {
        call.open(None)?;
        call.deadline(None)?;
        return Ok(None);
    }
    let map = decode_map(request.encoding, request.payload)?;
    call.open(Some(&map))?;
    let (_, reserved) = Fields::root(map)?;
    call.deadline(reserved.deadline_ms)?;
    Ok(reserved.trace)
}
