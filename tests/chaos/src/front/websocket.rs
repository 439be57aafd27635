//! Native frames in WebSocket messages.

use super::{Came, Socket, frames};
use millpond_wire_frame::websocket::{
    Event, Progress, Role, WebSocket, accept_key, write_message, write_pong,
};
use millpond_wire_frame::{Encoding, Limits};
use serde_json::Value;
use std::io::{self, Read as _, Write as _};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const MASK: [u8; 4] = [0x5a, 0x11, 0x0f, 0xc3];
/// An answer to the handshake is no longer.
const HEAD_BYTES_MAX: usize = 4096;

pub(super) fn reader() -> WebSocket {
    WebSocket::new(Role::Client, Limits::default())
}

/// Asks for the upgrade and reads the answer's head, which nothing follows unasked.
pub(super) fn shake_hands(socket: &mut Socket) -> io::Result<()> {
    write!(
        socket,
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {KEY}\r\n\r\n"
    )?;
    socket.flush()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        let mut byte = [0];
        if socket.read(&mut byte)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&byte);
    }
    let head = String::from_utf8_lossy(&head);
    if head.starts_with("HTTP/1.1 101 ") && head.contains(&accept_key(KEY)) {
        Ok(())
    } else {
        Err(io::Error::other(format!("no WebSocket: {head}")))
    }
}

/// Appends a call.
pub(super) fn write(
    out: &mut Vec<u8>,
    method: &str,
    seq: u32,
    encoding: Encoding,
    payload: &Value,
) -> io::Result<()> {
    let mut frame = Vec::new();
    frames::write(&mut frame, method, seq, encoding, payload)?;
    write_message(out, &frame, Some(MASK));
    Ok(())
}

/// Takes one message from the front of what came, answering pings on the way.
pub(super) fn read(
    websocket: &mut WebSocket,
    inbox: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    socket: &mut Socket,
) -> Result<Option<Came>, String> {
    loop {
        let (used, came) = match websocket
            .read(inbox, scratch)
            .map_err(|error| error.to_string())?
        {
            Progress::Partial { used, .. } => {
                inbox.drain(..used);
                return Ok(None);
            }
            Progress::Event { event, used } => match event {
                Event::Message { bytes, text: false } => {
                    let mut message = bytes.to_vec();
                    let came = frames::read(&mut message)?;
                    if came.is_none() || !message.is_empty() {
                        return Err("a message that is not one frame".to_owned());
                    }
                    (used, came)
                }
                Event::Message { text: true, .. } => return Err("a text message".to_owned()),
                Event::Close { .. } => (used, Some(Came::Closed)),
                Event::Ping(payload) => {
                    let mut pong = Vec::new();
                    write_pong(&mut pong, payload, Some(MASK));
                    // A connection that is gone is seen by the next read.
                    let _ = socket.write_all(&pong);
                    (used, None)
                }
                Event::Pong(_) => (used, None),
            },
        };
        inbox.drain(..used);
        if came.is_some() {
            return Ok(came);
        }
    }
}
