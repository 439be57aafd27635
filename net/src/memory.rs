//! What a transport holds at worst, computed from its options by the bounds that it keeps.
//!
//! It measures nothing. Its invariant: every byte that a peer can make the transport keep from one turn to the next is in one
//! of the parts; the kernel's memory of sockets is in none.

use crate::Options;
use crate::acceptor::beside_max;
use crate::connection::{Connection, UNCOUNTED_BYTES};
use crate::net_thread::KEPT_BYTES_MAX;

/// Of each connection beside its own record: its places in the slab and in the timers, what its tickets and pushers share
/// with it, and what the allocator adds.
const BESIDE_RECORD_BYTES: u64 = 512;
/// One that speaks TLS, in the middle of its handshake.
const TLS_BYTES: u64 = 8 << 10;
/// Certificates that a client may show: the largest message that rustls takes.
const TLS_CERTIFICATES_BYTES: u64 = 64 << 10;
/// What a net thread holds for the moment of one call, in frames of the largest size: the request, its values decoded, what its answer is
/// made from, and the answer, in JSON with four bytes for one and in a buffer that has grown by doubling.
const FRAMES_AT_WORK: u64 = 16;

/// What one part of a transport holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPart {
    /// What it holds.
    pub what: &'static str,
    /// Bytes.
    pub bytes: u64,
}

/// What decides how much is held beside the options: of what its fronts' sessions hold, the most.
#[derive(Debug, Clone, Copy)]
pub struct MemoryUse {
    /// Connections may speak TLS.
    pub tls: bool,
    /// Their peers are asked for certificates.
    pub tls_certificates: bool,
    /// Bytes of a connection's session beside its messages.
    pub session_bytes: u64,
    /// Bytes of a message.
    pub message_bytes_max: u64,
    /// Bytes of calls to all peers that wait for an answer.
    pub push_bytes: u64,
}

impl Options {
    /// Connections that may be open at a time: those that are served, those that are being refused, and those that linger.
    pub fn connections_open_max(&self) -> u64 {
        let served = self.connections_max as u64;
        served.saturating_add(2 * beside_max(served))
    }

    /// The parts of what this transport holds at worst, with as many connections as there may be.
    pub fn memory_max(&self, used: MemoryUse) -> Vec<MemoryPart> {
        let connections = self.connections_open_max();
        let mut record = size_of::<Connection<()>>() as u64 + used.session_bytes + BESIDE_RECORD_BYTES;
        record += u64::from(used.tls) * TLS_BYTES;
        record += u64::from(used.tls_certificates) * TLS_CERTIFICATES_BYTES;
        let part = |what, bytes| MemoryPart { what, bytes };
        let of_each = |bytes: u64| connections.saturating_mul(bytes);
        // Those that linger hold nothing of requests.
        let asking = connections.saturating_sub(beside_max(self.connections_max as u64));
        let uncounted = asking.saturating_mul(UNCOUNTED_BYTES as u64);
        let waiting = (self.partial_bytes_max as u64).saturating_add(uncounted);
        let at_work = used.message_bytes_max.saturating_mul(FRAMES_AT_WORK) + KEPT_BYTES_MAX as u64;
        vec![
            part("connections", of_each(record)),
            part("requests that are not complete or not served yet", waiting),
            part(
                "answers that wait for their peers",
                self.write_buffers_total_bytes_max as u64,
            ),
            part("calls to peers that wait for an answer", used.push_bytes),
            part(
                "net threads at work",
                (self.threads as u64).saturating_mul(at_work),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_a_connection_is_small() {
        let bytes = size_of::<Connection<()>>();
        assert!(bytes <= 512, "{bytes} bytes, whatever it does");
    }
}
