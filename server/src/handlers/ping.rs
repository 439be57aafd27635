//! `*ping`: the server's clock, whatever else goes on.
//! Its invariant: it waits for nothing, and answers while the server warms up and drains.

use super::tell;
use crate::router::Call;
use millpond_calls::Reply;
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Field as _, own::Pong};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn answer(call: &Call<'_>, payload: &Payload<'_>, reply: Reply<'_>) {
    let ts = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64);
    tell(call, payload, reply, |out| Pong::write(&Pong { ts }, out));
}
