//! `*ping`: the server's clock, whatever else goes on.
//! Its invariant: it waits for nothing, and answers while the server warms up and drains.

use millpond_wire_schema::{Field as _, own::Pong};
use millpond_wire_transport::Reply;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn answer(reply: Reply<'_>) {
    let ts = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64);
    reply.ok(|out| Pong::write(&Pong { ts }, out));
}
