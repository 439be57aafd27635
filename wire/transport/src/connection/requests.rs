//! One request at the front of a connection's input: parsed, called, and answered where it cannot be called.
//!
//! It does not read or write. Its invariant: whatever the bytes are, the connection learns how many of them are done with.

use super::Connection;
use crate::Counters;
use crate::answer::Form;
use crate::encryption::Encryption;
use crate::net_thread::{Kind, Net};
use crate::quiet::{Cause, LeftOut};
use crate::service::{Meta, Origin, Outcome, Reply, Request, Service, Target};
use millpond_wire_frame::{Encoding, Frame, FrameError, FrameKind, Parsed, parse_frame};
use millpond_wire_schema::{Code, Status};
use std::time::Instant;

/// The call that asks for encryption.
const KEY_METHOD: &str = "*key";

/// What came of the bytes at the front.
pub(super) enum Step {
    Served(usize),
    Partial { needed: usize, wants_continue: bool },
    Malformed,
}

/// The message at the front and its length, or what comes of the bytes without one; `refuse` answers what is none.
pub(super) fn whole<T, E>(parsed: Result<Parsed<T>, E>, refuse: impl FnOnce(E)) -> Result<(T, usize), Step> {
    match parsed {
        Ok(Parsed::Whole { message, len }) => Ok((message, len)),
        Ok(Parsed::Partial {
            needed,
            wants_continue,
        }) => Err(Step::Partial {
            needed,
            wants_continue,
        }),
        Err(error) => {
            refuse(error);
            Err(Step::Malformed)
        }
    }
}

#[inline]
pub(super) fn serve_frame<S: Service>(net: &Net<S>, connection: &mut Connection, rest: &[u8]) -> Step {
    let parsed = whole(parse_frame(rest, net.options.limits), |error| {
        if let Some(LeftOut(left_out)) = net.counters.quiet.admits(Cause::NotFrame) {
            tracing::info!(peer = %connection.peer, %error, left_out, "connection closed: not a frame");
        }
        refuse_frame(&mut connection.out, rest, error, false);
    });
    let (frame, len) = match parsed {
        Ok(whole) => whole,
        Err(step) => return step,
    };
    if call_frame(net, connection, &frame, false) {
        Step::Served(len)
    } else {
        Step::Malformed
    }
}

/// Calls what a frame asks for; it came in a message of a WebSocket, or as it is. False if the connection is to end.
#[inline]
pub(super) fn call_frame<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    frame: &Frame<'_>,
    in_message: bool,
) -> bool {
    let (form, method) = match frame.kind {
        FrameKind::Oneway { method } => (Form::Oneway, method),
        FrameKind::Twoway { method, seq } => (
            Form::Frame {
                encoding: frame.encoding,
                seq,
                in_message,
            },
            method,
        ),
        FrameKind::Answer { status, seq } => {
            return connection.take_answer(&net.counters, frame, status, seq);
        }
    };
    if method == KEY_METHOD
        && !in_message
        && connection.tls.is_none()
        && let Some(encryption) = &net.options.encryption
    {
        return agree(&net.counters, connection, encryption, frame, form);
    }
    let received = net.clock.began();
    if connection.must_hold(net.options.in_flight_max) {
        if let Some(status) = connection.hold(&net.counters, frame, method, form, received) {
            net.service.refused(method, &status);
        }
    } else {
        let asked = (method, frame.encoding, frame.payload);
        serve_call(net, connection, asked, form, received);
    }
    true
}

/// Calls a method by its name, with a payload in its encoding.
#[inline]
pub(super) fn serve_call<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    (method, encoding, payload): (&str, Encoding, &[u8]),
    form: Form,
    received: Instant,
) {
    let request = Request {
        target: Target::Method(method),
        encoding,
        payload,
        meta: Meta::default(),
        received,
        clock: &net.clock,
        peer: connection.peer,
        connection: connection.key.generation,
        encrypted: connection.is_encrypted(),
        rehearsal: connection.kind == Kind::Rehearsal,
    };
    call(net, connection, form, request);
}

/// Answers the call that makes a connection an encrypted one; it must be the first, and false if it cannot be.
fn agree(
    counters: &Counters,
    connection: &mut Connection,
    encryption: &Encryption,
    frame: &Frame<'_>,
    form: Form,
) -> bool {
    let agreed = if connection.flags.called || matches!(form, Form::Oneway) {
        Err("it is not the first call, or wants no answer".to_owned())
    } else {
        encryption.agree(frame.encoding, frame.payload)
    };
    match agreed {
        Ok(secure) => {
            connection.secure = Some(Box::new(secure));
            connection.flags.secured = true;
            form.ok(&mut connection.out, false, |out| {
                out.map(|_| ());
            });
            true
        }
        Err(error) => {
            if let Some(LeftOut(left_out)) = counters.quiet.admits(Cause::NotSecure) {
                tracing::info!(peer = %connection.peer, error, left_out, "connection closed: no key was agreed on");
            }
            false
        }
    }
}

/// The last answer to what is no frame, if it says which call it was.
pub(super) fn refuse_frame(out: &mut Vec<u8>, input: &[u8], error: FrameError, in_message: bool) {
    if let Some(seq) = error.seq() {
        // The reason in the caller's own encoding, as far as its flags name one.
        let json = input.get(5).is_some_and(|flags| flags & 0xc0 == 0x40);
        let encoding = if json { Encoding::Json } else { Encoding::Msgpack };
        let form = Form::Frame {
            encoding,
            seq,
            in_message,
        };
        let code = match error {
            FrameError::TooLarge { .. } => Code::TooLarge,
            _ => Code::InvalidPackage,
        };
        form.error(out, &Status::new(code, error.to_string()));
    }
}

pub(super) fn call<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    form: Form,
    request: Request<'_>,
) -> Outcome {
    if connection.refused() {
        let ex = format!(
            "the connection limit of {} is reached; try again later, or {}",
            net.options.connections_max, net.options.connections_mend
        );
        form.error(&mut connection.out, &Status::new(Code::Overloaded, ex));
        return Outcome::Answered;
    }
    let mut outcome = Outcome::Dropped;
    let reply = Reply {
        form,
        out: &mut connection.out,
        outcome: &mut outcome,
        origin: Origin {
            key: connection.key,
            mailbox: &net.mailbox,
            gone: &mut connection.gone,
            pushes: &mut connection.pushes,
            options: &net.options,
        },
        base64: false,
    };
    net.service.call(request, reply);
    match outcome {
        Outcome::Dropped => form.error(
            &mut connection.out,
            &Status::new(Code::Internal, "the handler returned no answer"),
        ),
        Outcome::Detached => connection.in_flight += 1,
        Outcome::Answered | Outcome::AnsweredLast => {}
    }
    outcome
}
