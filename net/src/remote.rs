//! Whom a socket was accepted from.

use std::fmt;
use std::net::SocketAddr;

/// The address of a connection's other end; none over a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteAddr(pub Option<SocketAddr>);

impl fmt::Display for RemoteAddr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(out),
            None => out.write_str("unix"),
        }
    }
}
