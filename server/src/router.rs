//! Takes a request from the transport to its method's handler.
//!
//! It decodes the payload's map and nothing of its meaning. Its invariant: a request is refused for the first reason that
//! holds, in this order: unknown method, draining, not ready, bad payload.

use crate::Shared;
use crate::engines::Engines;
use crate::handlers;
use crate::metrics::{Method, Stage};
use millpond_wire_frame::{Fields, Map, decode_map};
use millpond_wire_schema::{Code, Status};
use millpond_wire_transport::{Body, Reply, Request, Service, Target};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Characters of an unknown method's name that the log shows.
const UNKNOWN_SHOWN_MAX: usize = 64;

/// The service of the data port.
#[derive(Clone)]
pub(crate) struct Router {
    pub(crate) shared: Arc<Shared>,
    /// What the server's calls to itself see and are counted in.
    pub(crate) rehearsal: Arc<Shared>,
}

/// What every handler gets beside its payload.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) engines: &'a Engines,
    pub(crate) method: Method,
    /// The connection it came by.
    pub(crate) connection: u64,
    /// When the request's last byte was read.
    pub(crate) received: Instant,
    /// From then until the router had it; zero for methods whose time is not split into stages.
    pub(crate) queue: Duration,
    /// `X-Deadline-Ms`, which a payload's `_deadline_ms` overrides.
    pub(crate) header_deadline_ms: Option<u64>,
    /// `traceparent`, which a payload's `_trace` overrides.
    pub(crate) header_trace: Option<&'a str>,
}

impl Service for Router {
    fn call(&self, request: Request<'_>, reply: Reply<'_>) {
        match request.target {
            Target::Method(name) => self.method(name, &request, reply),
            Target::Path { verb, path } => self.path(verb, path, reply),
        }
    }

    fn written(&self, took: Duration) {
        self.shared.metrics.spent(Stage::Write, took);
    }
}

impl Router {
    fn method(&self, name: &str, request: &Request<'_>, reply: Reply<'_>) {
        let shared = if request.rehearsal {
            &self.rehearsal
        } else {
            &self.shared
        };
        let Some(method) = Method::named(name) else {
            shared.metrics.unknown();
            let shown: String = name.chars().take(UNKNOWN_SHOWN_MAX).collect();
            tracing::debug!(method = ?shown, code = Code::UnknownMethod.number(), "refused");
            let known: Vec<&str> = Method::ALL.iter().map(|method| method.name()).collect();
            let ex = format!("unknown method {name:?}; methods are {}", known.join(", "));
            return reply.error(&Status::new(Code::UnknownMethod, ex));
        };
        let queue = if method.runs_model() {
            request.received.elapsed()
        } else {
            Duration::ZERO
        };
        let refuse = |reply: Reply<'_>, status: Status| {
            shared.refused(method, &status);
            reply.error(&status);
        };
        if method != Method::Ping && shared.draining.load(Ordering::Relaxed) {
            return refuse(
                reply,
                Status::new(Code::Stopping, "the server is stopping; call another one"),
            );
        }
        let map = match decode_map(request.encoding, request.payload) {
            Ok(map) => map,
            Err(error) => return refuse(reply, error.into()),
        };
        if matches!(method, Method::Ping | Method::Infos) {
            // Neither takes a key of its own.
            if let Err(error) = Fields::root(map).and_then(|(fields, _)| fields.finish()) {
                return refuse(reply, error.into());
            }
            match method {
                Method::Ping => handlers::ping::answer(reply),
                _ => handlers::infos::answer(shared, reply),
            }
            let took = request.received.elapsed();
            if !shared.is_rehearsal {
                tracing::debug!(method = name, us = took.as_micros() as u64, "answered");
            }
            return shared.metrics.answered(method, took);
        }
        let Some(engines) = shared.ready_engines() else {
            return refuse(
                reply,
                Status::new(
                    Code::NotReady,
                    "the server is warming up; /readyz on the admin port turns 200 when it is done",
                ),
            );
        };
        let call = Call {
            shared,
            engines,
            method,
            connection: request.connection,
            received: request.received,
            queue,
            header_deadline_ms: request.meta.deadline_ms,
            header_trace: request.meta.trace,
        };
        call.handle(map, reply);
    }

    fn path(&self, verb: &str, path: &str, reply: Reply<'_>) {
        let plain = |status, text: &'static str| Body {
            status,
            content_type: "text/plain",
            bytes: text.as_bytes(),
        };
        match (verb, path) {
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

impl Call<'_> {
    /// Hands it to its method's handler; the router itself answers the two that need no engines.
    fn handle(&self, map: Map<'_>, reply: Reply<'_>) {
        match self.method {
            Method::FeaturesLookup => handlers::features_lookup::answer(self, map, reply),
            Method::OrderedGet => handlers::ordered_get::answer(self, map, reply),
            Method::OrderedPut => handlers::ordered_put::answer(self, map, reply),
            Method::OrderedScan => handlers::ordered_scan::answer(self, map, reply),
            Method::Infer => handlers::infer::answer(self, map, reply),
            Method::Rank => handlers::rank::answer(self, map, reply),
            Method::Ping | Method::Infos => {}
        }
    }

    /// When this call becomes worthless.
    pub(crate) fn deadline(&self, payload_ms: Option<u64>) -> Result<Instant, Status> {
        self.shared
            .admission
            .deadline(self.received, payload_ms.or(self.header_deadline_ms))
    }

    /// Answers an error at once, counted and logged.
    pub(crate) fn refuse(&self, reply: Reply<'_>, status: &Status) {
        self.shared.refused(self.method, status);
        reply.error(status);
    }

    /// Counts and logs a call that was answered at once.
    pub(crate) fn answered(&self, trace: Option<&str>) {
        let took = self.received.elapsed();
        self.shared.metrics.answered(self.method, took);
        let trace = trace.or(self.header_trace);
        if self.shared.is_rehearsal {
            return;
        }
        tracing::debug!(
            method = self.method.name(),
            us = took.as_micros() as u64,
            trace,
            "answered"
        );
    }
}
