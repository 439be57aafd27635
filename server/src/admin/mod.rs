//! The admin port: health, readiness and metrics, apart from the data.
//! It changes nothing. Its invariant: it answers while the data port drains or is overloaded.

mod page;

use crate::Shared;
use millpond_wire_schema::{Code, Status};
use millpond_wire_transport::{Body, Reply, Request, Service, Target};
use std::sync::Arc;

/// The service of the admin port.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) shared: Arc<Shared>,
}

impl Service for Admin {
    fn call(&self, request: Request<'_>, reply: Reply<'_>) {
        let plain = |status, bytes| Body {
            status,
            content_type: "text/plain",
            bytes,
        };
        match request.target {
            Target::Path {
                verb: "GET" | "HEAD",
                path: "/healthz",
            } => reply.body(&plain(200, b"alive\n")),
            Target::Path {
                verb: "GET" | "HEAD",
                path: "/readyz",
            } => {
                if self.shared.is_ready() {
                    reply.body(&plain(200, b"ready\n"))
                } else {
                    reply.body(&plain(503, b"not ready\n"))
                }
            }
            Target::Path {
                verb: "GET" | "HEAD",
                path: "/metrics",
            } => {
                let text = page::metrics(&self.shared);
                reply.body(&Body {
                    status: 200,
                    content_type: "text/plain; version=0.0.4",
                    bytes: text.as_bytes(),
                });
            }
            _ => reply.error(&Status::new(
                Code::UnknownMethod,
                "the admin port serves GET /healthz, /readyz and /metrics",
            )),
        }
    }
}
