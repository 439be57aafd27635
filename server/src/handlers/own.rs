//! Methods of one's own, `[methods."NAME"]`: the payload as it came, or one map always.
//!
//! They are the shortest way through the server. Their invariant: what is echoed is one valid map, byte for byte as it
//! came: reserved keys included, and a key that occurs twice, twice.

use crate::config::method::map_of;
use crate::router::Call;
use millpond_calls::Reply;
use millpond_wire_payload::{Encoder, Encoding, Payload, Reserved, Value};
use millpond_wire_schema::Status;
use std::time::Instant;

pub(crate) fn echo(call: &Call<'_>, payload: &Payload<'_>, reply: Reply<'_>) {
    let bytes = as_it_came(call.asked.encoding, call.asked.payload);
    answer(call, payload, bytes, reply);
}

/// A payload's map, without the space around it.
pub(super) fn as_it_came(encoding: Encoding, payload: &[u8]) -> &[u8] {
    match encoding {
        Encoding::Msgpack => payload,
        Encoding::Json => payload.trim_ascii(),
    }
}

/// A map that was encoded at the start.
pub(crate) struct Constant {
    msgpack: Vec<u8>,
    json: Vec<u8>,
}

impl Constant {
    pub(crate) fn new(answer: &toml::Table) -> Constant {
        let value = Value::Map(map_of(answer));
        let encoded = |encoding| {
            let mut bytes = Vec::new();
            Encoder::new(&mut bytes, encoding, false).value(&value);
            bytes
        };
        Constant {
            msgpack: encoded(Encoding::Msgpack),
            json: encoded(Encoding::Json),
        }
    }

    /// The map's bytes.
    pub(crate) fn bytes(&self, encoding: Encoding) -> &[u8] {
        match encoding {
            Encoding::Msgpack => &self.msgpack,
            Encoding::Json => &self.json,
        }
    }

    pub(crate) fn answer(&self, call: &Call<'_>, payload: &Payload<'_>, reply: Reply<'_>) {
        answer(call, payload, self.bytes(call.asked.encoding), reply);
    }
}

fn answer(call: &Call<'_>, payload: &Payload<'_>, bytes: &[u8], reply: Reply<'_>) {
    match admit(call, payload) {
        Ok(admitted) => call.answer(reply, admitted.trace, |out| out.raw(bytes)),
        Err(status) => call.refuse(reply, &status),
    }
}

/// What a payload says for itself.
pub(super) struct Admitted<'p> {
    pub(super) trace: Option<&'p str>,
    pub(super) deadline: Instant,
}

/// Checks payload and deadline.
pub(super) fn admit<'p>(call: &Call<'_>, payload: &'p Payload<'_>) -> Result<Admitted<'p>, Status> {
    let reserved = Reserved::of(payload)?;
    Ok(Admitted {
        deadline: call.deadline(reserved.deadline_ms)?,
        trace: reserved.trace,
    })
}
