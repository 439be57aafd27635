//! Who is at the other end of a connection.
//! Its invariant: it names no more than the system said when the connection was accepted.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Over IPv4 or IPv6.
    Inet(SocketAddr),
    /// A process of this machine, over a Unix socket.
    Unix,
    /// Another process of this server, which sends on a call that it has admitted: nothing more is asked of its caller.
    Process,
}

impl From<Option<SocketAddr>> for Peer {
    fn from(address: Option<SocketAddr>) -> Peer {
        address.map_or(Peer::Unix, Peer::Inet)
    }
}

impl Peer {
    /// Its address, an IPv4 one that came over IPv6 as what it is; none over a Unix socket.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Peer::Inet(address) => Some(address.ip().to_canonical()),
            Peer::Unix | Peer::Process => None,
        }
    }

    /// Whether it is of this machine or of a network that is not routed on the internet: loopback, link-local, RFC 1918,
    /// and RFC 4193.
    pub fn is_private(self) -> bool {
        match self.ip() {
            None => true,
            Some(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
            Some(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Inet(address) => address.fmt(out),
            Peer::Unix => out.write_str("unix"),
            Peer::Process => out.write_str("process"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn private_is_what_the_internet_does_not_route() {
        let is_private = |text: &str| Peer::Inet(text.parse().unwrap()).is_private();
        for private in [
            "127.0.0.1:1",
            "10.1.2.3:1",
            "172.31.0.1:1",
            "192.168.0.9:1",
            "169.254.1.1:1",
            "[::1]:1",
            "[fd00::1]:1",
            "[fe80::1]:1",
            "[::ffff:10.0.0.1]:1",
        ] {
            assert!(is_private(private), "{private}");
        }
        for public in [
            "8.8.8.8:1",
            "172.32.0.1:1",
            "[2001:4860::1]:1",
            "[::ffff:8.8.8.8]:1",
        ] {
            assert!(!is_private(public), "{public}");
        }
        assert!(Peer::Unix.is_private());
    }
}
