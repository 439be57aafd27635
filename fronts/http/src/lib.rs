//! HTTP/1.1: each request a call, a path, a preflight, or the change to a WebSocket.
//!
//! It knows no socket. Its invariants: a connection has at most one call unanswered, because answers have no numbers; and a
//! page that may not call changes nothing.

mod form;
mod hosts;

pub use hosts::Hosts;

use form::{Form, LAST};
use millpond_calls::{Call, Meta, MethodId, Service};
use millpond_fronts_answer::{Form as _, Serving, serve};
use millpond_net::{Front, Match, Received, Session, Turn, limited};
use millpond_wire_frame::{
    Encoding, HttpAnswer, HttpError, HttpProgress, HttpRequest, Limits, Parsed, is_http, parse_http,
    service_method, service_payload, write_preflight, write_switching,
};
use millpond_wire_schema::{Code, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lines of the log.
const NOT_HTTP: &str = "bad HTTP requests";
const HOST_REFUSED: &str = "HTTP requests for a Host that is not answered";

/// What HTTP's callers may do.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Sizes of bodies.
    pub limits: Limits,
    /// Origins whose pages may call and read the answers (CORS), or `*` for any; pages of all others are refused.
    pub cors_origins: Vec<&'static str>,
    /// By which names callers may call over loopback.
    pub hosts: Hosts,
    /// What was counted of them.
    pub counters: Arc<Counters>,
}

millpond_metrics::counters! {
    /// What became of requests.
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Of a port.
        METRICS {
            pub hosts_refused: AtomicU64 = counter("millpond_hosts_refused_total",
                "HTTP requests refused on a loopback address for the name they called by (server.hosts)."),
        }
    }
}

impl HttpOptions {
    /// What an answer to a page of that origin says.
    fn allowed(&self, origin: Option<&str>) -> Option<&'static str> {
        let origin = origin?;
        let mut allowed = self.cors_origins.iter().copied();
        allowed.find(|allowed| *allowed == "*" || *allowed == origin)
    }

    /// Whether a page calls whose origin its browser does not name, as it does not for an image's GET.
    ///
    /// Whoever lets pages of any origin call lets these too. What is no method changes nothing, and may be linked to.
    fn hides_its_origin(&self, request: &HttpRequest<'_>) -> bool {
        request.other_site
            && request.origin.is_none()
            && !self.cors_origins.contains(&"*")
            && service_method(request.path).is_some()
    }
}

/// Makes the session of a WebSocket.
type Upgrade<S> = Arc<dyn Fn() -> Box<dyn Session<Serving<S>>> + Send + Sync>;

/// The front of HTTP; a connection that asks for a WebSocket goes on as what `upgrade` makes.
pub fn front<S: Service>(
    options: HttpOptions,
    upgrade: impl Fn() -> Box<dyn Session<Serving<S>>> + Send + Sync + 'static,
) -> Front<Serving<S>> {
    let (options, upgrade): (_, Upgrade<S>) = (Arc::new(options), Arc::new(upgrade));
    Box::new(move |first| match is_http(first) {
        Some(true) => Match::Yes(Box::new(Requests {
            options: Arc::clone(&options),
            upgrade: Arc::clone(&upgrade),
            progress: HttpProgress::default(),
            continue_sent: false,
        })),
        Some(false) => Match::No,
        // A line end may stand before a request, so that four bytes need not be enough.
        None => Match::More,
    })
}

/// The session of a connection of requests.
struct Requests<S> {
    options: Arc<HttpOptions>,
    upgrade: Upgrade<S>,
    /// What is known of a request that is not whole.
    progress: HttpProgress,
    /// `100 Continue` was sent for it.
    continue_sent: bool,
}

impl<S: Service> Session<Serving<S>> for Requests<S> {
    fn receive(&mut self, local: &Serving<S>, turn: &mut Turn<'_>, input: &[u8]) -> Received<Serving<S>> {
        let (request, len) = match parse_http(input, self.options.limits, &mut self.progress) {
            Ok(Parsed::Whole { message, len }) => (message, len),
            Ok(Parsed::Partial { needed }) => {
                if self.progress.wants_continue && !std::mem::replace(&mut self.continue_sent, true) {
                    turn.out().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                return Received::More(needed);
            }
            Err(error) => {
                limited!(info, turn.counters().quiet, NOT_HTTP, [peer = %turn.peer(), %error], "connection closed: bad HTTP request");
                refuse_bytes(turn.out(), &error);
                return Received::Malformed;
            }
        };
        self.continue_sent = false;
        match self.serve(local, turn, &request) {
            true => Received::Become(len, (self.upgrade)()),
            false => Received::Served(len),
        }
    }

    fn is_full(&self, in_flight: usize) -> bool {
        in_flight > 0
    }

    fn refuse(&mut self, turn: &mut Turn<'_>, _: &[u8], why: &str) {
        // An answer that is outstanding is the last one.
        if turn.in_flight() == 0 {
            LAST.error(turn.out(), &Status::new(Code::Overloaded, why));
        }
    }
}

impl<S: Service> Requests<S> {
    /// Serves a request; true if its connection is a WebSocket from here on.
    fn serve(&self, local: &Serving<S>, turn: &mut Turn<'_>, request: &HttpRequest<'_>) -> bool {
        let refused = turn.over_limit().is_some();
        let keep_alive = request.keep_alive && !refused;
        let form = Form(HttpAnswer {
            keep_alive,
            head_only: request.verb == "HEAD",
            allow_origin: self.options.allowed(request.origin),
            ..LAST.0
        });
        let mut is_upgraded = false;
        if refused || !self.is_answered_here(turn, request, form) {
            match request.upgrade_websocket {
                Some(key) if !refused => {
                    write_switching(turn.out(), key);
                    is_upgraded = true;
                }
                _ => make_call(local, turn, request, form),
            }
        }
        // The answer of a call in flight says itself whether it is the last.
        if !keep_alive && turn.in_flight() == 0 {
            turn.close();
        }
        is_upgraded
    }

    /// Why a request is refused over loopback that calls this server by a name that a stranger could own.
    fn refuse_host(&self, turn: &Turn<'_>, request: &HttpRequest<'_>) -> Option<String> {
        let HttpOptions { hosts, counters, .. } = &*self.options;
        if !turn.is_loopback() || hosts.answers(request.host) {
            return None;
        }
        let host = request.host.unwrap_or_default();
        counters.hosts_refused.fetch_add(1, Ordering::Relaxed);
        limited!(info, turn.counters().quiet, HOST_REFUSED, [peer = %turn.peer(), host], "refused: a Host that is not answered ({})", hosts.key);
        Some(hosts.refusal(host))
    }

    /// Answers what is no call: a Host that is not answered, a preflight, and a page of an origin that may not call.
    fn is_answered_here(&self, turn: &mut Turn<'_>, request: &HttpRequest<'_>, form: Form) -> bool {
        let allowed = form.0.allow_origin;
        let ex = if let Some(refusal) = self.refuse_host(turn, request) {
            refusal
        } else if request.verb == "OPTIONS" && request.origin.is_some() {
            write_preflight(turn.out(), allowed, form.0.keep_alive);
            return true;
        } else if let (Some(origin), None) = (request.origin, allowed) {
            // A browser would keep the page from reading the answer, but not from calling.
            format!("pages of {origin:?} may not call; add it to server.cors_origins if they may")
        } else if self.options.hides_its_origin(request) {
            "pages of other sites may not call without an Origin; fetch() with mode \"cors\" sends one, and \
             server.cors_origins lists those that may"
                .to_owned()
        } else {
            return false;
        };
        form.error(turn.out(), &Status::new(Code::Forbidden, ex));
        true
    }
}

/// Calls what a request asks for.
fn make_call<S: Service>(local: &Serving<S>, turn: &mut Turn<'_>, request: &HttpRequest<'_>, form: Form) {
    let service = &local.service;
    let Some(name) = service_method(request.path) else {
        let HttpRequest { verb, path, .. } = request;
        let peer = turn.peer().0.into();
        return serve(turn, form, None, |reply| service.visit(verb, path, peer, reply));
    };
    let priority = match request.priority.map(level).transpose() {
        Ok(priority) => priority,
        Err(status) => {
            form.error(turn.out(), &status);
            return service.refused(service.find(&name), &status);
        }
    };
    let mut call = Call {
        meta: Meta {
            deadline_ms: request.deadline_ms,
            priority,
            trace: request.trace,
            token: request.authorization.and_then(|header| bearer(header.0)),
        },
        ..local.call(turn, &name, Encoding::Json, b"{}")
    };
    // A page may follow a link to it, or load it as an image.
    let takes_get = !call.method.is_ok_and(MethodId::changes);
    // HEAD calls no method: it asks for nothing to be done.
    let query;
    match request.verb {
        "POST" if request.body.is_empty() => {}
        "POST" => call.payload = request.body.as_ref(),
        "GET" if takes_get => {
            query = service_payload(request.query);
            call.payload = &query;
        }
        _ => {
            let status = refuse_verb(turn, request, takes_get, form);
            return service.refused(call.method.ok(), &status);
        }
    }
    serve(turn, form, None, |reply| service.call(&call, reply))
}

/// The level that `X-Priority` names.
fn level(text: &str) -> Result<u8, Status> {
    match text.as_bytes() {
        [digit @ b'0'..=b'9'] => Ok(digit - b'0'),
        _ => {
            let ex = format!("header X-Priority is {text:?}; expected an integer from 0 (first) to 9");
            Err(Status::new(Code::BadArgument, ex))
        }
    }
}

/// Says with which verbs the method is called.
fn refuse_verb(turn: &mut Turn<'_>, request: &HttpRequest<'_>, takes_get: bool, form: Form) -> Status {
    let HttpRequest { verb, path, .. } = request;
    let (verbs, ways) = if takes_get {
        let ways = "call methods with POST /service/METHOD or GET /service/METHOD?fpnn=…";
        ("GET, POST", ways)
    } else {
        (
            "POST",
            "call methods that change something with POST /service/METHOD",
        )
    };
    let status = Status::new(Code::ReadOnly, format!("{verb} {path} is not served; {ways}"));
    form.error_as(turn.out(), &status, 405, Some(verbs));
    status
}

/// The last answer to what is no HTTP.
fn refuse_bytes(out: &mut Vec<u8>, error: &HttpError) {
    let code = match error {
        HttpError::BodyTooLarge { .. } | HttpError::Length(_) => Code::TooLarge,
        _ => Code::BadHttp,
    };
    let http_status = match error {
        HttpError::UpgradeVersion(_) => 426,
        _ => code.http_status(),
    };
    LAST.error_as(out, &Status::new(code, error.to_string()), http_status, None);
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
