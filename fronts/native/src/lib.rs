//! The native protocol: FPNN's frames, each a call or the answer to a push.
//!
//! While answers of the peer are awaited, its calls beyond the in-flight bound do not stop the reading: the answers may stand
//! behind them, and a call in flight may wait for just those. Such calls are held back, a few, and refused beyond that.
//! It knows no socket. Its invariants: calls that are held are served in their order, before any that came after them; what is no
//! frame is answered where it says which call it was, and ends the connection.
//! Source: FPNN (github.com/highras/fpnn), proto/FPMessage.h.

#[cfg(feature = "fpnn-encryption")]
mod channel;
mod form;
mod forwarded;
mod node;
mod pool;
mod pools;
mod pusher;

#[cfg(feature = "fpnn-encryption")]
pub use channel::Encryption;
pub use forwarded::{ForwardedOptions, forwarded};
pub use pool::{Names, NodePool, PoolOptions};
pub use pools::Pools;
pub use pusher::PUSH_BYTES_MAX;

use form::Form;
use millpond_calls::{Call, MethodId, PushAnswer, Pusher, Service};
use millpond_fronts_answer::{Duplex, Serving, answer, refuse, serve};
use millpond_net::{Front, Match, Received, Session, Turn, limited};
use millpond_wire_frame::{
    Encoding, Frame, FrameError, FrameKind, FrameProblem, Limits, Parsed, answer_form, parse_frame,
    payloads_of_alike,
};
use millpond_wire_schema::{Code, Status};
use pusher::Line;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The call that asks for encryption.
const KEY_METHOD: &str = "*key";
/// Bytes of calls that a connection holds back while it awaits its peer's answers.
const HELD_BYTES_MAX: usize = 64 << 10;
/// What a held call weighs beside its bytes.
const HELD_CALL_BYTES: usize = 128;
/// Bytes of a payload that is looked at before its turn: longer calls gain nothing by it.
const AHEAD_BYTES_MAX: usize = 128;
/// Calls that are looked at before their turns at a time.
const AHEAD_CALLS_MAX: usize = 8;

/// Bytes of a connection's channel.
#[cfg(feature = "fpnn-encryption")]
pub const CHANNEL_BYTES: u64 = size_of::<channel::Secure>() as u64;
/// This build has none.
#[cfg(not(feature = "fpnn-encryption"))]
pub const CHANNEL_BYTES: u64 = 0;

/// A line of the log.
pub const NOT_FRAME: &str = "bytes that are no frame";
const NOT_ASKED: &str = "answers to what was never asked";
const NOT_SECURE: &str = "encryption that was not agreed on, or not kept to";

/// The server's key for FPNN's encrypted channel: this build has none.
#[cfg(not(feature = "fpnn-encryption"))]
#[derive(Debug)]
pub enum Encryption {}

#[cfg(not(feature = "fpnn-encryption"))]
impl Encryption {
    fn layer(
        &self,
        _: Encoding,
        _: &[u8],
        _: usize,
        _: &Turn<'_>,
    ) -> Result<Box<dyn millpond_net::Layer>, String> {
        match *self {}
    }
}

/// What connections of frames may use.
#[derive(Debug, Clone)]
pub struct NativeOptions {
    /// Calls one connection may have unanswered; it is not read further while it has.
    pub in_flight_max: usize,
    /// Calls to its peer that wait for the answer.
    pub pushes_max: usize,
    /// Sizes of frames.
    pub limits: Limits,
    /// The key of FPNN's encrypted channel, for old clients; a call to `*key` is any other call without it.
    pub encryption: Option<Arc<Encryption>>,
    /// What they count.
    pub counters: Arc<Counters>,
}

millpond_metrics::counters! {
    /// What became of calls to peers, and of calls that waited for them.
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Of a port.
        METRICS {
            pub pushes: AtomicU64 = counter("millpond_pushes_total",
                "Calls sent to peers, with and without an answer."),
            pub push_answers: AtomicU64 = counter("millpond_push_answers_total", "Answers of peers that came in time."),
            pub push_timeouts: AtomicU64 = counter("millpond_push_timeouts_total",
                "Calls to peers that were given up."),
            pub push_answers_late: AtomicU64 = counter("millpond_push_answers_late_total",
                "Answers of peers that nobody waited for any more."),
            pub calls_refused: AtomicU64 = counter("millpond_calls_refused_duplex_total",
                "Calls refused (30101) because their connection had too many in flight and held back while its peer's answers \
                 were awaited; counted in millpond_errors_total besides."),
        }
    }
    and {
        /// Calls to peers that wait for an answer.
        pushes_waiting: AtomicU64,
    }
}

/// Bytes of what a session knows of pushes.
pub const PUSHES_BYTES: u64 = size_of::<Pushes>() as u64;

/// The front of frames; a port asks it last, as it takes what no other does.
pub fn front<S: Service>(options: Arc<NativeOptions>) -> Front<Serving<S>> {
    Box::new(move |_| Match::Yes(Box::new(Frames::new(Arc::clone(&options), false))))
}

/// The session of a connection of frames.
pub struct Frames {
    options: Arc<NativeOptions>,
    /// Frames are messages of a WebSocket.
    in_message: bool,
    /// A frame was served.
    called: bool,
    /// `*key` asks for encryption: its bytes came as they are.
    takes_key: bool,
    /// The next calls that were looked at before their turns.
    ahead: usize,
    /// It may be called, since somebody asked for the way.
    pushes: Option<Box<Pushes>>,
}

/// What a session knows of pushes, and of the calls that wait for their answers.
struct Pushes {
    line: Arc<Line>,
    held: VecDeque<Held>,
    held_bytes: usize,
}

/// A call that waits for others of its connection.
struct Held {
    name: String,
    encoding: Encoding,
    form: Form,
    payload: Vec<u8>,
    received: Instant,
}

impl Held {
    fn bytes(&self) -> usize {
        HELD_CALL_BYTES + self.name.len() + self.payload.len()
    }
}

impl Frames {
    /// Of a connection of frames, or of a WebSocket's messages.
    pub fn new(options: Arc<NativeOptions>, in_message: bool) -> Frames {
        Frames {
            options,
            in_message,
            called: false,
            takes_key: false,
            ahead: 0,
            pushes: None,
        }
    }

    /// Serves a frame; false if the connection is to end.
    #[inline]
    pub fn serve<S: Service>(&mut self, local: &Serving<S>, turn: &mut Turn<'_>, frame: &Frame<'_>) -> bool {
        self.serve_before(local, turn, frame, &[], &[])
    }

    /// Serves a frame of those bytes, with others behind it.
    #[inline]
    fn serve_before<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        frame: &Frame<'_>,
        bytes: &[u8],
        behind: &[u8],
    ) -> bool {
        let (encoding, in_message) = (frame.encoding, self.in_message);
        let (form, name) = match frame.kind {
            FrameKind::Oneway { method } => (Form::Oneway, method),
            FrameKind::Twoway { method, seq } => {
                let form = Form::Frame {
                    encoding,
                    seq,
                    in_message,
                };
                (form, method)
            }
            FrameKind::Answer { status, seq } => return self.take_answer(turn, frame, status, seq),
        };
        let is_first = !std::mem::replace(&mut self.called, true);
        if is_first {
            self.takes_key = !in_message && !turn.has_layer();
        }
        if self.takes_key
            && name == KEY_METHOD
            && let Some(encryption) = &self.options.encryption
        {
            return self.agree(turn, encryption, frame, form, is_first);
        }
        if self.must_hold(turn.in_flight()) {
            if let Some(status) = self.hold(turn.received(local.began()), turn, frame, name, form) {
                local.service.refused(local.service.find(name), &status);
            }
        } else {
            let call = local.call(turn, name, encoding, frame.payload);
            self.ahead = self.ahead.saturating_sub(1);
            if let Ok(method) = call.method
                && self.ahead == 0
                && !behind.is_empty()
            {
                self.ahead = look_ahead(local, method, encoding, (bytes, behind));
            }
            serve(turn, form, Some(self), |reply| local.service.call(&call, reply));
        }
        true
    }

    /// Answers the call that makes a connection an encrypted one; it must be the first, and false if it cannot be.
    fn agree(
        &self,
        turn: &mut Turn<'_>,
        encryption: &Encryption,
        frame: &Frame<'_>,
        form: Form,
        is_first: bool,
    ) -> bool {
        let agreed = if !is_first || matches!(form, Form::Oneway) {
            Err("it is not the first call, or wants no answer".to_owned())
        } else {
            let bytes_max = self.options.limits.frame_bytes_max;
            encryption.layer(frame.encoding, frame.payload, bytes_max, turn)
        };
        match agreed {
            Ok(layer) => {
                turn.set_layer(layer);
                answer(turn, form, None, |reply| reply.ok(|out| out.map(|_| ())));
                true
            }
            Err(error) => {
                limited!(info, turn.counters().quiet, NOT_SECURE, [peer = %turn.peer(), error], "connection closed: no key was agreed on");
                false
            }
        }
    }

    /// Takes the peer's answer; false if nothing was ever asked under that number.
    fn take_answer(&mut self, turn: &Turn<'_>, frame: &Frame<'_>, status: u8, seq: u32) -> bool {
        let answer = PushAnswer {
            status,
            encoding: frame.encoding,
            payload: frame.payload,
        };
        let pushes = self.pushes.as_ref();
        let was_asked = pushes.is_some_and(|pushes| pushes.line.take_answer(seq, answer));
        if !was_asked {
            limited!(info, turn.counters().quiet, NOT_ASKED, [peer = %turn.peer(), seq], "connection closed: an answer to what was never asked");
        }
        was_asked
    }

    /// Whether a call must wait for others, although the connection is read.
    #[inline]
    fn must_hold(&self, in_flight: usize) -> bool {
        let pushes = self.pushes.as_ref();
        pushes.is_some_and(|pushes| in_flight >= self.options.in_flight_max || !pushes.held.is_empty())
    }

    /// Keeps a call for later, or refuses it where too many are kept; returns what it was refused with.
    fn hold(
        &mut self,
        received: Instant,
        turn: &mut Turn<'_>,
        frame: &Frame<'_>,
        name: &str,
        form: Form,
    ) -> Option<Status> {
        let pushes = self.pushes.as_mut()?;
        let held = Held {
            name: name.to_owned(),
            encoding: frame.encoding,
            form,
            payload: frame.payload.to_vec(),
            received,
        };
        let bytes = pushes.held_bytes + held.bytes();
        if bytes <= HELD_BYTES_MAX {
            pushes.held_bytes = bytes;
            pushes.held.push_back(held);
            return None;
        }
        let refused = &self.options.counters.calls_refused;
        refused.fetch_add(1, Ordering::Relaxed);
        let ex = format!(
            "{} calls of this connection are in flight and more wait, while the server waits for its peer's answers; \
             call again when some are answered, or raise server.in_flight_per_connection_max",
            turn.in_flight()
        );
        let status = Status::new(Code::Overloaded, ex);
        refuse(turn, form, &status);
        Some(status)
    }

    /// Sizes of frames.
    pub fn limits(&self) -> Limits {
        self.options.limits
    }

    /// Held calls are served no more.
    pub fn forget_held(&mut self) {
        if let Some(pushes) = &mut self.pushes {
            (pushes.held, pushes.held_bytes) = (VecDeque::new(), 0);
        }
    }

    /// Says what is wrong with what is no frame, if it says which call it was.
    pub fn refuse_frame(&self, turn: &mut Turn<'_>, input: &[u8], error: FrameError) {
        if let Some(seq) = error.seq {
            // The reason in the caller's own encoding, as far as its flags name one.
            let json = input.get(5).is_some_and(|flags| flags & 0xc0 == 0x40);
            let form = Form::Frame {
                encoding: if json { Encoding::Json } else { Encoding::Msgpack },
                seq,
                in_message: self.in_message,
            };
            let code = match error.problem {
                FrameProblem::TooLarge { .. } => Code::TooLarge,
                _ => Code::InvalidPackage,
            };
            refuse(turn, form, &Status::new(code, error.to_string()));
        }
    }
}

/// Tells of the next calls where their frames are there already, are short, and call the same method as the first; returns how many.
fn look_ahead<S: Service>(
    local: &Serving<S>,
    method: MethodId,
    encoding: Encoding,
    (call, behind): (&[u8], &[u8]),
) -> usize {
    let mut payloads = [[].as_slice(); AHEAD_CALLS_MAX];
    let short = payloads_of_alike(call, behind).take_while(|payload| payload.len() <= AHEAD_BYTES_MAX);
    let mut calls = 0;
    for (place, payload) in payloads.iter_mut().zip(short) {
        *place = payload;
        calls += 1;
    }
    local.service.look_ahead(method, encoding, &payloads[..calls]);
    calls
}

impl Duplex for Frames {
    fn pusher(&mut self, turn: &mut Turn<'_>) -> Pusher {
        let (options, in_message) = (&self.options, self.in_message);
        let pushes = self.pushes.get_or_insert_with(|| {
            let line = Line::new(Arc::clone(options), in_message, turn.push_outlet());
            Box::new(Pushes {
                line: Arc::new(line),
                held: VecDeque::new(),
                held_bytes: 0,
            })
        });
        Arc::<Line>::clone(&pushes.line)
    }
}

impl<S: Service> Session<Serving<S>> for Frames {
    fn receive(&mut self, local: &Serving<S>, turn: &mut Turn<'_>, input: &[u8]) -> Received<Serving<S>> {
        match parse_frame(input, self.options.limits) {
            Ok(Parsed::Whole { message, len }) => {
                let (bytes, behind) = input.split_at_checked(len).unwrap_or((input, &[]));
                match self.serve_before(local, turn, &message, bytes, behind) {
                    true => Received::Served(len),
                    false => Received::Malformed,
                }
            }
            Ok(Parsed::Partial { needed }) => Received::More(needed),
            Err(error) => {
                let what = match error.problem {
                    FrameProblem::TooLarge { .. } => "a frame over the limit",
                    _ => "not a frame",
                };
                limited!(info, turn.counters().quiet, NOT_FRAME, [peer = %turn.peer(), %error], "connection closed: {what}");
                self.refuse_frame(turn, input, error);
                Received::Malformed
            }
        }
    }

    #[inline]
    fn is_full(&self, in_flight: usize) -> bool {
        in_flight >= self.options.in_flight_max && !Session::<Serving<S>>::awaits_peer(self)
    }

    fn resumes(&self, in_flight: usize) -> bool {
        let pushes = self.pushes.as_ref();
        pushes.is_some_and(|pushes| !pushes.held.is_empty() && in_flight < self.options.in_flight_max)
    }

    fn resume(&mut self, local: &Serving<S>, turn: &mut Turn<'_>) {
        let Some(pushes) = &mut self.pushes else { return };
        let Some(held) = pushes.held.pop_front() else {
            return;
        };
        pushes.held_bytes -= held.bytes();
        let call = Call {
            received: held.received,
            ..local.call(turn, &held.name, held.encoding, &held.payload)
        };
        serve(turn, held.form, Some(self), |reply| {
            local.service.call(&call, reply)
        });
    }

    fn refuse(&mut self, turn: &mut Turn<'_>, input: &[u8], why: &str) {
        if let Some((encoding, seq)) = answer_form(input, self.options.limits) {
            let form = Form::Frame {
                encoding,
                seq,
                in_message: false,
            };
            refuse(turn, form, &Status::new(Code::Overloaded, why));
        }
        self.forget_held();
    }

    fn give_up(&mut self) {
        if let Some(pushes) = &self.pushes {
            pushes.line.close();
        }
    }

    fn awaits_peer(&self) -> bool {
        let pushes = self.pushes.as_ref();
        pushes.is_some_and(|pushes| pushes.line.awaits_peer())
    }

    fn wake(&mut self, now: Instant) -> Option<Instant> {
        self.pushes.as_ref()?.line.time_out(now)
    }

    fn held_bytes(&self) -> usize {
        self.pushes.as_ref().map_or(0, |pushes| pushes.held_bytes)
    }
}
