//! The payloads of every method: `wire/schema`, calls and answers.
//!
//! The first byte chooses the encoding, the rest is a payload, given to every schema: a peer may send anything to any
//! method. What must hold: what is read is written as what reads the same.

use crate::cuts::settings;
use crate::frame::held_max;
use crate::memory::within;
use millpond_wire_payload::{Encoding, Payload, decode_map};
use millpond_wire_schema::{METHODS, Status};

/// Feeds payloads; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn payload(data: &[u8]) {
    let ([choice], bytes) = settings(data);
    let encoding = match choice & 1 {
        0 => Encoding::Msgpack,
        _ => Encoding::Json,
    };
    for method in METHODS {
        for (side, schema) in [("call", method.call), ("answer", method.answer)] {
            within(held_max(data), || {
                let again = Payload::new(encoding, bytes).map(|payload| (schema.again)(&payload));
                assert!(
                    !matches!(again, Ok(Err(_))),
                    "a {side} of {}: {again:?}",
                    method.name
                );
            });
        }
    }
    within(held_max(data), || {
        let _ = decode_map(encoding, bytes).map(|map| Status::decode(&map));
    });
}
