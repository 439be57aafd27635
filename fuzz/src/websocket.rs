//! WebSocket frames: the reader of either side, and what is written back.
//!
//! The first byte chooses side and limit, the second the cuts, the rest is what the peer sends. What must hold: however the
//! bytes are cut, the events and the refusal are the same; nothing is waited for beyond the limit; a message that was read
//! is read again when it is written.

use crate::cuts::{pieces, settings};
use crate::memory::within;
use millpond_wire_frame::Limits;
use millpond_wire_frame::websocket::{
    Event, MaskKey, Progress, Role, WebSocket, begin_message, finish_message, write_close, write_message,
    write_ping, write_pong,
};

const KEY: MaskKey = [0x37, 0xfa, 0x21, 0x3d];

/// An event that outlives its input.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Message(Vec<u8>, bool),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
    Refused(u16, String),
}

/// Feeds what a peer sends; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn websocket(data: &[u8]) {
    let ([choice, seed], stream) = settings(data);
    let (role, peer) = match choice & 1 {
        0 => (Role::Server, Role::Client),
        _ => (Role::Client, Role::Server),
    };
    let limits = Limits {
        frame_bytes_max: [16, 200, 1 << 10, 1 << 13][usize::from(choice >> 1) % 4],
    };
    within((1 << 18) + 64 * data.len(), || {
        let whole = read_pieces(role, limits, [stream]);
        assert_eq!(
            read_pieces(role, limits, pieces(seed, stream)),
            whole,
            "cut by {seed}"
        );
        if stream.len() <= 256 {
            assert_eq!(read_pieces(role, limits, stream.chunks(1)), whole, "byte by byte");
        }
        whole.iter().for_each(|seen| write_again(peer, limits, seen));
    });
}

/// Reads the pieces as they would come from a socket, up to a close or a refusal.
fn read_pieces<'p>(role: Role, limits: Limits, pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<Seen> {
    let mut socket = WebSocket::new(role, limits);
    let (mut input, mut scratch, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let (used, event) = match socket.read(&input, &mut scratch) {
                Ok(Progress::Event { event, used }) => (used, Some(seen(event))),
                Ok(Progress::Partial { used, needed }) => {
                    let left = input.len() - used;
                    assert!(needed > left, "waits for {needed} and has {left}");
                    let most = limits.frame_bytes_max.max(125) + 14;
                    assert!(needed <= most, "waits for {needed}, where {most} is the most");
                    (used, None)
                }
                Err(error) => {
                    found.push(Seen::Refused(error.close_code(), error.to_string()));
                    return found;
                }
            };
            assert!(used <= input.len());
            input.drain(..used);
            assert!(scratch.capacity() <= limits.frame_bytes_max.max(125));
            let Some(event) = event else { break };
            let ends = matches!(event, Seen::Close(..));
            found.push(event);
            if ends {
                return found;
            }
        }
    }
    found
}

fn seen(event: Event<'_>) -> Seen {
    match event {
        Event::Message { bytes, text } => Seen::Message(bytes.to_vec(), text),
        Event::Ping(payload) => Seen::Ping(payload.to_vec()),
        Event::Pong(payload) => Seen::Pong(payload.to_vec()),
        Event::Close { code, reason } => Seen::Close(code, reason.to_owned()),
    }
}

/// Sends an event back, to the other side.
fn write_again(peer: Role, limits: Limits, event: &Seen) {
    // A server reads masked frames.
    let mask = (peer == Role::Server).then_some(KEY);
    let mut out = Vec::new();
    let expected = match event {
        Seen::Message(bytes, _) => {
            write_message(&mut out, bytes, mask);
            let mut filled = Vec::new();
            let start = begin_message(&mut filled, mask);
            filled.extend_from_slice(bytes);
            finish_message(&mut filled, start);
            assert_eq!(filled, out, "filled in place, and copied");
            Seen::Message(bytes.clone(), false)
        }
        Seen::Ping(payload) => {
            write_pong(&mut out, payload, mask);
            Seen::Pong(payload.clone())
        }
        Seen::Pong(payload) => {
            write_ping(&mut out, payload, mask);
            Seen::Ping(payload.clone())
        }
        Seen::Close(code, reason) => {
            write_close(&mut out, *code, reason, mask);
            Seen::Close(*code, reason.clone())
        }
        Seen::Refused(code, reason) => {
            write_close(&mut out, Some(*code), reason, mask);
            let end = reason.floor_char_boundary(123);
            Seen::Close(Some(*code), reason[..end].to_owned())
        }
    };
    assert_eq!(read_pieces(peer, limits, [&out[..]]), [expected]);
}
