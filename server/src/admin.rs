//! The admin port: health, readiness and metrics, apart from the data.
//! It changes nothing. Its invariant: it answers while the data port drains or is overloaded.

pub(crate) mod page;

use crate::Shared;
use millpond_calls::{Call, Peer, Reply, Service};
use millpond_wire_schema::{Code, Status};
use std::sync::Arc;

/// What a page of metrics is, as HTTP says it.
pub(crate) const METRICS_TYPE: &str = "text/plain; version=0.0.4";

/// What the admin port shows: this process, or several.
pub(crate) trait View: Clone + Send + 'static {
    /// Why calls should not come now, if there is a reason.
    fn why_not_ready(&self) -> Option<String>;

    /// What only a restart fixes, if there is such a thing.
    fn why_hopeless(&self) -> Option<String>;

    /// Answers the page of metrics, now or later.
    fn metrics(&self, reply: Reply<'_>);
}

/// The service of the admin port.
#[derive(Clone)]
pub(crate) struct Admin<V> {
    pub(crate) view: V,
}

impl View for Arc<Shared> {
    fn why_not_ready(&self) -> Option<String> {
        Shared::why_not_ready(self)
    }

    fn why_hopeless(&self) -> Option<String> {
        self.health.hopeless()
    }

    fn metrics(&self, reply: Reply<'_>) {
        let text = page::metrics(Some(self)).text();
        reply.body(200, METRICS_TYPE, text.as_bytes());
    }
}

impl<V: View> Service for Admin<V> {
    fn call(&self, _: &Call<'_>, reply: Reply<'_>) {
        unknown(reply);
    }

    fn visit(&self, verb: &str, path: &str, _: Peer, reply: Reply<'_>) {
        let plain = |reply: Reply<'_>, good: &str, bad: &str, why: Option<String>| {
            let (status, text) = match why {
                None => (200, format!("{good}\n")),
                Some(why) => (503, format!("{bad}: {why}\n")),
            };
            reply.body(status, "text/plain", text.as_bytes());
        };
        match (verb, path) {
            ("GET" | "HEAD", "/healthz") => plain(reply, "alive", "hopeless", self.view.why_hopeless()),
            ("GET" | "HEAD", "/readyz") => plain(reply, "ready", "not ready", self.view.why_not_ready()),
            ("GET" | "HEAD", "/metrics") => self.view.metrics(reply),
            _ => unknown(reply),
        }
    }
}

fn unknown(reply: Reply<'_>) {
    reply.error(&Status::new(
        Code::UnknownMethod,
        "the admin port serves GET /healthz, /readyz and /metrics",
    ));
}
