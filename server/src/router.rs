//! The service of the data port: calls go to `millpond-calls`, health is answered here.
//! Its invariant: each copy is of one net thread, and keeps that thread's turn.

use crate::{Shared, infos, tune};
use millpond_calls::{Call, Host, MethodId, Peer, Reply, Service, Tuned, Turn};
use millpond_methods::Engines;
use millpond_wire_schema::{Code, Status, own::AllInfos, tune::Call as TuneCall};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// The service of the data port.
pub(crate) struct Router {
    shared: Arc<Shared>,
    turn: Turn<Engines>,
}

impl Router {
    pub(crate) fn new(shared: Arc<Shared>) -> Router {
        Router {
            shared,
            turn: Turn::default(),
        }
    }
}

/// Another net thread has a turn of its own.
impl Clone for Router {
    fn clone(&self) -> Router {
        Router::new(Arc::clone(&self.shared))
    }
}

impl Host for Router {
    fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    fn infos(&self) -> AllInfos<'static> {
        infos::infos(&self.shared)
    }

    fn tune(&self, call: &TuneCall<'_>, keeps: Option<IpAddr>) -> Result<Tuned, Status> {
        tune::tune(&self.shared, call, keeps)
    }
}

impl Service for Router {
    fn find(&self, name: &str) -> Option<MethodId> {
        self.shared.calls.methods.named(name)
    }

    fn call(&self, asked: &Call<'_>, reply: Reply<'_>) {
        self.shared.calls.serve(asked, reply, &self.turn, self);
    }

    fn visit(&self, verb: &str, path: &str, peer: Peer, reply: Reply<'_>) {
        let shared = &self.shared;
        if let Err(status) = shared.calls.access.admit_peer(peer) {
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

    fn written(&self, method: MethodId, since: Instant) {
        self.turn.written(method, since);
    }

    fn has_batch(&self) -> bool {
        self.turn.has_batch()
    }

    fn serve_batch(&self, began: Instant) {
        self.turn.serve_batch(began, &self.shared.calls);
    }

    fn turned(&self, began: Instant) {
        self.turn.end(began, &self.shared.calls);
    }

    fn refused(&self, method: Option<MethodId>, status: &Status) {
        self.shared.calls.refused_before(method, status);
    }
}
