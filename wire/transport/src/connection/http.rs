//! One HTTP request at the front of a connection's input: a call, a path, a preflight, or the change to a WebSocket.
//! Its invariant: an HTTP connection has at most one call unanswered.

use super::Connection;
use super::requests::{Step, call, whole};
use crate::answer::Form;
use crate::net_thread::{Kind, Net};
use crate::quiet::{Cause, LeftOut};
use crate::service::{Meta, Outcome, Request, Service, Target};
use millpond_wire_frame::websocket::{Role, WebSocket};
use millpond_wire_frame::{
    Encoding, HttpError, HttpRequest, parse_http_on, service_method, service_payload, write_preflight,
    write_switching,
};
use millpond_wire_schema::{Code, Status};
use std::borrow::Cow;
use std::sync::atomic::Ordering;

pub(super) fn serve_http<S: Service>(net: &Net<S>, connection: &mut Connection, rest: &[u8]) -> Step {
    let parsed = parse_http_on(rest, net.options.limits, &mut connection.progress);
    let parsed = whole(parsed, |error| {
        if let Some(LeftOut(left_out)) = net.counters.quiet.admits(Cause::NotHttp) {
            tracing::info!(peer = %connection.peer, %error, left_out, "connection closed: bad HTTP request");
        }
        refuse_http(&mut connection.out, &error);
    });
    let (request, len) = match parsed {
        Ok(whole) => whole,
        Err(step) => return step,
    };
    let keep_alive = request.keep_alive && !connection.refused();
    let form = Form::Http {
        keep_alive,
        head_only: request.verb == "HEAD",
        allow_origin: net.options.allowed(request.origin),
    };
    if !connection.refused() && answered_here(net, connection, &request, form, keep_alive) {
        connection.flags.closing |= !keep_alive;
        return Step::Served(len);
    }
    let method = service_method(request.path);
    let Some(payload) = http_payload(net, &request, method.as_deref()) else {
        refuse_verb(
            net,
            connection,
            &request,
            method.as_deref().unwrap_or_default(),
            form,
        );
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
        token: request.authorization.and_then(bearer),
    };
    let call_request = Request {
        target,
        encoding: Encoding::Json,
        payload: &payload,
        meta,
        received: net.clock.began(),
        clock: &net.clock,
        peer: connection.peer,
        connection: connection.key.generation,
        encrypted: connection.is_encrypted(),
        rehearsal: connection.kind == Kind::Rehearsal,
    };
    let outcome = call(net, connection, form, call_request);
    if outcome == Outcome::Detached {
        connection.flags.http_waits = true;
    } else {
        connection.flags.closing |= !keep_alive || outcome == Outcome::AnsweredLast;
    }
    Step::Served(len)
}

/// Whether a page calls whose origin its browser does not name, as it does not for an image's GET.
///
/// Whoever lets pages of any origin call lets these too. What is no method changes nothing, and may be linked to.
fn hides_its_origin<S>(net: &Net<S>, request: &HttpRequest<'_>) -> bool {
    request.other_site
        && request.origin.is_none()
        && !net.options.cors_origins.contains(&"*")
        && service_method(request.path).is_some()
}

/// Refuses a request over loopback that calls this server by a name that a stranger could own.
fn refused_by_host<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    request: &HttpRequest<'_>,
    form: Form,
) -> bool {
    let hosts = &net.options.hosts;
    if !connection.flags.loopback || hosts.answers(request.host) {
        return false;
    }
    let host = request.host.unwrap_or_default();
    let before = net.counters.hosts_refused.fetch_add(1, Ordering::Relaxed);
    // A page asks as often as it likes: the 1st, 2nd, 4th, 8th, … is told.
    if (before + 1).is_power_of_two() {
        tracing::info!(peer = %connection.peer, host, refused = before + 1, "refused: a Host that is not answered ({})", hosts.key);
    }
    form.error(
        &mut connection.out,
        &Status::new(Code::Forbidden, hosts.refusal(host)),
    );
    true
}

/// Answers what is no call: a Host that is not answered, the change to a WebSocket, a preflight, and a page of an origin that may not call.
fn answered_here<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    request: &HttpRequest<'_>,
    form: Form,
    keep_alive: bool,
) -> bool {
    if refused_by_host(net, connection, request, form) {
        return true;
    }
    let allowed = net.options.allowed(request.origin);
    if request.verb == "OPTIONS" && request.origin.is_some() {
        write_preflight(&mut connection.out, allowed, keep_alive);
        return true;
    }
    if let (Some(origin), None) = (request.origin, allowed) {
        // A browser would keep the page from reading the answer, but not from calling.
        let ex = format!("pages of {origin:?} may not call; add it to server.cors_origins if they may");
        form.error(&mut connection.out, &Status::new(Code::Forbidden, ex));
        return true;
    }
    if hides_its_origin(net, request) {
        let ex = "pages of other sites may not call without an Origin; fetch() with mode \"cors\" sends one, and \
                  server.cors_origins lists those that may";
        form.error(&mut connection.out, &Status::new(Code::Forbidden, ex));
        return true;
    }
    if let Some(key) = request.upgrade_websocket {
        write_switching(&mut connection.out, key);
        connection.websocket = Some(Box::new(WebSocket::new(Role::Server, net.options.limits)));
        return true;
    }
    false
}

/// The last answer to what is no HTTP.
fn refuse_http(out: &mut Vec<u8>, error: &HttpError) {
    let (code, http_status) = match error {
        HttpError::BodyTooLarge { .. } | HttpError::Length { .. } => {
            (Code::TooLarge, Code::TooLarge.http_status())
        }
        HttpError::UpgradeVersion { .. } => (Code::BadHttp, 426),
        HttpError::Malformed { .. } | HttpError::HeadTooLarge { .. } => {
            (Code::BadHttp, Code::BadHttp.http_status())
        }
    };
    let form = Form::Http {
        keep_alive: false,
        head_only: false,
        allow_origin: None,
    };
    form.error_as(out, &Status::new(code, error.to_string()), http_status);
}

/// The map a method is called with; `None` when the verb cannot call it, as HEAD cannot: it asks for nothing to be done.
fn http_payload<'r, S: Service>(
    net: &Net<S>,
    request: &'r HttpRequest<'_>,
    method: Option<&str>,
) -> Option<Cow<'r, [u8]>> {
    let Some(method) = method else {
        return Some(Cow::Borrowed(request.body.as_ref()));
    };
    match request.verb {
        "POST" if request.body.is_empty() => Some(Cow::Borrowed(b"{}")),
        "POST" => Some(Cow::Borrowed(request.body.as_ref())),
        "GET" if net.service.takes_get(method) => Some(service_payload(request.query)),
        _ => None,
    }
}

/// Says with which verbs the method is called.
fn refuse_verb<S: Service>(
    net: &Net<S>,
    connection: &mut Connection,
    request: &HttpRequest<'_>,
    method: &str,
    form: Form,
) {
    let HttpRequest { verb, path, .. } = request;
    let (verbs, ways) = if net.service.takes_get(method) {
        let ways = "call methods with POST /service/METHOD or GET /service/METHOD?fpnn=…";
        ("GET, POST", ways)
    } else {
        (
            "POST",
            "call methods that change something with POST /service/METHOD",
        )
    };
    let status = Status::new(Code::ReadOnly, format!("{verb} {path} is not served; {ways}"));
    net.service.refused(method, &status);
    form.not_allowed(&mut connection.out, &status, verbs);
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
