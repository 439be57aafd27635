//! Takes a request from the transport to its method's handler.
//!
//! It decodes the payload's map and nothing of its meaning. Its invariant: a request is refused for the first reason that
//! holds, in this order: address, unknown method, the method's rules, stopping, not ready, bad payload, token.

use crate::Shared;
use crate::engines::Engines;
use crate::handlers;
use crate::methods::{Method, Work};
use crate::metrics::{Arrival, Stage};
use millpond_wire_frame::{Encoder, FieldError, Fields, Map, Value, decode_map};
use millpond_wire_schema::{Code, Status};
use millpond_wire_transport::{Body, Reply, Request, Run, Service, Target};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Characters of an unknown method's name that the log shows.
const UNKNOWN_SHOWN_MAX: usize = 64;
/// Bytes of a payload that is checked about as soon as the clock is looked at.
const SHORT_BYTES_MAX: usize = 1024;

/// The service of the data port.
#[derive(Clone)]
pub(crate) struct Router {
    shared: Arc<Shared>,
    /// What the server's calls to itself see and are counted in.
    rehearsal: Arc<Shared>,
    /// What was called last by way of this copy, which is its net thread's: the next call is of the same method, mostly.
    last: Cell<Option<Method>>,
}

/// What every handler gets beside its payload.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) engines: &'a Engines,
    /// The connection it came by.
    pub(crate) connection: u64,
    pub(crate) arrival: Arrival,
    /// It is timed with others.
    pub(crate) in_run: bool,
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

    #[inline]
    fn known(&self, name: &[u8]) -> Option<&str> {
        let last = self.shared.methods.name(self.last.get()?);
        (last.as_bytes() == name).then_some(last)
    }

    fn takes_get(&self, method: &str) -> bool {
        let methods = &self.shared.methods;
        let found = methods.named(method);
        found.is_none_or(|method| !methods.work(method).changes())
    }

    fn written(&self, mark: u16, took: Duration, answers: u32) {
        let Some((method, of_model)) = self.shared.methods.marked(mark) else {
            return;
        };
        self.shared.metrics.wrote(method, took, answers);
        if of_model {
            self.shared.metrics.spent(Stage::Write, took);
        }
    }

    fn lull(&self) -> Duration {
        self.shared.admission.lull()
    }

    fn ran(&self, run: &Run) {
        if let Some((method, _)) = self.shared.methods.marked(run.mark) {
            self.shared.metrics.ran(method, run);
        }
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
            last: Cell::default(),
        }
    }

    /// The method of that name; one that is known is the table's own text, and is told by where that lies.
    #[inline]
    fn named(&self, shared: &Shared, name: &str) -> Option<Method> {
        let methods = &shared.methods;
        let last = self.last.get();
        if let Some(last) = last.filter(|last| std::ptr::eq(methods.name(*last), name)) {
            return Some(last);
        }
        let found = methods.named(name)?;
        if !shared.is_rehearsal {
            self.last.set(Some(found));
        }
        Some(found)
    }

    fn method(&self, name: &str, request: &Request<'_>, mut reply: Reply<'_>) {
        let shared = if request.rehearsal {
            &self.rehearsal
        } else {
            &self.shared
        };
        let Some(method) = self.named(shared, name) else {
            return unknown(shared, name, request, reply);
        };
        let work = shared.methods.work(method);
        let in_run = joins_run(shared, work, request);
        let arrival = Arrival {
            method,
            received: request.received,
            entered: match in_run {
                true => reply.join(method.mark()),
                false => reply.look(),
            },
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
            return own(shared, &arrival, request, reply);
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
            engines,
            connection: request.connection,
            arrival,
            in_run,
            header_deadline_ms: request.meta.deadline_ms,
            header_trace: request.meta.trace,
            header_token: request.meta.token,
        };
        if let Some(status) = handlers::early::refusal(&call, work, request) {
            return call.refuse(reply, &status);
        }
        match work {
            Work::Echo => handlers::own::echo(&call, request, reply),
            Work::Constant(constant) => handlers::own::constant(&call, request, constant, reply),
            Work::Duplex(duplex) => handlers::duplex::answer(&call, request, duplex, reply),
            _ => match decode_map(request.encoding, request.payload) {
                Ok(map) => match call.open(Some(&map)) {
                    Ok(()) => call.handle(work, map, reply),
                    Err(status) => call.refuse(reply, &status),
                },
                Err(error) => call.refuse(reply, &error.into()),
            },
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

/// Whether a call is so short that a look at the clock would weigh beside it, and nobody wants a line about it.
fn joins_run(shared: &Shared, work: &Work, request: &Request<'_>) -> bool {
    matches!(work, Work::Echo | Work::Constant(_))
        && request.payload.len() <= SHORT_BYTES_MAX
        && !request.rehearsal
        && !shared.slow.is_on()
        && !tracing::enabled!(tracing::Level::DEBUG)
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
fn own(shared: &Arc<Shared>, arrival: &Arrival, request: &Request<'_>, reply: Reply<'_>) {
    let method = arrival.method;
    let checked = decode_map(request.encoding, request.payload)
        .map_err(Status::from)
        .and_then(|map| {
            let token = token_of(Some(&map))?.or(request.meta.token);
            shared.access.open(method, shared.methods.name(method), token)?;
            let (fields, reserved) = match shared.methods.work(method) {
                Work::Tune => return handlers::tune::read(map, request.peer).map(Some),
                _ => Fields::root(map)?,
            };
            fields.finish()?;
            drop(reserved);
            Ok(None)
        });
    let answered = match (checked, shared.methods.work(method)) {
        (Err(status), _) => {
            shared.refused(arrival, request.meta.trace, &status);
            return reply.error(&status);
        }
        (Ok(Some(asked)), _) => {
            return handlers::tune::answer(shared, arrival, request.meta.trace, &asked, reply);
        }
        (Ok(None), Work::Ping) => handlers::ping::answer(reply),
        (Ok(None), Work::Status) => handlers::status::answer(shared, reply),
        (Ok(None), _) => handlers::infos::answer(shared, reply),
    };
    let ready = shared.answered_inline(arrival, request.meta.trace);
    answered.set_ready(ready, method.mark());
}

/// The token of a payload.
fn token_of<'m>(map: Option<&'m Map<'_>>) -> Result<Option<&'m str>, Status> {
    match map.and_then(|map| map.get("_token")) {
        None => Ok(None),
        Some(Value::Text(token)) => Ok(Some(token)),
        Some(other) => Err(FieldError::invalid("_token".to_owned(), other.kind(), "text").into()),
    }
}

impl Call<'_> {
    /// Hands it to its method's handler; the router itself knows those that take no map of their own.
    fn handle(&self, work: &Work, map: Map<'_>, reply: Reply<'_>) {
        match work {
            Work::FeaturesLookup => handlers::features_lookup::answer(self, map, reply),
            Work::OrderedGet => handlers::ordered_get::answer(self, map, reply),
            Work::OrderedPut => handlers::ordered_put::answer(self, map, reply),
            Work::OrderedScan => handlers::ordered_scan::answer(self, map, reply),
            Work::Infer => handlers::infer::answer(self, map, reply),
            Work::Rank => handlers::rank::answer(self, map, reply),
            Work::Ping | Work::Status | Work::Infos | Work::Tune => {}
            Work::Echo | Work::Constant(_) | Work::Duplex(_) => {}
        }
    }

    /// Checks the token of its payload, or else of its headers.
    #[inline]
    pub(crate) fn open(&self, map: Option<&Map<'_>>) -> Result<(), Status> {
        match self.is_open() {
            true => Ok(()),
            false => self.open_with(token_of(map)?),
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
        let answered = reply.answer(write);
        if self.in_run {
            return answered.in_run(self.arrival.method.mark());
        }
        let trace = trace.or(self.header_trace);
        let ready = self.shared.answered_inline(&self.arrival, trace);
        answered.set_ready(ready, self.arrival.method.mark());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_method_called_last_is_known_and_the_others_are_looked_up() {
        let text = "[methods.ab]\nkind = \"echo\"\n[methods.ac]\nkind = \"echo\"";
        let config: Config = toml::from_str(text).unwrap();
        let rehearsal = Arc::new(Shared::new(config.clone(), true));
        let router = Router::new(Arc::new(Shared::new(config, false)), rehearsal);
        let (shared, methods) = (&router.shared, &router.shared.methods);
        assert_eq!(router.known(b"ab"), None, "nothing was called");
        for name in ["ab", "ac", "ab"] {
            let method = methods.named(name);
            assert_eq!(router.named(shared, name), method);
            let known = router.known(name.as_bytes()).unwrap();
            assert_eq!(router.named(shared, known), method);
            for other in ["", "a", "ad", "abc", "acc"] {
                assert_eq!(router.known(other.as_bytes()), None);
                assert_eq!(router.named(shared, other), None);
            }
            assert_eq!(
                router.known(name.as_bytes()),
                Some(name),
                "what is unknown is not kept"
            );
            assert_eq!(router.named(&router.rehearsal, "rank"), methods.named("rank"));
            assert_eq!(router.known(b"rank"), None, "a rehearsal is nobody's call");
        }
    }
}
