//! Frames appended to an output buffer: whole messages, or messages filled in place, and control frames.
//!
//! It fragments nothing. Its invariant: lengths are minimal and control frames fit. A server passes no mask key and a
//! client one for each frame (RFC 6455 section 5.1); the key is the caller's choice, from a source nobody can foresee.

use super::head::{CONTROL_BYTES_MAX, Opcode, head};
use super::mask::{MaskKey, append_unmasked, mask_in_place};

/// Bytes that [`begin_message`] leaves for the header without a key: two and a 16-bit length.
const HEAD_BYTES_RESERVED: usize = 4;

/// Appends a binary message in one frame.
pub fn write_message(out: &mut Vec<u8>, bytes: &[u8], mask: Option<MaskKey>) {
    write_frame(out, Opcode::Binary, bytes, mask);
}

/// Appends a pong that carries the ping's payload back (RFC 6455 section 5.5.3); past 125 bytes it is cut.
pub fn write_pong(out: &mut Vec<u8>, payload: &[u8], mask: Option<MaskKey>) {
    write_frame(out, Opcode::Pong, control_payload(payload), mask);
}

/// Appends a ping (RFC 6455 section 5.5.2); a payload past 125 bytes is cut.
pub fn write_ping(out: &mut Vec<u8>, payload: &[u8], mask: Option<MaskKey>) {
    write_frame(out, Opcode::Ping, control_payload(payload), mask);
}

/// Appends a close frame (RFC 6455 section 5.5.1): without a code it is empty, and a reason past 123 bytes is cut between
/// characters.
pub fn write_close(out: &mut Vec<u8>, code: Option<u16>, reason: &str, mask: Option<MaskKey>) {
    let Some(code) = code else {
        return write_frame(out, Opcode::Close, &[], mask);
    };
    let end = reason.floor_char_boundary(CONTROL_BYTES_MAX - 2);
    let mut payload = Vec::with_capacity(2 + end);
    payload.extend_from_slice(&code.to_be_bytes());
    payload.extend_from_slice(reason.get(..end).unwrap_or_default().as_bytes());
    write_frame(out, Opcode::Close, &payload, mask);
}

/// Where a message that is being written began.
#[derive(Debug, Clone, Copy)]
#[must_use = "the message has no header until finish_message"]
pub struct MessageStart {
    at: usize,
    mask: Option<MaskKey>,
}

/// Begins a binary message whose payload is appended to `out` by the caller; [`finish_message`] writes the header.
///
/// Four bytes are left for the header (and four for a key): the header of payloads from 126 to 65535 bytes, so those are
/// not moved. Below, at most 125 bytes move back by two; above, the payload moves on by six at the speed of memory, and
/// only there. Leaving the ten of the largest header would move every payload below 64 KiB, leaving two every one above 125.
pub fn begin_message(out: &mut Vec<u8>, mask: Option<MaskKey>) -> MessageStart {
    let at = out.len();
    out.resize(at + reserved(mask), 0);
    MessageStart { at, mask }
}

/// Writes the header of the message begun at `start`, and masks what was appended since where it is a client's.
/// A buffer cut to before that payload stays as it is.
pub fn finish_message(out: &mut Vec<u8>, start: MessageStart) {
    let MessageStart { at, mask } = start;
    let payload_at = at + reserved(mask);
    let Some(payload_bytes) = out.len().checked_sub(payload_at) else {
        return;
    };
    let (head, head_bytes) = head(Opcode::Binary, payload_bytes, mask);
    if let Some(key) = mask {
        mask_in_place(&mut out[payload_at..], key);
    }
    out.splice(at..payload_at, head[..head_bytes].iter().copied());
}

fn reserved(mask: Option<MaskKey>) -> usize {
    HEAD_BYTES_RESERVED + if mask.is_some() { 4 } else { 0 }
}

fn control_payload(payload: &[u8]) -> &[u8] {
    &payload[..payload.len().min(CONTROL_BYTES_MAX)]
}

/// Appends one unfragmented frame, of any kind.
pub(super) fn write_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], mask: Option<MaskKey>) {
    let (head, head_bytes) = head(opcode, payload.len(), mask);
    out.reserve(head_bytes + payload.len());
    out.extend_from_slice(&head[..head_bytes]);
    append_unmasked(out, payload, mask);
}
