//! `*ping`: the server's clock, whatever else goes on.
//! Its invariant: it waits for nothing, and answers while the server warms up and drains.

use crate::{Served, tell};
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Status, system::Pong};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn serve(call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let ts = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64);
    tell::<Pong<'static>>(call, payload, &Pong { ts })
}
