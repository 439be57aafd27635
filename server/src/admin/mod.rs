//! The admin port: health, readiness and metrics, apart from the data.
//! It changes nothing. Its invariant: it answers while the data port drains or is overloaded.

pub(crate) mod page;

use crate::Shared;
use millpond_wire_schema::{Code, Status};
use millpond_wire_transport::{Body, Reply, Request, Service, Target};
use std::sync::Arc;

/// What a page of metrics is, as HTTP says it.
pub(crate) const METRICS_TYPE: &str = "text/plain; version=0.0.4";

/// What the admin port shows: this process, or several.
pub(crate) trait View: Clone + Send + 'static {
    /// Whether calls are served.
    fn is_ready(&self) -> bool;

    /// Why not, where that is worth a word.
    fn complaint(&self) -> Option<String> {
        None
    }

    /// Answers the page of metrics, now or later.
    fn metrics(&self, reply: Reply<'_>);
}

/// The service of the admin port.
#[derive(Clone)]
pub(crate) struct Admin<V> {
    pub(crate) view: V,
}

impl View for Arc<Shared> {
    fn is_ready(&self) -> bool {
        Shared::is_ready(self)
    }

    fn complaint(&self) -> Option<String> {
        self.read_only_store()
    }

    fn metrics(&self, reply: Reply<'_>) {
        let text = page::metrics(self);
        reply.body(&Body {
            status: 200,
            content_type: METRICS_TYPE,
            bytes: text.as_bytes(),
        });
    }
}

impl<V: View> Service for Admin<V> {
    fn call(&self, request: Request<'_>, reply: Reply<'_>) {
        fn plain(status: u16, bytes: &[u8]) -> Body<'_> {
            Body {
                status,
                content_type: "text/plain",
                bytes,
            }
        }
        match request.target {
            Target::Path {
                verb: "GET" | "HEAD",
                path: "/healthz",
            } => reply.body(&plain(200, b"alive\n")),
            Target::Path {
                verb: "GET" | "HEAD",
                path: "/readyz",
            } => {
                if self.view.is_ready() {
                    reply.body(&plain(200, b"ready\n"))
                } else {
                    let why = self.view.complaint();
                    let why = why.map_or("not ready\n".to_owned(), |why| format!("not ready: {why}\n"));
                    reply.body(&plain(503, why.as_bytes()))
                }
            }
            Target::Path {
                verb: "GET" | "HEAD",
                path: "/metrics",
            } => self.view.metrics(reply),
            _ => reply.error(&Status::new(
                Code::UnknownMethod,
                "the admin port serves GET /healthz, /readyz and /metrics",
            )),
        }
    }
}
