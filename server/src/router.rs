//! Takes a request from the transport to its method's handler.
//!
//! It decodes the payload's map and nothing of its meaning. Its invariant: a request is refused for the first reason that
//! holds, in this order: address, unknown method, the method's rules, stopping, not ready, bad payload, token.

use crate::Shared;
use crate::handlers;
use crate::methods::{Method, Work};
use crate::metrics::{Arrival, Turn};
use millpond_catalog::Catalog;
use millpond_wire_payload::{Encoder, Payload, Reserved};
use millpond_wire_schema::{Code, Field as _, Status};
use millpond_wire_transport::{Body, Clock, Reply, Request, Service, Target};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Characters of an unknown method's name that the log shows.
const UNKNOWN_SHOWN_MAX: usize = 64;
/// Bytes of a payload beyond which its call takes long enough for the clock to be read behind it.
const SHORT_BYTES_MAX: usize = 16 << 10;

/// The service of the data port.
#[derive(Clone)]
pub(crate) struct Router {
    shared: Arc<Shared>,
    /// What the server's calls to itself see and are counted in.
    rehearsal: Arc<Shared>,
    /// What the turn of this copy's net thread has answered.
    turn: Turn,
}

/// A call that may be answered at once.
pub(crate) struct Inline<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) arrival: Arrival,
    turn: &'a Turn,
    clock: &'a Clock,
    /// What it costs has no bound worth the name: the clock is read behind it, so that what comes next is not taken for its time.
    is_long: bool,
}

impl Inline<'_> {
    /// It was answered: it is counted, and logged where somebody wants a line of it.
    #[inline]
    pub(crate) fn answered(&self, trace: Option<&str>) {
        let (shared, method) = (self.shared, self.arrival.method);
        if shared.is_rehearsal {
            return;
        }
        if shared.metrics.answered_at_once(method) {
            self.turn.answered(method);
        }
        if self.is_long || shared.tells_calls() {
            shared.tell(&self.arrival, self.clock.read(), trace);
        }
    }
}

/// What every handler gets beside its payload.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) engines: &'a Catalog,
    /// The connection it came by.
    pub(crate) connection: u64,
    pub(crate) arrival: Arrival,
    inline: Inline<'a>,
    /// `X-Deadline-Ms`, which a payload's `_deadline_ms` overrides.
    pub(crate) header_deadline_ms: Option<u64>,
    /// `traceparent`, which a payload's `_trace` overrides.
    pub(crate) header_trace: Option<&'a str>,
    /// `Authorization: Bearer`, which a payload's `_token` overrides.
    pub(crate) header_token: Option<&'a str>,
}

impl Service for Router {
    fn call(&self, request: Request<'_>, reply: Reply<'_>) {
        match request.target {
            Target::Method(name) => self.method(name, &request, reply),
            Target::Path { verb, path } => self.path(verb, path, &request, reply),
        }
    }

    fn takes_get(&self, method: &str) -> bool {
        let methods = &self.shared.methods;
        let found = methods.named(method);
        found.is_none_or(|method| !methods.changes(method))
    }

    fn written(&self, mark: u16, since: Instant) {
        self.turn.written(mark, since);
    }

    fn turned(&self, began: Instant) {
        self.turn.end(began, &self.shared.methods, &self.shared.metrics);
    }

    fn refused(&self, method: &str, status: &Status) {
        let metrics = &self.shared.metrics;
        match self.shared.methods.named(method) {
            Some(method) => metrics.failed(method, status),
            None => metrics.unknown(),
        }
    }
}

impl Router {
    pub(crate) fn new(shared: Arc<Shared>, rehearsal: Arc<Shared>) -> Router {
        Router {
            shared,
            rehearsal,
            turn: Turn::default(),
        }
    }

    fn method(&self, name: &str, request: &Request<'_>, reply: Reply<'_>) {
        let shared = if request.rehearsal {
            &self.rehearsal
        } else {
            &self.shared
        };
        let Some(method) = shared.methods.named(name) else {
            return unknown(shared, name, request, reply);
        };
        let work = shared.methods.work(method);
        let arrival = Arrival {
            method,
            received: request.received,
            entered: match work.is_detached() {
                true => request.clock.read(),
                false => request.clock.last(),
            },
        };
        let inline = Inline {
            shared,
            arrival,
            turn: &self.turn,
            clock: request.clock,
            is_long: matches!(work, Work::OrderedScan) || request.payload.len() > SHORT_BYTES_MAX,
        };
        if !request.rehearsal {
            let (connection, bytes) = (request.connection, request.payload.len());
            tracing::trace!(method = name, connection, bytes, "called");
        }
        if let Err(status) = admit(shared, method, work, request) {
            shared.refused(&arrival, request.meta.trace, &status);
            return reply.error(&status);
        }
        if matches!(work, Work::Ping | Work::Status | Work::Infos | Work::Tune) {
            return own(&inline, request, reply);
        }
        let Some(engines) = shared.ready_engines() else {
            let status = Status::new(
                Code::NotReady,
                "the server is warming up; /readyz on the admin port turns 200 when it is done",
            );
            shared.refused(&arrival, request.meta.trace, &status);
            return reply.error(&status);
        };
        let call = Call {
            shared,
            engines: &engines,
            connection: request.connection,
            arrival,
            inline,
            header_deadline_ms: request.meta.deadline_ms,
            header_trace: request.meta.trace,
            header_token: request.meta.token,
        };
        match work {
            Work::Echo => handlers::own::echo(&call, request, reply),
            Work::Constant(constant) => handlers::own::constant(&call, request, constant, reply),
            Work::Duplex(duplex) => handlers::duplex::answer(&call, request, duplex, reply),
            _ => {
                let payload = Payload::new(request.encoding, request.payload).map_err(Status::from);
                match payload.and_then(|payload| call.open(&payload).map(|()| payload)) {
                    Ok(payload) => call.handle(work, &payload, reply),
                    Err(status) => call.refuse(reply, &status),
                }
            }
        }
    }

    fn path(&self, verb: &str, path: &str, request: &Request<'_>, reply: Reply<'_>) {
        let plain = |status, text: &'static str| Body {
            status,
            content_type: "text/plain",
            bytes: text.as_bytes(),
        };
        if let Err(status) = self.shared.access.admit_peer(request.peer) {
            return reply.error(&status);
        }
        match (verb, path) {
            ("GET" | "HEAD", "/v2/health/live") if self.shared.health.hopeless().is_some() => {
                reply.body(&plain(503, "hopeless\n"))
            }
            ("GET" | "HEAD", "/v2/health/live") => reply.body(&plain(200, "live\n")),
            ("GET" | "HEAD", "/v2/health/ready") if self.shared.is_ready() => {
                reply.body(&plain(200, "ready\n"))
            }
            ("GET" | "HEAD", "/v2/health/ready") => reply.body(&plain(503, "not ready\n")),
            _ => {
                let ex = format!("{verb} {path} is not served here; call methods with POST /service/METHOD");
                reply.error(&Status::new(Code::UnknownMethod, ex));
            }
        }
    }
}

/// Refuses by address, by the method's rules, and while the server stops; the process's calls to itself are always let in.
fn admit(shared: &Shared, method: Method, work: &Work, request: &Request<'_>) -> Result<(), Status> {
    if request.rehearsal {
        return Ok(());
    }
    if !shared.access.is_open(method) {
        shared.access.admit_peer(request.peer)?;
        let name = shared.methods.name(method);
        shared
            .access
            .admit(method, name, request.peer, request.encrypted)?;
    }
    // What is asked while a server stops is whether it does.
    if shared.draining.load(Ordering::Relaxed) && !matches!(work, Work::Ping | Work::Status) {
        return Err(Status::new(
            Code::Stopping,
            "the server is stopping; call another one",
        ));
    }
    Ok(())
}

fn unknown(shared: &Shared, name: &str, request: &Request<'_>, reply: Reply<'_>) {
    if let Err(status) = shared.access.admit_peer(request.peer) {
        return reply.error(&status);
    }
    shared.metrics.unknown();
    let shown: String = name.chars().take(UNKNOWN_SHOWN_MAX).collect();
    tracing::debug!(method = ?shown, code = Code::UnknownMethod.number(), "refused");
    let known = shared.methods.names();
    let ex = format!("unknown method {name:?}; methods are {known}");
    reply.error(&Status::new(Code::UnknownMethod, ex));
}

/// Answers what needs no engines: the server speaks of itself.
fn own(call: &Inline<'_>, request: &Request<'_>, reply: Reply<'_>) {
    let (shared, method) = (call.shared, call.arrival.method);
    let checked = Payload::new(request.encoding, request.payload)
        .map_err(Status::from)
        .and_then(|payload| {
            let token = Reserved::of(&payload)?.token.or(request.meta.token);
            shared.access.open(method, shared.methods.name(method), token)?;
            if matches!(shared.methods.work(method), Work::Tune) {
                return handlers::tune::read(&payload, request.peer).map(Some);
            }
            <()>::decode(&payload)?;
            Ok(None)
        });
    match (checked, shared.methods.work(method)) {
        (Err(status), _) => {
            shared.refused(&call.arrival, request.meta.trace, &status);
            return reply.error(&status);
        }
        (Ok(Some(asked)), _) => {
            return handlers::tune::answer(call, request.meta.trace, &asked, reply);
        }
        (Ok(None), Work::Ping) => handlers::ping::answer(reply),
        (Ok(None), Work::Status) => handlers::status::answer(shared, reply),
        (Ok(None), _) => handlers::infos::answer(shared, reply),
    }
    call.answered(request.meta.trace);
}

impl Call<'_> {
    /// Hands it to its method's handler; the router itself knows those that take no map of their own.
    fn handle(&self, work: &Work, payload: &Payload<'_>, reply: Reply<'_>) {
        match work {
            Work::FeaturesLookup => handlers::features_lookup::answer(self, payload, reply),
            Work::OrderedGet => handlers::ordered_get::answer(self, payload, reply),
            Work::OrderedPut => handlers::ordered_put::answer(self, payload, reply),
            Work::OrderedScan => handlers::ordered_scan::answer(self, payload, reply),
            Work::Infer => handlers::infer::answer(self, payload, reply),
            Work::Rank => handlers::rank::answer(self, payload, reply),
            Work::Ping | Work::Status | Work::Infos | Work::Tune => {}
            Work::Echo | Work::Constant(_) | Work::Duplex(_) => {}
        }
    }

    /// Checks the token of its payload, or else of its headers.
    #[inline]
    fn open(&self, payload: &Payload<'_>) -> Result<(), Status> {
        match self.is_open() {
            true => Ok(()),
            false => self.open_with(Reserved::of(payload)?.token),
        }
    }

    /// Whether nobody needs a token for it.
    #[inline]
    fn is_open(&self) -> bool {
        self.shared.is_rehearsal || self.shared.access.is_open(self.arrival.method)
    }

    /// As [`Call::open`], with the token that was found in its payload.
    #[inline]
    pub(crate) fn open_with(&self, token: Option<&str>) -> Result<(), Status> {
        if self.is_open() {
            return Ok(());
        }
        let (method, token) = (self.arrival.method, token.or(self.header_token));
        let name = self.shared.methods.name(method);
        self.shared.access.open(method, name, token)
    }

    /// When this call becomes worthless.
    #[inline]
    pub(crate) fn deadline(&self, payload_ms: Option<u64>) -> Result<Instant, Status> {
        self.shared
            .admission
            .deadline(&self.arrival, payload_ms.or(self.header_deadline_ms))
    }

    /// Answers an error at once, counted and logged.
    pub(crate) fn refuse(&self, reply: Reply<'_>, status: &Status) {
        self.shared.refused(&self.arrival, self.header_trace, status);
        reply.error(status);
    }

    /// Answers at once; it is counted and logged.
    pub(crate) fn answer(&self, reply: Reply<'_>, trace: Option<&str>, write: impl FnOnce(&mut Encoder<'_>)) {
        reply.ok(write);
        self.inline.answered(trace.or(self.header_trace));
    }
}
