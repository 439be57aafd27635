//! Calls that other processes of this server send on: frames whose payloads say what time is left, and that their callers were admitted.
//!
//! It asks for no token and knows no address: whoever listens with it lets nobody else connect. Its invariant: calls of a connection
//! are begun in their order.

use crate::form::Form;
use millpond_calls::{Call, Caller, Meta, Peer, Service, split_forwarded};
use millpond_fronts_answer::{Serving, refuse, serve};
use millpond_net::{Front, Match, Received, Session, Turn, limited};
use millpond_wire_frame::{Frame, FrameKind, Limits, Parsed, answer_form, parse_frame};
use millpond_wire_schema::{Code, Status};

/// A line of the log.
const NOT_FORWARDED: &str = "bytes of another process that are no call";

/// What each of their connections may use.
#[derive(Debug, Clone, Copy)]
pub struct ForwardedOptions {
    /// Calls unanswered; it is not read further while it has them.
    pub in_flight_max: usize,
    /// Sizes of frames.
    pub limits: Limits,
}

/// The front of such connections: a port speaks it alone.
pub fn forwarded<S: Service>(options: ForwardedOptions) -> Front<Serving<S>> {
    Box::new(move |_| Match::Yes(Box::new(Forwarded(options))))
}

struct Forwarded(ForwardedOptions);

impl Forwarded {
    /// Serves a call; what it is, where it is none.
    fn serve<S: Service>(
        &self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        frame: &Frame<'_>,
    ) -> Result<(), &'static str> {
        let FrameKind::Twoway { method, seq } = frame.kind else {
            return Err("a frame that wants no answer");
        };
        let (left_ms, payload) = split_forwarded(frame.payload).ok_or("a payload that says no time")?;
        let call = local.call(turn, method, frame.encoding, payload);
        let call = Call {
            meta: Meta {
                deadline_ms: Some(left_ms),
                ..Meta::default()
            },
            caller: Caller {
                peer: Peer::Process,
                ..call.caller
            },
            ..call
        };
        let form = Form::Process {
            encoding: frame.encoding,
            seq,
        };
        serve(turn, form, None, |reply| local.service.call(&call, reply));
        Ok(())
    }
}

impl<S: Service> Session<Serving<S>> for Forwarded {
    fn receive(&mut self, local: &Serving<S>, turn: &mut Turn<'_>, input: &[u8]) -> Received<Serving<S>> {
        let served = match parse_frame(input, self.0.limits) {
            Ok(Parsed::Whole { message, len }) => self.serve(local, turn, &message).map(|()| len),
            Ok(Parsed::Partial { needed }) => return Received::More(needed),
            Err(_) => Err("what is no frame"),
        };
        match served {
            Ok(len) => Received::Served(len),
            Err(what) => {
                limited!(
                    warn,
                    turn.counters().quiet,
                    NOT_FORWARDED,
                    [what],
                    "connection of another process of this server closed"
                );
                Received::Malformed
            }
        }
    }

    fn is_full(&self, in_flight: usize) -> bool {
        in_flight >= self.0.in_flight_max
    }

    fn refuse(&mut self, turn: &mut Turn<'_>, input: &[u8], why: &str) {
        if let Some((encoding, seq)) = answer_form(input, self.0.limits) {
            let status = Status::new(Code::Overloaded, why);
            refuse(turn, Form::Process { encoding, seq }, &status);
        }
    }
}
