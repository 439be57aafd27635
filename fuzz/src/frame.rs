//! Frames and payloads: `wire/frame` without HTTP and WebSocket.
//!
//! The input is a stream of frames; and, all of it, a payload in either encoding. What must hold: a frame that is read is
//! the one that would be written; a cut frame is never an error or another frame; a payload that decodes is written as one
//! that decodes to the same.

use crate::memory::within;
use millpond_wire_frame::{Encoding, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::{Encoder, Map, Payload, Reserved, Value, decode_map};

const LIMITS: Limits = Limits {
    frame_bytes_max: 1 << 12,
};

/// Feeds frames and payloads; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn frame(data: &[u8]) {
    within(held_max(data), || {
        frames(data);
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            payload(encoding, data);
        }
    });
}

/// A byte of payload becomes at most a value of 32 bytes in a vector that grows by doubling; arrays that announce more than
/// they hold cost a little for each level of nesting. The factor covers the tree, its copy in bytes and both read again.
pub(crate) fn held_max(data: &[u8]) -> usize {
    (1 << 20) + 512 * data.len()
}

fn frames(data: &[u8]) {
    let mut rest = data;
    while let Ok(parsed) = parse_frame(rest, LIMITS) {
        let (frame, len) = match parsed {
            Parsed::Whole { message, len } => (message, len),
            Parsed::Partial { needed, .. } => {
                assert!(needed > rest.len(), "waits for {needed} and has {}", rest.len());
                assert!(needed <= LIMITS.frame_bytes_max.max(16), "waits for {needed}");
                return;
            }
        };
        let mut written = Vec::new();
        let wrote = write_frame(&mut written, frame.encoding, frame.kind, frame.payload);
        assert!(wrote.is_ok(), "what was read cannot be written: {wrote:?}");
        assert_eq!(written, rest[..len], "what was read is written as something else");
        for cut in [1, 11, 12, 15, 16, len / 2, len - 1] {
            let cut = cut.min(len - 1);
            match parse_frame(&rest[..cut], LIMITS) {
                Ok(Parsed::Partial { needed, .. }) => assert!(needed > cut && needed <= len),
                other => panic!("the first {cut} of {len} bytes are {other:?}"),
            }
        }
        payload(frame.encoding, frame.payload);
        rest = &rest[len..];
    }
}

/// Decodes a payload and holds it to being written and read again.
pub(crate) fn payload(encoding: Encoding, bytes: &[u8]) {
    let decoded = decode_map(encoding, bytes);
    let skipped = Payload::new(encoding, bytes).and_then(|payload| Reserved::of(&payload).map(drop));
    match (&skipped, &decoded) {
        (Ok(()), Err(error)) => {
            // A key that stands twice is the one thing that is not looked for there.
            let is_twin = error.to_string().contains("occurs twice");
            assert!(is_twin, "skipped, and {error}");
        }
        // What is under a reserved key is looked at.
        (Err(error), Ok(_)) => assert!(error.to_string().contains("key \"_"), "decoded, and {error}"),
        _ => {}
    }
    let Ok(map) = decoded else { return };
    let written = write(encoding, map);
    match decode_map(encoding, &written) {
        // Bytes are compared and not trees: NaN is not equal to itself.
        Ok(again) => assert_eq!(write(encoding, again), written, "it changes when it is written"),
        Err(error) => panic!("what was read is written as {written:02x?}: {error}"),
    }
}

fn write(encoding: Encoding, map: Map<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out, encoding, false).value(&Value::Map(map));
    out
}
