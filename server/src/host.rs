//! What the process says of itself: what its methods ask it, and `/v2/health` on the data port.
//! It serves no method. Its invariant: it blocks no net thread.

use crate::{Shared, infos, switch, tune};
use millpond_calls::{Host, OnVersions, Reply, Tuned, VersionsCall};
use millpond_wire_schema::{Code, Status, system::AllInfos, tune::Call};
use std::net::IpAddr;
use std::sync::Arc;

impl Host for Shared {
    fn is_ready(&self) -> bool {
        self.why_not_ready().is_none()
    }

    fn infos(&self) -> AllInfos<'static> {
        infos::infos(self)
    }

    fn tune(self: Arc<Self>, call: &Call<'_>, keeps: Option<IpAddr>) -> Result<Tuned, Status> {
        tune::tune(&self, call, keeps)
    }

    fn versions(self: Arc<Self>, call: VersionsCall, on_done: OnVersions) {
        switch::serve(self, call, on_done);
    }

    fn visit(&self, verb: &str, path: &str, reply: Reply<'_>) {
        let (status, text) = match (verb, path) {
            ("GET" | "HEAD", "/v2/health/live") if self.health.hopeless().is_some() => (503, "hopeless\n"),
            ("GET" | "HEAD", "/v2/health/live") => (200, "live\n"),
            ("GET" | "HEAD", "/v2/health/ready") if self.is_ready() => (200, "ready\n"),
            ("GET" | "HEAD", "/v2/health/ready") => (503, "not ready\n"),
            _ => {
                let ex = format!("{verb} {path} is not served here; call methods with POST /service/METHOD");
                return reply.error(&Status::new(Code::UnknownMethod, ex));
            }
        };
        reply.body(status, "text/plain", text.as_bytes());
    }
}
