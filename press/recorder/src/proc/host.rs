//! What the machine and the network namespace of the server counted.
//!
//! Its invariant: a counter that is absent at either end of an interval gives no rate.

use super::machine::{self, MachineTicks, SocketQueues};
use super::reader::Reader;

/// The largest table of sockets that is read: about 20 000 lines of 150 bytes.
pub(super) const SOCKETS_BYTES_MAX: u64 = 3_000_000;

/// The largest of the other files.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Counters at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) ticks: Option<MachineTicks>,
    pub(super) rx_bytes: Option<u64>,
    pub(super) tx_bytes: Option<u64>,
    pub(super) retransmits: Option<u64>,
    pub(super) listen_overflows: Option<u64>,
}

impl Counted {
    /// Reads them; those of the network in the namespace of the first of `pids` that lets itself be read, else in ours.
    pub(super) fn read(pids: &[u32], reader: &mut Reader) -> Counted {
        let bytes = net_file(pids, "dev", FILE_BYTES_MAX, reader, machine::interface_bytes);
        let overflows = |text: &str| {
            let overflows = machine::counter(text, "TcpExt:", "ListenOverflows")?;
            Some(overflows + machine::counter(text, "TcpExt:", "ListenDrops")?)
        };
        let retransmits = |text: &str| machine::counter(text, "Tcp:", "RetransSegs");
        Counted {
            ticks: reader
                .read(format_args!("/proc/stat"), FILE_BYTES_MAX)
                .and_then(|text| machine::machine_ticks(&text)),
            rx_bytes: bytes.map(|(received, _)| received),
            tx_bytes: bytes.map(|(_, sent)| sent),
            retransmits: net_file(pids, "snmp", FILE_BYTES_MAX, reader, retransmits),
            listen_overflows: net_file(pids, "netstat", FILE_BYTES_MAX, reader, overflows),
        }
    }
}

/// The queues at the sockets of `port`, or nothing when a table cannot be read or has more than `bytes_max` bytes.
pub(super) fn socket_queues(
    pids: &[u32],
    port: u16,
    bytes_max: u64,
    reader: &mut Reader,
) -> Option<SocketQueues> {
    let mut queues = SocketQueues::default();
    net_file(pids, "tcp", bytes_max, reader, |text| {
        queues.add(text, port);
        Some(())
    })?;
    // A machine without IPv6 has no such file; one that is too large spoils the sum.
    let is_absent = reader.open(format_args!("/proc/self/net/tcp6")).is_none();
    let six = net_file(pids, "tcp6", bytes_max, reader, |text| {
        queues.add(text, port);
        Some(())
    });
    (is_absent || six.is_some()).then_some(queues)
}

/// What `understand` finds in the file `name` of the server's network namespace, or of ours where that cannot be read.
fn net_file<T>(
    pids: &[u32],
    name: &str,
    bytes_max: u64,
    reader: &mut Reader,
    mut understand: impl FnMut(&str) -> Option<T>,
) -> Option<T> {
    for pid in pids {
        if let Some(text) = reader.read(format_args!("/proc/{pid}/net/{name}"), bytes_max) {
            return understand(&text);
        }
    }
    let text = reader.read(format_args!("/proc/self/net/{name}"), bytes_max)?;
    understand(&text)
}

/// How much a counter grew a second; nothing when it is absent or was set back.
pub(super) fn rate(now: Option<u64>, last: Option<u64>, seconds: f64) -> Option<f64> {
    Some(now?.checked_sub(last?)? as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_both_ends() {
        assert_eq!(rate(Some(30), Some(10), 2.0), Some(10.0));
        assert_eq!(rate(Some(10), Some(30), 2.0), None);
        assert_eq!(rate(None, Some(30), 2.0), None);
        assert_eq!(rate(Some(30), None, 2.0), None);
    }

    #[test]
    fn the_queues_of_a_listening_socket_are_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let waiting: Vec<_> = (0..3)
            .map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected"))
            .collect();
        let mut reader = Reader::default();
        // However many sockets this machine has just now.
        let queues = socket_queues(&[std::process::id()], port, 1 << 30, &mut reader).expect("readable");
        assert_eq!(queues.accept, Some(waiting.len() as u64));
    }
}
