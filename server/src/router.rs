//! Takes a request from the transport to its method's handler.
//!
//! It decodes the payload's map and nothing of its meaning. Its invariant: a request is refused for the first reason that
//! holds, in this order: unknown method, draining, not ready, bad payload.

use crate::Shared;
use crate::engines::Engines;
use crate::handlers;
use crate::methods::{Method, Work};
use crate::metrics::Stage;
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
        let Some(method) = shared.methods.named(name) else {
            shared.metrics.unknown();
            let shown: String = name.chars().take(UNKNOWN_SHOWN_MAX).collect();
            tracing::debug!(method = ?shown, code = Code::UnknownMethod.number(), "refused");
            let ex = format!("unknown method {name:?}; methods are {}", shared.methods.names());
            return reply.error(&Status::new(Code::UnknownMethod, ex));
        };
        let work = shared.methods.work(method);
        let queue = if work.runs_model() {
            request.received.elapsed()
        } else {
            Duration::ZERO
        };
        let refuse = |reply: Reply<'_>, status: Status| {
            shared.refused(method, &status);
            reply.error(&status);
        };
        if *work != Work::Ping && shared.draining.load(Ordering::Relaxed) {
            return refuse(
                reply,
                Status::new(Code::Stopping, "the server is stopping; call another one"),
            );
        }
        if matches!(work, Work::Ping | Work::Infos) {
            return self.own(shared, method, request, reply);
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
        match work {
            Work::Echo => handlers::own::echo(&call, request, reply),
            Work::Constant(constant) => handlers::own::constant(&call, request, constant, reply),
            _ => match decode_map(request.encoding, request.payload) {
                Ok(map) => call.handle(work, map, reply),
                Err(error) => call.refuse(reply, &error.into()),
            },
        }
    }

    /// Answers what needs no engines and takes no key of its own.
    fn own(&self, shared: &Arc<Shared>, method: Method, request: &Request<'_>, reply: Reply<'_>) {
        let checked = decode_map(request.encoding, request.payload)
            .map_err(Status::from)
            .and_then(|map| Ok(Fields::root(map).and_then(|(fields, _)| fields.finish())?));
        if let Err(status) = checked {
            shared.refused(method, &status);
            return reply.error(&status);
        }
        match shared.methods.work(method) {
            Work::Ping => handlers::ping::answer(reply),
            _ => handlers::infos::answer(shared, reply),
        }
        let took = request.received.elapsed();
        if !shared.is_rehearsal {
            let name = shared.methods.name(method);
            tracing::debug!(method = name, us = took.as_micros() as u64, "answered");
        }
        shared.metrics.answered(method, took);
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
    /// Hands it to its method's handler; the router itself knows those that take no map of their own.
    fn handle(&self, work: &Work, map: Map<'_>, reply: Reply<'_>) {
        match work {
            Work::FeaturesLookup => handlers::features_lookup::answer(self, map, reply),
            Work::OrderedGet => handlers::ordered_get::answer(self, map, reply),
            Work::OrderedPut => handlers::ordered_put::answer(self, map, reply),
            Work::OrderedScan => handlers::ordered_scan::answer(self, map, reply),
            Work::Infer => handlers::infer::answer(self, map, reply),
            Work::Rank => handlers::rank::answer(self, map, reply),
            Work::Ping | Work::Infos | Work::Echo | Work::Constant(_) => {}
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
            method = self.shared.methods.name(self.method),
            us = took.as_micros() as u64,
            trace,
            "answered"
        );
    }
}
