//! A connection's bytes on their way through its encryption.
//! Its invariant: what was agreed on is kept to in both directions, or the connection ends.

use super::Connection;
use crate::net_thread::Net;
use crate::quiet::{Cause, LeftOut};
use std::sync::atomic::Ordering;

impl Connection {
    /// Takes what an encrypted connection received.
    pub(super) fn receive<S>(&mut self, net: &Net<S>, bytes: &[u8]) {
        let limit = net.options.limits.frame_bytes_max;
        let Some(secure) = &mut self.secure else { return };
        if let Err(error) = secure.receive(bytes, &mut self.input, limit) {
            if let Some(LeftOut(left_out)) = net.counters.quiet.admits(Cause::NotSecure) {
                tracing::info!(peer = %self.peer, %error, left_out, "connection closed: not what was agreed on");
            }
            net.counters.malformed.fetch_add(1, Ordering::Relaxed);
            self.flags.closing = true;
        }
    }

    /// Encrypts the frame that was written from `start` on, on an encrypted connection.
    pub(super) fn seal(&mut self, start: usize) {
        if let Some(secure) = &mut self.secure
            && self.out.len() > start
        {
            secure.seal(&mut self.out, start);
        }
    }
}
