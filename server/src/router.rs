//! Takes a request from the transport to its method's handler.
//!
//! It decodes the payload's map and nothing of its meaning. Its invariant: a request is refused for the first reason that
//! holds, in this order: address, unknown method, the method's rules, stopping, not ready, bad payload, token.

use crate::Shared;
use crate::methods::{Cost, Method, MethodSpec, Serve};
use crate::metrics::{Arrival, Turn};
use millpond_calls::{Call as Asked, Peer, Reply, Service};
use millpond_catalog::{Handle, Pinned};
use millpond_wire_payload::{Encoder, Payload, Reserved};
use millpond_wire_schema::{Code, Status};
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
    /// What the turn of this copy's net thread has answered.
    turn: Turn,
}

/// A call on its way through the server.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    /// What was asked, and by whom.
    pub(crate) asked: &'a Asked<'a>,
    pub(crate) arrival: Arrival,
    /// The turn of a net thread that may answer it; a call of the server's own is of none.
    turn: Option<&'a Turn>,
}

impl Service for Router {
    fn call(&self, asked: &Asked<'_>, reply: Reply<'_>) {
        let shared = &self.shared;
        match shared.methods.named(asked.method) {
            Some(method) => self.method(method, asked, reply),
            None => unknown(shared, asked, reply),
        }
    }

    fn visit(&self, verb: &str, path: &str, peer: Peer, reply: Reply<'_>) {
        let shared = &self.shared;
        if let Err(status) = shared.access.admit_peer(peer) {
            return reply.error(&status);
        }
        let (status, text) = match (verb, path) {
            ("GET" | "HEAD", "/v2/health/live") if shared.health.hopeless().is_some() => (503, "hopeless\n"),
            ("GET" | "HEAD", "/v2/health/live") => (200, "live\n"),
            ("GET" | "HEAD", "/v2/health/ready") if shared.is_ready() => (200, "ready\n"),
            ("GET" | "HEAD", "/v2/health/ready") => (503, "not ready\n"),
            _ => {
                let ex = format!("{verb} {path} is not served here; call methods with POST /service/METHOD");
                return reply.error(&Status::new(Code::UnknownMethod, ex));
            }
        };
        reply.body(status, "text/plain", text.as_bytes());
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
    pub(crate) fn new(shared: Arc<Shared>) -> Router {
        Router {
            shared,
            turn: Turn::default(),
        }
    }

    fn method(&self, method: Method, asked: &Asked<'_>, reply: Reply<'_>) {
        let shared = &self.shared;
        let call = Call::new(shared, method, asked, Some(&self.turn));
        let (connection, bytes) = (asked.caller.connection, asked.payload.len());
        tracing::trace!(method = asked.method, connection, bytes, "called");
        if let Err(status) = call.admit() {
            return call.refuse(reply, &status);
        }
        call.serve(|| shared.ready_engines(), reply);
    }
}

/// Serves a call of the server's own, before it is ready: with `engines`, and counted nowhere.
pub(crate) fn serve_own(shared: &Arc<Shared>, engines: &Handle, asked: &Asked<'_>, reply: Reply<'_>) {
    if let Some(method) = shared.methods.named(asked.method) {
        Call::new(shared, method, asked, None).serve(|| Some(engines.pin()), reply);
    }
}

fn unknown(shared: &Shared, asked: &Asked<'_>, reply: Reply<'_>) {
    let name = asked.method;
    if let Err(status) = shared.access.admit_peer(asked.caller.peer) {
        return reply.error(&status);
    }
    shared.metrics.unknown();
    let shown: String = name.chars().take(UNKNOWN_SHOWN_MAX).collect();
    tracing::debug!(method = ?shown, code = Code::UnknownMethod.number(), "refused");
    let known = shared.methods.names();
    let ex = format!("unknown method {name:?}; methods are {known}");
    reply.error(&Status::new(Code::UnknownMethod, ex));
}

impl<'a> Call<'a> {
    fn new(
        shared: &'a Arc<Shared>,
        method: Method,
        asked: &'a Asked<'a>,
        turn: Option<&'a Turn>,
    ) -> Call<'a> {
        let cost = shared.methods.entry(method).cost;
        let arrival = Arrival {
            method,
            received: asked.received,
            entered: match cost {
                Cost::Detached => asked.clock.read(),
                Cost::Short | Cost::Unbounded => asked.clock.last(),
            },
            is_own: turn.is_none(),
        };
        Call {
            shared,
            asked,
            arrival,
            turn,
        }
    }

    fn entry(&self) -> &'a MethodSpec {
        self.shared.methods.entry(self.arrival.method)
    }

    /// Refuses by address, by the method's rules, and while the server stops.
    fn admit(&self) -> Result<(), Status> {
        let (access, method, entry) = (&self.shared.access, self.arrival.method, self.entry());
        if !access.is_open(method) {
            let caller = self.asked.caller;
            access.admit_peer(caller.peer)?;
            access.admit(method, &entry.name, caller.peer, caller.encrypted)?;
        }
        // What is asked while a server stops is whether it does.
        if !matches!(entry.serve, Serve::Always(_)) && self.shared.draining.load(Ordering::Relaxed) {
            return Err(Status::new(
                Code::Stopping,
                "the server is stopping; call another one",
            ));
        }
        Ok(())
    }

    /// Has what serves its method serve it.
    fn serve(&self, engines: impl FnOnce() -> Option<Pinned>, reply: Reply<'_>) {
        let serve = &self.entry().serve;
        if let Serve::Always(serve) | Serve::UntilStop(serve) = serve {
            return self.read(reply, |payload, reply| serve(self, payload, reply));
        }
        let Some(engines) = engines() else {
            let ex = "the server is warming up; /readyz on the admin port turns 200 when it is done";
            return self.refuse(reply, &Status::new(Code::NotReady, ex));
        };
        self.read(reply, |payload, reply| match serve {
            Serve::Always(serve) | Serve::UntilStop(serve) => serve(self, payload, reply),
            Serve::Configured(serve) => serve(self, payload, reply),
            Serve::Engines(serve) => serve(&engines, self, payload, reply),
        });
    }

    /// Reads its payload as far as everybody must, and has it served.
    #[inline]
    fn read(&self, reply: Reply<'_>, serve: impl FnOnce(&Payload<'_>, Reply<'_>)) {
        let payload = Payload::new(self.asked.encoding, self.asked.payload).map_err(Status::from);
        match payload.and_then(|payload| self.open(&payload).map(|()| payload)) {
            Ok(payload) => serve(&payload, reply),
            Err(status) => self.refuse(reply, &status),
        }
    }

    /// Checks the token of its payload, or else of its headers.
    #[inline]
    fn open(&self, payload: &Payload<'_>) -> Result<(), Status> {
        let (access, method) = (&self.shared.access, self.arrival.method);
        if self.arrival.is_own || access.is_open(method) {
            return Ok(());
        }
        let token = Reserved::of(payload)?.token.or(self.asked.meta.token);
        access.open(method, &self.entry().name, token)
    }

    /// When this call becomes worthless.
    #[inline]
    pub(crate) fn deadline(&self, payload_ms: Option<u64>) -> Result<Instant, Status> {
        self.shared
            .admission
            .deadline(&self.arrival, payload_ms.or(self.asked.meta.deadline_ms))
    }

    /// Answers an error at once, counted and logged.
    pub(crate) fn refuse(&self, reply: Reply<'_>, status: &Status) {
        self.shared.refused(&self.arrival, self.asked.meta.trace, status);
        reply.error(status);
    }

    /// Answers at once; it is counted, and logged where somebody wants a line of it.
    #[inline]
    pub(crate) fn answer(&self, reply: Reply<'_>, trace: Option<&str>, write: impl FnOnce(&mut Encoder<'_>)) {
        reply.ok(write);
        let (shared, method) = (self.shared, self.arrival.method);
        let Some(turn) = self.turn else { return };
        if shared.metrics.answered_at_once(method) {
            turn.answered(method);
        }
        if self.is_long() || shared.tells_calls() {
            let trace = trace.or(self.asked.meta.trace);
            shared.tell(&self.arrival, self.asked.clock.read(), trace);
        }
    }

    /// Whether the clock is read behind it, so that what comes next is not taken for its time.
    #[inline]
    fn is_long(&self) -> bool {
        self.entry().cost == Cost::Unbounded || self.asked.payload.len() > SHORT_BYTES_MAX
    }
}
