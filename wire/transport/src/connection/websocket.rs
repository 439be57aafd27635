//! One event at the front of a WebSocket's input: each binary message holds one whole frame.
//!
//! The connection was HTTP until it was answered 101. Its invariant: whatever ends it on this side, the peer is told by a close
//! frame, as long as the kernel takes one, and by nothing after it.
//! Source: RFC 6455; fpnn-wire.md, 1.5.

use super::requests::{Step, call_frame, refuse_frame};
use super::{Connection, Turn};
use crate::net_thread::{Net, Room};
use crate::quiet::{Cause, LeftOut};
use crate::service::Service;
use crate::timers::Overdue;
use millpond_wire_frame::websocket::{Event, Progress, WebSocket, close_code, write_close, write_pong};
use millpond_wire_frame::{Parsed, parse_frame};

pub(super) fn serve_websocket<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    websocket: &mut WebSocket,
    rest: &[u8],
    message: &mut Vec<u8>,
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
            if let Some(LeftOut(left_out)) = net.counters.quiet.admits(Cause::NotWebSocket) {
                tracing::info!(peer = %connection.peer, %error, left_out, "connection closed: bad WebSocket frame");
            }
            connection.write_last_word(Some(error.close_code()), "");
            return Step::Malformed;
        }
    };
    match event {
        Event::Message { bytes, text: false } => {
            if !serve_message(net, connection, bytes) {
                return Step::Malformed;
            }
        }
        Event::Message { text: true, .. } => {
            let reason = "frames come in binary messages";
            connection.write_last_word(Some(close_code::UNSUPPORTED), reason);
            return Step::Malformed;
        }
        Event::Ping(payload) => write_pong(&mut connection.out, payload, None),
        Event::Pong(_) => {}
        Event::Close { code, .. } => {
            // Its calls in flight are not waited for: who has said that takes no messages any more.
            connection.write_last_word(code, "");
        }
    }
    Step::Served(used)
}

/// Serves the frame that a message is; false if it is none.
fn serve_message<S: Service>(net: &Net<S>, connection: &mut Connection, message: &[u8]) -> bool {
    match parse_frame(message, net.options.limits) {
        Ok(Parsed::Whole { message: frame, len }) if len == message.len() => {
            if call_frame(net, connection, &frame, true) {
                return true;
            }
            let reason = "an answer to what was never asked";
            connection.write_last_word(Some(close_code::PROTOCOL), reason);
            return false;
        }
        Ok(_) => {
            if let Some(LeftOut(left_out)) = net.counters.quiet.admits(Cause::NotFrame) {
                tracing::info!(peer = %connection.peer, left_out, "connection closed: a message is not one whole frame");
            }
        }
        Err(error) => {
            if let Some(LeftOut(left_out)) = net.counters.quiet.admits(Cause::NotFrame) {
                tracing::info!(peer = %connection.peer, %error, left_out, "connection closed: a message is not a frame");
            }
            refuse_frame(&mut connection.out, message, error, true);
        }
    }
    let reason = "a message is one whole frame";
    connection.write_last_word(Some(close_code::PROTOCOL), reason);
    false
}

/// Why this server ends a connection by its own will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goodbye {
    /// The peer has kept it waiting for too long.
    Overdue(Overdue),
    /// It stops.
    Stop,
    /// Another one came, and no connection has done nothing for longer.
    Crowded,
}

impl Goodbye {
    /// What a close frame says of it.
    fn words(self) -> (u16, &'static str) {
        match self {
            Goodbye::Stop => (close_code::GOING_AWAY, "the server stops"),
            Goodbye::Crowded => (
                close_code::POLICY,
                "others came, and nothing was asked here for longest",
            ),
            Goodbye::Overdue(Overdue::Idle) => (close_code::GOING_AWAY, "nothing was asked for too long"),
            Goodbye::Overdue(Overdue::Request) => (close_code::POLICY, "a message took too long to come"),
            Goodbye::Overdue(Overdue::Write) => (close_code::POLICY, "answers were not read for too long"),
        }
    }
}

impl Connection {
    /// Writes the close frame of a WebSocket. Answers that are made from now on have nowhere to go (RFC 6455, section 5.5.1), and
    /// none is waited for.
    pub(super) fn write_last_word(&mut self, code: Option<u16>, reason: &str) {
        write_close(&mut self.out, code, reason, None);
        self.flags.parted = true;
        self.flags.closing = true;
    }

    /// Ends the connection: a WebSocket's peer is told why, and has a moment to read it where the kernel takes all of it now.
    /// In a stop every peer to whom all is said has that moment: it may be sending, and a reset would take answers from it.
    pub(crate) fn say_goodbye<S: Service>(&mut self, net: &Net<S>, room: &mut Room, why: Goodbye) -> Turn {
        if why == Goodbye::Overdue(Overdue::Write) {
            self.reset_at_end();
        }
        let flags = &self.flags;
        if why == Goodbye::Stop && (flags.lingers || self.websocket.is_none()) {
            return self.part_quietly(net);
        }
        if self.websocket.is_none() || flags.closing || flags.broken || flags.lingers {
            return Turn::End;
        }
        self.give_up_pushes();
        self.borrow_out(room);
        let start = self.out.len();
        let (code, reason) = why.words();
        self.write_last_word(Some(code), reason);
        self.sealed(start);
        self.send(net, room);
        self.give_out_back(room);
        if self.flags.broken || self.unsent() > 0 {
            return Turn::End;
        }
        self.finish(net)
    }

    /// The end of a connection that has no word for it: the end of the stream, once all is said.
    fn part_quietly<S: Service>(&mut self, net: &Net<S>) -> Turn {
        if self.flags.lingers {
            return Turn::Wait;
        }
        if self.flags.broken || self.in_flight > 0 || self.unsent() > 0 {
            return Turn::End;
        }
        self.finish(net)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::rig::Rig;
    use super::*;
    use crate::mailbox::Delivery;
    use std::io::{Read as _, Write as _};

    #[test]
    fn the_close_frame_is_the_last_that_is_said() {
        let mut rig = Rig::upgraded();
        rig.connection.in_flight = 1;
        let turn = rig
            .connection
            .say_goodbye(&rig.net, &mut rig.room, Goodbye::Overdue(Overdue::Request));
        assert_eq!(turn, Turn::Linger);
        // An answer that comes too late.
        let late = Delivery {
            key: rig.connection.key(),
            bytes: b"late".to_vec(),
            close: false,
            ready: None,
        };
        rig.connection.deliver(&late, &rig.net, &mut rig.room);
        assert_eq!(rig.turns(1), Turn::Wait);
        assert_eq!(rig.connection.unsent(), 0);
        let mut said = Vec::new();
        rig.theirs.read_to_end(&mut said).unwrap();
        let mut close = Vec::new();
        write_close(
            &mut close,
            Some(close_code::POLICY),
            "a message took too long to come",
            None,
        );
        assert_eq!(said, close);
        let again = rig.connection.say_goodbye(&rig.net, &mut rig.room, Goodbye::Stop);
        assert_eq!(again, Turn::Wait, "it is said once");
    }

    #[test]
    fn a_peer_that_reads_nothing_is_not_waited_for() {
        let mut rig = Rig::upgraded();
        rig.connection.out = vec![7; 4 << 20];
        assert_eq!(rig.turns(1), Turn::Wait);
        assert!(rig.connection.unsent() > 0);
        let turn = rig
            .connection
            .say_goodbye(&rig.net, &mut rig.room, Goodbye::Overdue(Overdue::Write));
        assert_eq!(turn, Turn::End);
    }

    #[test]
    fn nobody_but_websockets_is_told() {
        let mut rig = Rig::connected();
        let overdue = Goodbye::Overdue(Overdue::Idle);
        let turn = rig.connection.say_goodbye(&rig.net, &mut rig.room, overdue);
        assert_eq!(turn, Turn::End);
        assert_eq!(rig.read_answers(), b"");
    }

    #[test]
    fn a_stop_reads_on_until_its_peer_goes() {
        let mut rig = Rig::connected();
        let turn = rig.connection.say_goodbye(&rig.net, &mut rig.room, Goodbye::Stop);
        assert_eq!(turn, Turn::Linger);
        // What comes too late does no harm: the peer reads the end of the stream, no reset.
        rig.theirs.write_all(b"too late").unwrap();
        assert_eq!(rig.turns(1), Turn::Wait);
        assert_eq!(rig.theirs.read(&mut [0; 8]).unwrap(), 0);
        let again = rig.connection.say_goodbye(&rig.net, &mut rig.room, Goodbye::Stop);
        assert_eq!(again, Turn::Wait, "it goes on for as long as it may");
        drop(rig.theirs.shutdown(std::net::Shutdown::Both));
        assert_eq!(rig.turns(2), Turn::End);
    }
}
