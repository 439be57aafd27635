//! Whole connections: any bytes, cut anywhere, to a transport over a real socket.
//!
//! The first byte is the seed of the cuts, the rest goes to the server. What must hold: the server answers with frames or
//! with HTTP, and closes; it never hangs, and never holds more than its limits allow.

use crate::cuts::{pieces, settings};
use crate::exchange::exchange;
use millpond_wire_frame::{FrameKind, Limits, Parsed, parse_frame};
use millpond_wire_payload::decode_map;

/// Feeds a connection; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn connection(data: &[u8]) {
    let ([seed], bytes) = settings(data);
    // A connection takes a while: byte by byte is for short ones.
    let seed = if bytes.len() > 64 { seed.min(254) } else { seed };
    let answers = exchange("plain", || None, &pieces(seed, bytes));
    frames(&answers);
}

/// Nothing but whole frames, or nothing but HTTP: the first request decides. What follows an answer by HTTP is not looked at,
/// because one to HEAD ends before the length that it tells.
pub(crate) fn frames(mut answers: &[u8]) {
    if answers.starts_with(b"HTTP/1.1 ") {
        let has_end = answers.windows(4).any(|four| four == b"\r\n\r\n");
        return assert!(has_end, "a head without an end");
    }
    while !answers.is_empty() {
        match parse_frame(answers, Limits::default()) {
            Ok(Parsed::Whole { message, len }) => {
                assert!(
                    matches!(message.kind, FrameKind::Answer { .. }),
                    "{:?}",
                    message.kind
                );
                let payload = decode_map(message.encoding, message.payload);
                assert!(payload.is_ok(), "{:02x?}: {payload:?}", message.payload);
                answers = &answers[len..];
            }
            other => panic!("{answers:02x?} is {other:?}"),
        }
    }
}
