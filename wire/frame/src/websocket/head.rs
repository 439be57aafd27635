//! The header of one WebSocket frame: read with every check that needs no other frame, and written.
//!
//! It looks at no payload. Its invariant: the order of its checks follows the order of the bytes, so how the input was cut
//! never changes the verdict. Source: RFC 6455 section 5.2.

use super::{MaskKey, Role};
use crate::WebSocketError;

/// Bytes of the largest header: two, a 64-bit length, a key.
const HEAD_BYTES_MAX: usize = 14;
/// Bytes of payload a control frame may have (RFC 6455 section 5.5).
pub(super) const CONTROL_BYTES_MAX: usize = 125;
const FIN: u8 = 0x80;
const RSV: u8 = 0x70;
const MASK: u8 = 0x80;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// A frame's header, checked.
#[derive(Debug)]
pub(super) struct Head {
    first_two: [u8; 2],
    pub(super) fin: bool,
    pub(super) opcode: Opcode,
    pub(super) mask: Option<MaskKey>,
    /// Bytes of the header itself.
    pub(super) bytes: usize,
    pub(super) payload_bytes: u64,
}

impl Head {
    /// The error for a header that is well-formed and stands in the wrong place.
    pub(super) fn refused(&self, problem: &'static str) -> WebSocketError {
        WebSocketError::Header {
            found: self.first_two,
            problem,
        }
    }
}

/// Reads the header at the front of `input`; `Err` inside holds the bytes needed for it.
///
/// # Errors
/// [`WebSocketError::Header`] alone.
pub(super) fn parse_head(input: &[u8], role: Role) -> Result<Result<Head, usize>, WebSocketError> {
    let Some(&found) = input.first_chunk::<2>() else {
        return Ok(Err(2));
    };
    let [first, second] = found;
    let refused = |problem| Err(WebSocketError::Header { found, problem });
    if first & RSV != 0 {
        return refused("a reserved bit is set; no extension was agreed on");
    }
    let opcode = match first & 0x0f {
        0 => Opcode::Continuation,
        1 => Opcode::Text,
        2 => Opcode::Binary,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return refused("an unknown opcode; expected 0, 1, 2, 8, 9 or 10"),
    };
    let fin = first & FIN != 0;
    let short = second & !MASK;
    let is_control = first & 0x08 != 0;
    if is_control && !fin {
        return refused("a fragmented control frame");
    }
    if is_control && usize::from(short) > CONTROL_BYTES_MAX {
        return refused("a control frame of more than 125 bytes");
    }
    let masked = second & MASK != 0;
    match role {
        Role::Server if !masked => return refused("an unmasked frame from a client"),
        Role::Client if masked => return refused("a masked frame from a server"),
        Role::Server | Role::Client => {}
    }
    let length_bytes = match short {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let Some(length) = input.get(2..2 + length_bytes) else {
        return Ok(Err(2 + length_bytes));
    };
    let long = length.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let payload_bytes = match (short, long) {
        (126, ..126) | (127, ..0x1_0000) => return refused("a length in more bytes than it needs"),
        (127, 0x8000_0000_0000_0000..) => return refused("a length of more than 63 bits"),
        (126 | 127, long) => long,
        (short, _) => u64::from(short),
    };
    let (key_at, key_bytes) = (2 + length_bytes, if masked { 4 } else { 0 });
    let bytes = key_at + key_bytes;
    let Some(key) = input.get(key_at..bytes) else {
        return Ok(Err(bytes));
    };
    Ok(Ok(Head {
        first_two: found,
        fin,
        opcode,
        mask: key.first_chunk().copied(),
        bytes,
        payload_bytes,
    }))
}

/// The header of an unfragmented frame of `payload_bytes`, its length in as few bytes as hold it; and how many of these bytes are
/// the header's.
pub(super) fn head(
    opcode: Opcode,
    payload_bytes: usize,
    mask: Option<MaskKey>,
) -> ([u8; HEAD_BYTES_MAX], usize) {
    let mut bytes = [0; HEAD_BYTES_MAX];
    bytes[0] = opcode as u8 | FIN;
    let (short, length_bytes) = match payload_bytes {
        ..126 => (payload_bytes as u8, 0),
        126..0x1_0000 => (126, 2),
        _ => (127, 8),
    };
    bytes[1] = short | if mask.is_some() { MASK } else { 0 };
    let length = (payload_bytes as u64).to_be_bytes();
    bytes[2..2 + length_bytes].copy_from_slice(&length[8 - length_bytes..]);
    let mut len = 2 + length_bytes;
    if let Some(key) = mask {
        bytes[len..len + 4].copy_from_slice(&key);
        len += 4;
    }
    (bytes, len)
}
