//! What a front calls for every request.
//! Its invariant: it is called on net threads, and must not block them.

use crate::{Call, MethodId, Peer, Reply};
use millpond_wire_schema::{Code, Status};
use std::time::Instant;

/// Answers requests. It is called on the net threads and must not block them.
pub trait Service: Clone + Send + 'static {
    /// The method of that name. A front asks once a call; a service that serves all calls alike has one method of all names.
    fn find(&self, name: &str) -> Option<MethodId> {
        let _ = name;
        Some(MethodId::default())
    }

    /// Serves one call, in one of three ways:
    ///
    /// - it answers `reply` and returns;
    /// - it answers `reply` early and goes on: the answer leaves when this returns, so what takes longer is handed to another
    ///   thread first, which may call the caller by [`Reply::pusher`];
    /// - it keeps [`Reply::later`]'s ticket, which any thread answers when the work is done, and may go on after that.
    fn call(&self, call: &Call<'_>, reply: Reply<'_>);

    /// Answers an HTTP request of that peer's for a path that is no method's, percent-encoded as it came.
    fn visit(&self, verb: &str, path: &str, peer: Peer, reply: Reply<'_>) {
        let _ = peer;
        let ex = format!("{verb} {path} is not served here");
        reply.error(&Status::new(Code::UnknownMethod, ex));
    }

    /// Told in the turn in which the kernel has taken all bytes of a ticket's answer that said since when it was ready
    /// ([`Ticket::set_ready`](crate::Ticket::set_ready)), and of which method. Answers that never left are not told.
    fn written(&self, method: MethodId, since: Instant) {
        let _ = (method, since);
    }

    /// Whether calls wait for the end of a net thread's turn.
    fn has_batch(&self) -> bool {
        false
    }

    /// Serves them: every connection had its turn, and what this answers on the spot leaves before the next.
    fn serve_batch(&self, began: Instant) {
        let _ = began;
    }

    /// Told at the end of each turn of a net thread, after what it answered was sent; when the turn began.
    fn turned(&self, began: Instant) {
        let _ = began;
    }

    /// Told of a call that its front refused with `status`: by the connection's bounds, or for its verb.
    fn refused(&self, method: Option<MethodId>, status: &Status) {
        let _ = (method, status);
    }
}
