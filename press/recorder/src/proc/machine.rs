//! The files of `/proc` about the machine and its network, as functions of their text.
//!
//! Its invariant: nothing here reads a file, and text that is not what the kernel writes gives nothing.

use std::collections::BTreeSet;

/// Processor time of the whole machine since it started, in ticks of 1/100 s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MachineTicks {
    /// Everything but idling, waiting for disks and what was stolen.
    pub(super) busy: u64,
    /// The part of `busy` spent on interrupts, soft ones included.
    pub(super) interrupts: u64,
    /// Time the hypervisor gave to others.
    pub(super) steal: u64,
}

/// Reads `/proc/stat`. Guests' time is within user time.
pub(super) fn machine_ticks(text: &str) -> Option<MachineTicks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let &[user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
        return None;
    };
    Some(MachineTicks {
        busy: user + nice + system + irq + softirq,
        interrupts: irq + softirq,
        steal,
    })
}

/// Bytes received and sent over all interfaces, of `/proc/net/dev`.
pub(super) fn interface_bytes(text: &str) -> Option<(u64, u64)> {
    let mut sums = None;
    for line in text.lines().skip(2) {
        let (_, fields) = line.split_once(':')?;
        let mut fields = fields.split_ascii_whitespace();
        let received: u64 = fields.next()?.parse().ok()?;
        let sent: u64 = fields.nth(7)?.parse().ok()?;
        let (rx, tx) = sums.unwrap_or((0u64, 0u64));
        sums = Some((rx.wrapping_add(received), tx.wrapping_add(sent)));
    }
    sums
}

/// A counter of `/proc/net/snmp` or `netstat`, where a line of names with `prefix` precedes one of values.
pub(super) fn counter(text: &str, prefix: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|each| each == name)?;
    values.split_ascii_whitespace().nth(at)?.parse().ok()
}

/// What waits at the sockets of one port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SocketQueues {
    /// Connections nobody has accepted; absent without a listening socket.
    pub(super) accept: Option<u64>,
    /// Bytes that the port's own sockets hold unread.
    pub(super) receive_bytes: u64,
    /// Bytes that sockets from or to the port have not got acknowledged.
    pub(super) send_bytes: u64,
}

impl SocketQueues {
    /// Adds the sockets of `/proc/net/tcp` or `tcp6`; lines that cannot be read count nothing.
    pub(super) fn add(&mut self, text: &str, port: u16) {
        for line in text.lines().skip(1) {
            let Some(socket) = socket(line) else { continue };
            let is_local = socket.local_port == port;
            if socket.listens {
                if is_local {
                    *self.accept.get_or_insert(0) += socket.receive_queue;
                }
            } else if is_local {
                self.receive_bytes += socket.receive_queue;
                self.send_bytes += socket.send_queue;
            } else if socket.remote_port == port {
                self.send_bytes += socket.send_queue;
            }
        }
    }
}

struct Socket {
    local_port: u16,
    remote_port: u16,
    listens: bool,
    send_queue: u64,
    receive_queue: u64,
}

fn socket(line: &str) -> Option<Socket> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
    let queue = |hex: &str| u32::from_str_radix(hex, 16).ok().map(u64::from);
    let local_port = port(fields.next()?)?;
    let remote_port = port(fields.next()?)?;
    let listens = fields.next()? == "0A";
    let (send, receive) = fields.next()?.split_once(':')?;
    Some(Socket {
        local_port,
        remote_port,
        listens,
        send_queue: queue(send)?,
        receive_queue: queue(receive)?,
    })
}

/// Leaves out what is named twice, in order.
pub(super) fn distinct(pids: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    pids.into_iter().filter(|pid| seen.insert(*pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_time_is_split() {
        let stat = "cpu  3184416 72192 207297 1400144 14640 5 14404 124219 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nintr 1 2\n";
        let expected = MachineTicks {
            busy: 3_184_416 + 72_192 + 207_297 + 5 + 14_404,
            interrupts: 14_409,
            steal: 124_219,
        };
        assert_eq!(machine_ticks(stat), Some(expected));
        for garbage in ["", "cpu  1 2 3", "cpu  1 2 3 x 5 6 7 8 9", "cpu0 1 2 3 4 5 6 7 8"] {
            assert_eq!(machine_ticks(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn interfaces_are_summed() {
        let head = "Inter-|   Receive    |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n";
        let lines = "    lo: 58349764942 33533684    0    0    0     0          0         0 58349764943 33533684    0\n  eth0:100       1    0    0    0     0          0         0        20       1    0    0\n";
        assert_eq!(
            interface_bytes(&format!("{head}{lines}")),
            Some((58_349_765_042, 58_349_764_963))
        );
        assert_eq!(interface_bytes(head), None);
        assert_eq!(interface_bytes(&format!("{head}  eth0: 1 2 3\n")), None);
        assert_eq!(interface_bytes(&format!("{head}no interface\n")), None);
    }

    #[test]
    fn counters_are_found_by_name() {
        let snmp = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoMin MaxConn RetransSegs InErrs\nTcp: 200 -1 2533 0\nTcpX: 1\n";
        assert_eq!(counter(snmp, "Tcp:", "RetransSegs"), Some(2_533));
        assert_eq!(counter(snmp, "Tcp:", "MaxConn"), None, "-1 is no count");
        assert_eq!(counter(snmp, "Tcp:", "Absent"), None);
        assert_eq!(counter(snmp, "TcpX:", "1"), None);
        assert_eq!(counter("", "Tcp:", "RetransSegs"), None);
        assert_eq!(counter("Tcp: A B\nTcp: 1\n", "Tcp:", "B"), None);
    }

    #[test]
    fn queues_are_told_by_side() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let tail = "00:00000000 00000000     0        0 1579 1 000000004fb1c292 100 0 0 10 0";
        let text = format!(
            "{head}   0: 00000000:07E8 00000000:0000 0A 00000000:00000003 {tail}\n\
             1: 0100007F:07E8 0100007F:D431 01 00000010:00000100 {tail}\n\
             2: 0100007F:D431 0100007F:07E8 01 00000005:00001000 {tail}\n\
             3: 0100007F:07E9 0100007F:D431 01 0000FFFF:0000FFFF {tail}\n\
             4: 00000000:07E9 00000000:0000 0A 00000000:00000009 {tail}\n\
             5: garbage\n   6: 0100007F:07E8 0100007F:D431 01 zz:zz\n"
        );
        let mut queues = SocketQueues::default();
        queues.add(&text, 0x07e8);
        let six = "  sl  local_address\n 0: 00000000000000000000000000000000:07E8 00000000000000000000000000000000:0000 0A 00000000:00000001 00:0\n";
        queues.add(six, 0x07e8);
        let expected = SocketQueues {
            accept: Some(4),
            receive_bytes: 0x100,
            send_bytes: 0x15,
        };
        assert_eq!(queues, expected);
        let mut none = SocketQueues::default();
        none.add(&text, 80);
        assert_eq!(none, SocketQueues::default());
    }

    #[test]
    fn processes_are_named_once() {
        assert_eq!(distinct([3, 1, 3, 2, 1]), [3, 1, 2]);
    }
}
