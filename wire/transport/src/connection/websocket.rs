//! One event at the front of a WebSocket's input: each binary message holds one whole frame.
//!
//! The connection was HTTP until it was answered 101. Its invariant: whatever ends it, the peer is told by a close frame.
//! Source: RFC 6455; fpnn-wire.md, 1.5.

use super::Connection;
use super::requests::{Step, call_frame, refuse_frame};
use crate::net_thread::{Net, Room};
use crate::service::Service;
use millpond_wire_frame::websocket::{Event, Progress, WebSocket, close_code, write_close, write_pong};
use millpond_wire_frame::{Parsed, parse_frame};
use std::time::Instant;

pub(super) fn serve_websocket<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    websocket: &mut WebSocket,
    rest: &[u8],
    message: &mut Vec<u8>,
    received: Instant,
) -> Step {
    let (event, used) = match websocket.read(rest, message) {
        Ok(Progress::Event { event, used }) => (event, used),
        Ok(Progress::Partial { used: 0, needed }) => {
            return Step::Partial {
                needed,
                wants_continue: false,
            };
        }
        // Fragments are kept by the reader; what is missing is asked for next.
        Ok(Progress::Partial { used, .. }) => return Step::Served(used),
        Err(error) => {
            tracing::info!(peer = %connection.peer, %error, "connection closed: bad WebSocket frame");
            write_close(&mut connection.out, Some(error.close_code()), "", None);
            return Step::Malformed;
        }
    };
    match event {
        Event::Message { bytes, text: false } => {
            if !serve_message(net, connection, bytes, received) {
                return Step::Malformed;
            }
        }
        Event::Message { text: true, .. } => {
            let reason = "frames come in binary messages";
            write_close(&mut connection.out, Some(close_code::UNSUPPORTED), reason, None);
            return Step::Malformed;
        }
        Event::Ping(payload) => write_pong(&mut connection.out, payload, None),
        Event::Pong(_) => {}
        Event::Close { code, .. } => {
            write_close(&mut connection.out, code, "", None);
            connection.flags.closing = true;
        }
    }
    Step::Served(used)
}

/// Serves the frame that a message is; false if it is none.
fn serve_message<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    message: &[u8],
    received: Instant,
) -> bool {
    match parse_frame(message, net.options.limits) {
        Ok(Parsed::Whole { message: frame, len }) if len == message.len() => {
            if call_frame(net, connection, &frame, true, received) {
                return true;
            }
            let reason = "an answer to what was never asked";
            write_close(&mut connection.out, Some(close_code::PROTOCOL), reason, None);
            return false;
        }
        Ok(_) => {
            tracing::info!(peer = %connection.peer, "connection closed: a message is not one whole frame");
        }
        Err(error) => {
            tracing::info!(peer = %connection.peer, %error, "connection closed: a message is not a frame");
            refuse_frame(&mut connection.out, message, error, true);
        }
    }
    let reason = "a message is one whole frame";
    write_close(&mut connection.out, Some(close_code::PROTOCOL), reason, None);
    false
}

impl Connection {
    /// Says goodbye to a peer that has asked nothing for too long; false where it speaks no WebSocket, or the kernel has no room.
    pub(crate) fn say_goodbye(&mut self, room: &mut Room) -> bool {
        if self.websocket.is_none() || !self.flags.writable || self.unsent() > 0 {
            return false;
        }
        self.borrow_out(room);
        let start = self.out.len();
        let reason = "nothing was asked for too long";
        write_close(&mut self.out, Some(close_code::GOING_AWAY), reason, None);
        self.sealed(start);
        self.flags.closing = true;
        true
    }
}
