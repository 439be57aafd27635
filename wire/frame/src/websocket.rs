//! WebSocket messages of one connection, either side: frames in, messages and control frames out.
//!
//! ```text
//! off bits field                               off size field
//!   0   1  FIN: the message ends here            2   2  u16 BE  where len is 126   (payload 126..=65535)
//!   0   3  RSV, zero without extensions          2   8  u64 BE  where len is 127   (payload from 65536)
//!   0   4  opcode: 0 continuation, 1 text,       .   4  masking key, frames of the client alone
//!          2 binary, 8 close, 9 ping, 10 pong    .   n  payload, byte i xor key[i mod 4]
//!   1   1  MASK
//!   1   7  len
//! ```
//! It is not the handshake, which is HTTP (see [`crate::HttpRequest::upgrade_websocket`] and [`crate::write_switching`]),
//! and knows no FPNN: a message is bytes. Its invariant: the size of a message, over all of its fragments, is checked
//! from the frame's header, before any of it is held. Source: RFC 6455; no extension is spoken.

mod head;
mod mask;
mod write;

use crate::{Limits, WebSocketError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use head::{Head, Opcode, parse_head};
use mask::append_unmasked;
use sha1::{Digest as _, Sha1};

pub use mask::MaskKey;
pub use write::{
    MessageStart, begin_message, finish_message, write_close, write_message, write_ping, write_pong,
};

/// Status codes of a close frame that this side sends (RFC 6455 section 7.4.1).
pub mod close_code {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: u16 = 1000;
    /// The server stops.
    pub const GOING_AWAY: u16 = 1001;
    /// The peer broke the protocol.
    pub const PROTOCOL: u16 = 1002;
    /// A kind of message that is not taken: text, where frames come in binary.
    pub const UNSUPPORTED: u16 = 1003;
    /// Text that is no UTF-8.
    pub const INVALID_TEXT: u16 = 1007;
    /// The peer may not do this.
    pub const POLICY: u16 = 1008;
    /// A message over the limit.
    pub const TOO_LARGE: u16 = 1009;
    /// The server failed.
    pub const INTERNAL: u16 = 1011;
    /// The server has no room now (IANA's registry of WebSocket close codes).
    pub const TRY_AGAIN_LATER: u16 = 1013;
}

/// Appended to the client's key before hashing (RFC 6455 section 1.3).
const ACCEPT_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`: base64 of the SHA-1 of key and GUID, 28 characters.
/// RFC 6455 section 4.2.2.
pub fn accept_key(sec_websocket_key: &str) -> String {
    let digest = Sha1::new()
        .chain_update(sec_websocket_key.trim().as_bytes())
        .chain_update(ACCEPT_GUID)
        .finalize();
    STANDARD.encode(digest)
}

/// Which end of the connection this side is; it decides whose frames must be masked (RFC 6455 section 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Reads masked frames.
    Server,
    /// Reads unmasked frames.
    Client,
}

/// What the peer said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole message, unmasked and with its fragments joined.
    Message {
        /// The payload, at most [`Limits::frame_bytes_max`] bytes; UTF-8 where `text` is set.
        bytes: &'a [u8],
        /// A text message. FPNN frames come in binary ones; who takes no text closes with [`close_code::UNSUPPORTED`].
        text: bool,
    },
    /// To be answered with [`write_pong`] and this payload, at most 125 bytes.
    Ping(&'a [u8]),
    /// The answer to a ping, or a sign of life; at most 125 bytes.
    Pong(&'a [u8]),
    /// To be answered with [`write_close`] unless this side closed first; nothing is read after it.
    Close {
        /// The status code, where one was sent.
        code: Option<u16>,
        /// The peer's words, at most 123 bytes.
        reason: &'a str,
    },
}

/// What came of the bytes at the front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Something to act on.
    Event {
        /// What it is.
        event: Event<'a>,
        /// Bytes of input done with.
        used: usize,
    },
    /// No event yet.
    Partial {
        /// Bytes of input done with all the same: fragments that are kept here until their message ends.
        used: usize,
        /// Bytes of input known to be needed behind those `used` (a lower bound).
        needed: usize,
    },
}

/// The reader of one connection: what it holds between reads is the message whose fragments are still coming.
#[derive(Debug)]
pub struct WebSocket {
    role: Role,
    bytes_max: usize,
    /// Fragments of the partial message, unmasked.
    joined: Vec<u8>,
    /// Whether the partial message is text; `None` between messages.
    joining: Option<bool>,
}

impl WebSocket {
    /// A reader for a fresh connection; it owns no memory until a fragment comes.
    pub fn new(role: Role, limits: Limits) -> Self {
        WebSocket {
            role,
            bytes_max: limits.frame_bytes_max,
            joined: Vec::new(),
            joining: None,
        }
    }

    /// Whether a message has begun and not ended: the peer that leaves now leaves in the middle of it.
    pub fn is_joining(&self) -> bool {
        self.joining.is_some()
    }

    /// Bytes of memory that hold fragments of the partial message.
    pub fn held_bytes(&self) -> usize {
        self.joined.capacity()
    }

    /// Reads on from the front of `input`, which starts where the last call's `used` ended.
    ///
    /// `scratch` takes the unmasked payload and may be shared between connections: nothing in it is needed after the
    /// event. A masked message of one frame is copied once, into it; an unmasked one is lent from `input`. It never grows
    /// past the larger of [`Limits::frame_bytes_max`] and 125 bytes.
    ///
    /// # Errors
    /// Any [`WebSocketError`]; the connection ends after it, with a close frame of its
    /// [`close_code`](WebSocketError::close_code).
    pub fn read<'b>(
        &mut self,
        input: &'b [u8],
        scratch: &'b mut Vec<u8>,
    ) -> Result<Progress<'b>, WebSocketError> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let head = match parse_head(rest, self.role)? {
                Ok(head) => head,
                Err(needed) => return Ok(Progress::Partial { used, needed }),
            };
            let needed = self.check(&head)?.saturating_add(head.bytes);
            let Some(payload) = rest.get(head.bytes..needed) else {
                return Ok(Progress::Partial { used, needed });
            };
            used += needed;
            let event = match head.opcode {
                Opcode::Text | Opcode::Binary if head.fin => {
                    let bytes = unmasked(payload, head.mask, scratch);
                    whole_message(bytes, head.opcode == Opcode::Text)?
                }
                Opcode::Text | Opcode::Binary | Opcode::Continuation => {
                    let text = self.join(&head, payload);
                    if !head.fin {
                        continue;
                    }
                    self.joining = None;
                    *scratch = std::mem::take(&mut self.joined);
                    whole_message(scratch, text)?
                }
                Opcode::Ping => Event::Ping(unmasked(payload, head.mask, scratch)),
                Opcode::Pong => Event::Pong(unmasked(payload, head.mask, scratch)),
                Opcode::Close => close_event(unmasked(payload, head.mask, scratch))?,
            };
            return Ok(Progress::Event { event, used });
        }
    }

    /// The payload's bytes, if the frame may come now and the message stays within its limit.
    fn check(&self, head: &Head) -> Result<usize, WebSocketError> {
        let joined = match (head.opcode, self.joining) {
            (Opcode::Continuation, None) => {
                return Err(head.refused("a continuation of no message"));
            }
            (Opcode::Text | Opcode::Binary, Some(_)) => {
                return Err(head.refused("a new message before the last fragment of the one before"));
            }
            (Opcode::Text | Opcode::Binary | Opcode::Continuation, _) => self.joined.len(),
            // At most 125 bytes, whatever the limit of messages is: the header's check has seen to it.
            (Opcode::Close | Opcode::Ping | Opcode::Pong, _) => return Ok(head.payload_bytes as usize),
        };
        let bytes = head.payload_bytes.saturating_add(joined as u64);
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= self.bytes_max => Ok(bytes - joined),
            _ => Err(WebSocketError::TooLarge {
                bytes,
                limit: self.bytes_max,
            }),
        }
    }

    /// Adds a fragment; whether its message is text.
    fn join(&mut self, head: &Head, payload: &[u8]) -> bool {
        let (len, capacity) = (self.joined.len(), self.joined.capacity());
        if len + payload.len() > capacity {
            // Doubled like any Vec, but never past the limit.
            let wanted = (2 * capacity).min(self.bytes_max).max(len + payload.len());
            self.joined.reserve_exact(wanted - len);
        }
        append_unmasked(&mut self.joined, payload, head.mask);
        *self.joining.get_or_insert(head.opcode == Opcode::Text)
    }
}

/// The payload without its mask: lent from the input, or copied.
fn unmasked<'b>(payload: &'b [u8], mask: Option<MaskKey>, scratch: &'b mut Vec<u8>) -> &'b [u8] {
    if mask.is_none() {
        return payload;
    }
    scratch.clear();
    scratch.reserve_exact(payload.len());
    append_unmasked(scratch, payload, mask);
    scratch
}

fn whole_message(bytes: &[u8], text: bool) -> Result<Event<'_>, WebSocketError> {
    if text && std::str::from_utf8(bytes).is_err() {
        return Err(WebSocketError::Text("a text message"));
    }
    Ok(Event::Message { bytes, text })
}

/// A close frame's payload: nothing, or a code and a reason (RFC 6455 sections 5.5.1 and 7.4).
fn close_event(payload: &[u8]) -> Result<Event<'_>, WebSocketError> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(Event::Close {
                code: None,
                reason: "",
            }),
            _ => Err(WebSocketError::CloseBody("one byte".to_owned())),
        };
    };
    let code = u16::from_be_bytes(*code);
    // 1004, 1005, 1006 and 1015 never stand in a frame; 1016..=2999 have no meaning; 1012..=1014 are IANA's.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(WebSocketError::CloseBody(format!("code {code}")));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| WebSocketError::Text("a close reason"))?;
    Ok(Event::Close {
        code: Some(code),
        reason,
    })
}

#[cfg(test)]
mod tests;
