//! The listening socket, bound before anything else starts, and the process's file limit.
//! Its invariant: an address that cannot be had is an error before the first thread.

use crate::Error;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

/// Connections the kernel may hold before they are accepted (it caps this at net.core.somaxconn).
const BACKLOG: i32 = 4096;

/// A bound socket that nothing accepts from yet.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: TcpListener,
    addr: SocketAddr,
}

impl Listener {
    /// Binds `addr`; `key` is the configuration key to name when it cannot be had.
    ///
    /// # Errors
    /// [`Error::Bind`] with the mend: address in use, not of this machine, or not permitted.
    pub fn bind(addr: SocketAddr, key: &str) -> Result<Listener, Error> {
        let bind = || {
            let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            socket.set_nonblocking(true)?;
            socket.bind(&addr.into())?;
            socket.listen(BACKLOG)?;
            let socket = TcpListener::from(socket);
            let addr = socket.local_addr()?;
            Ok(Listener { socket, addr })
        };
        bind().map_err(|source: std::io::Error| {
            let mend = match source.kind() {
                ErrorKind::AddrInUse => "another process listens there: stop it, or choose another port",
                ErrorKind::AddrNotAvailable => "this machine has no such address: choose one of its own",
                ErrorKind::PermissionDenied => "ports below 1024 need a privilege: choose a higher one",
                _ => "choose another address",
            };
            Error::Bind {
                addr,
                key: key.to_owned(),
                source,
                mend,
            }
        })
    }

    /// The address, with the port the system chose where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }
}

/// Raises the soft limit of open files to the hard one, and returns it: a connection is a file.
pub fn raise_file_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}
