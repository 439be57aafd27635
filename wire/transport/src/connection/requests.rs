//! One request at the front of a connection's input: parsed, called, and answered where it cannot be called.
//!
//! It does not read or write. Its invariant: whatever the bytes are, the connection learns how many of them are done with.

use super::Connection;
use crate::answer::Form;
use crate::net_thread::{Kind, Net};
use crate::service::{Meta, Origin, Outcome, Reply, Request, Service, Target};
use millpond_wire_frame::{
    Encoding, Frame, FrameError, FrameKind, HttpError, HttpRequest, Parsed, parse_frame, parse_http,
    service_method, service_payload,
};
use millpond_wire_schema::{Code, Status};
use std::borrow::Cow;
use std::time::Instant;

/// What came of the bytes at the front.
pub(super) enum Step {
    Served(usize),
    Partial { needed: usize, wants_continue: bool },
    Malformed,
}

pub(super) fn serve_frame<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    rest: &[u8],
    received: Instant,
) -> Step {
    let (frame, len): (Frame<'_>, usize) = match parse_frame(rest, net.options.limits) {
        Ok(Parsed::Whole { message, len }) => (message, len),
        Ok(Parsed::Partial {
            needed,
            wants_continue,
        }) => {
            return Step::Partial {
                needed,
                wants_continue,
            };
        }
        Err(error) => {
            tracing::info!(peer = %connection.peer, %error, "connection closed: not a frame");
            refuse_frame(&mut connection.out, rest, error);
            return Step::Malformed;
        }
    };
    let (form, method) = match frame.kind {
        FrameKind::Oneway { method } => (Form::Oneway, method),
        FrameKind::Twoway { method, seq } => (
            Form::Frame {
                encoding: frame.encoding,
                seq,
            },
            method,
        ),
        // No call has gone out from here, so nothing waits for this.
        FrameKind::Answer { .. } => return Step::Served(len),
    };
    let request = Request {
        target: Target::Method(method),
        encoding: frame.encoding,
        payload: frame.payload,
        meta: Meta::default(),
        received,
        peer: connection.peer,
        connection: connection.key.generation,
        encrypted: false,
        rehearsal: connection.kind == Kind::Rehearsal,
    };
    call(net, connection, form, request);
    Step::Served(len)
}

pub(super) fn serve_http<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    rest: &[u8],
    received: Instant,
) -> Step {
    let (request, len) = match parse_http(rest, net.options.limits) {
        Ok(Parsed::Whole { message, len }) => (message, len),
        Ok(Parsed::Partial {
            needed,
            wants_continue,
        }) => {
            return Step::Partial {
                needed,
                wants_continue,
            };
        }
        Err(error) => {
            tracing::info!(peer = %connection.peer, %error, "connection closed: bad HTTP request");
            refuse_http(&mut connection.out, &error);
            return Step::Malformed;
        }
    };
    let keep_alive = request.keep_alive && !connection.refused();
    let form = Form::Http {
        keep_alive,
        head_only: request.verb == "HEAD",
    };
    let method = service_method(request.path);
    let Some(payload) = http_payload(&request, method.is_some()) else {
        let ex = format!(
            "{} {} is not served; call methods with POST /service/METHOD or GET /service/METHOD?fpnn=…",
            request.verb, request.path
        );
        form.error(&mut connection.out, &Status::new(Code::ReadOnly, ex));
        connection.flags.closing |= !keep_alive;
        return Step::Served(len);
    };
    let target = match &method {
        Some(method) => Target::Method(method),
        None => Target::Path {
            verb: request.verb,
            path: request.path,
        },
    };
    let meta = Meta {
        deadline_ms: request.deadline_ms,
        trace: request.trace,
        token: None,
    };
    let call_request = Request {
        target,
        encoding: Encoding::Json,
        payload: &payload,
        meta,
        received,
        peer: connection.peer,
        connection: connection.key.generation,
        encrypted: false,
        rehearsal: connection.kind == Kind::Rehearsal,
    };
    let outcome = call(net, connection, form, call_request);
    if outcome == Outcome::Detached {
        connection.flags.http_waits = true;
    } else {
        connection.flags.closing |= !keep_alive;
    }
    Step::Served(len)
}

/// The last answer to what is no frame, if it says which call it was.
fn refuse_frame(out: &mut Vec<u8>, input: &[u8], error: FrameError) {
    if let Some(seq) = error.seq() {
        // The reason in the caller's own encoding, as far as its flags name one.
        let json = input.get(5).is_some_and(|flags| flags & 0xc0 == 0x40);
        let encoding = if json { Encoding::Json } else { Encoding::Msgpack };
        let form = Form::Frame { encoding, seq };
        form.error(out, &Status::from(error));
    }
}

/// The last answer to what is no HTTP.
fn refuse_http(out: &mut Vec<u8>, error: &HttpError) {
    let code = match error {
        HttpError::BodyTooLarge { .. } => Code::TooLarge,
        HttpError::Malformed { .. } | HttpError::HeadTooLarge { .. } | HttpError::UpgradeVersion { .. } => {
            Code::BadHttp
        }
    };
    let form = Form::Http {
        keep_alive: false,
        head_only: false,
    };
    form.error(out, &Status::new(code, error.to_string()));
}

/// The map a method is called with; `None` when the verb cannot call a method.
fn http_payload<'r>(request: &'r HttpRequest<'_>, is_method: bool) -> Option<Cow<'r, [u8]>> {
    match request.verb {
        _ if !is_method => Some(Cow::Borrowed(request.body.as_ref())),
        "POST" if request.body.is_empty() => Some(Cow::Borrowed(b"{}")),
        "POST" => Some(Cow::Borrowed(request.body.as_ref())),
        "GET" | "HEAD" => Some(service_payload(request.query)),
        _ => None,
    }
}

fn call<S: Service>(net: &Net<S>, connection: &mut Connection, form: Form, request: Request<'_>) -> Outcome {
    if connection.refused() {
        let ex = format!(
            "the connection limit of {} is reached; try again later, or raise server.connections_max",
            net.options.connections_max
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
        Outcome::Answered => {}
    }
    outcome
}
