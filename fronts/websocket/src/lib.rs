//! A WebSocket: a message layer around the native session, each binary message one whole frame.
//!
//! The connection was HTTP until it was answered 101. Its invariant: whatever ends it on this side, the peer is told by a close
//! frame, as long as the kernel takes one, and by nothing after it.
//! Source: RFC 6455; FPNN (github.com/highras/fpnn), core/WebSocketReceiver.cpp.

use millpond_calls::Service;
use millpond_fronts_answer::Serving;
use millpond_fronts_native::{Frames, NOT_FRAME, NativeOptions, PUSHES_BYTES};
use millpond_net::{Goodbye, Overdue, Received, Session, Turn, limited};
use millpond_wire_frame::websocket::{Event, Progress, Role, WebSocket, close_code, write_close, write_pong};
use millpond_wire_frame::{Parsed, parse_frame};
use std::sync::Arc;
use std::time::Instant;

/// Lines of the log.
const NOT_WEBSOCKET: &str = "bad WebSocket frames";

/// Bytes of a session beside its messages: no other front's takes more.
pub const SESSION_BYTES: u64 = size_of::<Messages>() as u64 + PUSHES_BYTES;

/// Makes the session of a connection whose opening handshake is done.
pub fn upgrade<S: Service>(
    options: Arc<NativeOptions>,
) -> impl Fn() -> Box<dyn Session<Serving<S>>> + Send + Sync {
    move || {
        Box::new(Messages {
            reader: WebSocket::new(Role::Server, options.limits),
            frames: Frames::new(Arc::clone(&options), true),
        })
    }
}

/// The session of a WebSocket: unmasks messages and hands their frames to the native session.
struct Messages {
    reader: WebSocket,
    frames: Frames,
}

impl Messages {
    /// The event at the front, `scratch` being where its message is unmasked to.
    fn receive_to<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        input: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Received<Serving<S>> {
        let (event, used) = match self.reader.read(input, scratch) {
            Ok(Progress::Event { event, used }) => (event, used),
            Ok(Progress::Partial { used: 0, needed }) => return Received::More(needed),
            // Fragments are kept by the reader; what is missing is asked for next.
            Ok(Progress::Partial { used, .. }) => return Received::Piece(used),
            Err(error) => {
                limited!(info, turn.counters().quiet, NOT_WEBSOCKET, [peer = %turn.peer(), %error], "connection closed: bad WebSocket frame");
                return end(turn, error.close_code(), "");
            }
        };
        match event {
            Event::Message { bytes, text: false } => {
                if let Err(reason) = serve_message(&mut self.frames, local, turn, bytes) {
                    return end(turn, close_code::PROTOCOL, reason);
                }
            }
            Event::Message { text: true, .. } => {
                return end(turn, close_code::UNSUPPORTED, "frames come in binary messages");
            }
            Event::Ping(payload) => write_pong(turn.out(), payload, None),
            Event::Pong(_) => {}
            // Its calls in flight are not waited for: who has said that takes no messages any more.
            Event::Close { code, .. } => say_last_word(turn, code, ""),
        }
        // What may stand between the fragments of a message gives it no more time.
        match self.reader.is_joining() {
            true => Received::Piece(used),
            false => Received::Served(used),
        }
    }
}

/// Serves the frame that a message is, or says why that ends the connection.
fn serve_message<S: Service>(
    frames: &mut Frames,
    local: &Serving<S>,
    turn: &mut Turn<'_>,
    message: &[u8],
) -> Result<(), &'static str> {
    match parse_frame(message, frames.limits()) {
        Ok(Parsed::Whole { message: frame, len }) if len == message.len() => {
            return match frames.serve(local, turn, &frame) {
                true => Ok(()),
                false => Err("an answer to what was never asked"),
            };
        }
        Ok(_) => {
            limited!(info, turn.counters().quiet, NOT_FRAME, [peer = %turn.peer()], "connection closed: a message is not one whole frame");
        }
        Err(error) => {
            limited!(info, turn.counters().quiet, NOT_FRAME, [peer = %turn.peer(), %error], "connection closed: a message is not a frame");
            frames.refuse_frame(turn, message, error);
        }
    }
    Err("a message is one whole frame")
}

/// The bytes are no message of this protocol, which the peer is told.
fn end<S>(turn: &mut Turn<'_>, code: u16, reason: &str) -> Received<S> {
    say_last_word(turn, Some(code), reason);
    Received::Malformed
}

/// Writes the close frame. Answers that are made from now on have nowhere to go (RFC 6455, section 5.5.1), and none is waited for.
fn say_last_word(turn: &mut Turn<'_>, code: Option<u16>, reason: &str) {
    write_close(turn.out(), code, reason, None);
    turn.close_at_once();
}

impl<S: Service> Session<Serving<S>> for Messages {
    fn receive(&mut self, local: &Serving<S>, turn: &mut Turn<'_>, input: &[u8]) -> Received<Serving<S>> {
        let mut scratch = std::mem::take(turn.scratch);
        let received = self.receive_to(local, turn, input, &mut scratch);
        *turn.scratch = scratch;
        received
    }

    fn is_full(&self, in_flight: usize) -> bool {
        Session::<Serving<S>>::is_full(&self.frames, in_flight)
    }

    fn resumes(&self, in_flight: usize) -> bool {
        Session::<Serving<S>>::resumes(&self.frames, in_flight)
    }

    fn resume(&mut self, local: &Serving<S>, turn: &mut Turn<'_>) {
        self.frames.resume(local, turn);
    }

    fn refuse(&mut self, turn: &mut Turn<'_>, _: &[u8], _: &str) {
        let reason = "too much is held of messages that are not whole";
        say_last_word(turn, Some(close_code::TRY_AGAIN_LATER), reason);
        self.reader = WebSocket::new(Role::Server, self.frames.limits());
        self.frames.forget_held();
    }

    fn has_last_word(&self) -> bool {
        true
    }

    fn part(&mut self, turn: &mut Turn<'_>, why: Goodbye) {
        let (code, reason) = match why {
            Goodbye::Stop => (close_code::GOING_AWAY, "the server stops"),
            Goodbye::Crowded => (
                close_code::POLICY,
                "others came, and nothing was asked here for longest",
            ),
            Goodbye::Overdue(Overdue::Idle) => (close_code::GOING_AWAY, "nothing was asked for too long"),
            Goodbye::Overdue(Overdue::Request) => (close_code::POLICY, "a message took too long to come"),
            Goodbye::Overdue(Overdue::Write) => (close_code::POLICY, "answers were not read for too long"),
        };
        say_last_word(turn, Some(code), reason);
    }

    fn give_up(&mut self) {
        Session::<Serving<S>>::give_up(&mut self.frames);
    }

    fn awaits_peer(&self) -> bool {
        Session::<Serving<S>>::awaits_peer(&self.frames)
    }

    fn wake(&mut self, now: Instant) -> Option<Instant> {
        Session::<Serving<S>>::wake(&mut self.frames, now)
    }

    fn is_partial(&self) -> bool {
        self.reader.is_joining()
    }

    fn held_bytes(&self) -> usize {
        self.reader.held_bytes() + Session::<Serving<S>>::held_bytes(&self.frames)
    }
}
