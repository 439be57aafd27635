//! Connections that this side opens: where to, and what a thread's sessions ask of their loop.
//!
//! It opens nothing and knows no protocol: a net thread carries the requests out at the end of each turn. Its invariant: a
//! connection that was asked for ends once ([`Session::ended`](crate::Session::ended)), whether it was ever open or not.

use crate::session::Session;
use crate::tls::TlsTo;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Where a connection leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remote {
    /// Over IPv4 or IPv6. Names are for the caller to look up: that blocks.
    Inet(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Remote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Inet(address) => address.fmt(out),
            Remote::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// What is asked of a net thread's loop. Its connections are named by numbers of the asker's, each used once.
pub enum Outward<L> {
    /// Open a connection, whose session hears what comes of it.
    Open {
        /// Its number.
        number: u64,
        /// Where it leads.
        to: Remote,
        /// How it is encrypted, where it is.
        tls: Option<TlsTo>,
        /// Its protocol.
        session: Box<dyn Session<L>>,
    },
    /// Send these bytes on a connection, once it is open. One that has ended sends nothing.
    Send {
        /// Its number.
        number: u64,
        /// Whole messages.
        bytes: Vec<u8>,
    },
    /// End a connection at once, with what it has not sent.
    Close {
        /// Its number.
        number: u64,
    },
}

/// Begins to connect, and does not wait for the end of it.
pub(crate) fn begin(to: &Remote) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let open = |family| socket_with(family, SocketType::STREAM, flags, None);
    let (socket, begun) = match to {
        Remote::Inet(address) => {
            let socket = open(match address {
                SocketAddr::V4(_) => AddressFamily::INET,
                SocketAddr::V6(_) => AddressFamily::INET6,
            })?;
            sockopt::set_tcp_nodelay(&socket, true)?;
            let begun = connect(&socket, address);
            (socket, begun)
        }
        Remote::Unix(path) => {
            let socket = open(AddressFamily::UNIX)?;
            let begun = connect(&socket, &SocketAddrUnix::new(path.as_path())?);
            (socket, begun)
        }
    };
    match begun {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error),
    }
}
