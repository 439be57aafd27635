//! The listening sockets, bound before anything else starts, and the process's file limit.
//! Its invariant: an address that cannot be had is an error before the first thread.

use crate::Error;
use crate::tls::Tls;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Connections the kernel may hold before they are accepted (it caps this at net.core.somaxconn).
const BACKLOG: i32 = 4096;

/// Where a socket listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// An IPv4 or IPv6 address.
    Inet(SocketAddr),
    /// A Unix socket's file.
    Unix(PathBuf),
}

impl Bound {
    /// The IP address and port; none of a Unix socket.
    pub fn addr(&self) -> Option<SocketAddr> {
        match self {
            Bound::Inet(addr) => Some(*addr),
            Bound::Unix(_) => None,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Inet(address) => address.fmt(out),
            Bound::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// A bound socket that nothing accepts from yet; one whose address is shared, or that was bound deaf, does not listen yet
/// either. Dropping one takes a Unix
/// socket's file away.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: Socket,
    bound: Bound,
    /// The configuration key to name when it cannot listen; none where it does.
    deaf: Option<String>,
    /// What its connections begin with, where they are encrypted.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Which of its transport's lists of protocols its connections speak.
    pub(crate) port: usize,
}

impl Listener {
    /// Binds `addr`; `key` is the configuration key to name when it cannot be had. An IPv6 address takes IPv6 alone.
    ///
    /// # Errors
    /// [`Error::Bind`] with the hint: address in use, not of this machine, or not permitted.
    pub fn bind(addr: SocketAddr, key: &str) -> Result<Listener, Error> {
        Listener::open(addr, key, false)
    }

    /// As [`Listener::bind`], on an address that other processes of this user share, each with a socket of its own
    /// (`SO_REUSEPORT`, socket(7)): the kernel gives a new connection to one of those that listen, by a hash of its addresses and
    /// ports. This one does so from [`Listener::listen`] on.
    ///
    /// # Errors
    /// As [`Listener::bind`]; an address is in use too if another process has it unshared.
    pub fn bind_shared(addr: SocketAddr, key: &str) -> Result<Listener, Error> {
        Listener::open(addr, key, true)
    }

    fn open(addr: SocketAddr, key: &str, share_port: bool) -> Result<Listener, Error> {
        let bind = || {
            let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
            if addr.is_ipv6() {
                socket.set_only_v6(true)?;
            }
            socket.set_reuse_address(true)?;
            if share_port {
                sockopt::set_socket_reuseport(&socket, true)?;
            }
            socket.set_nonblocking(true)?;
            socket.bind(&addr.into())?;
            if !share_port {
                socket.listen(BACKLOG)?;
            }
            let bound = Bound::Inet(socket.local_addr()?.as_socket().unwrap_or(addr));
            Ok(Listener {
                socket,
                bound,
                deaf: share_port.then(|| key.to_owned()),
                tls: None,
                port: 0,
            })
        };
        bind().map_err(|source| refused(Bound::Inet(addr), key, source))
    }

    /// Listens, where it does not yet: from now on the kernel takes connections for it.
    ///
    /// # Errors
    /// [`Error::Bind`]: a process that does not share the address listens there meanwhile.
    pub fn listen(&mut self) -> Result<(), Error> {
        let Some(key) = &self.deaf else {
            return Ok(());
        };
        let done = self.socket.listen(BACKLOG);
        done.map_err(|source| refused(self.bound.clone(), key, source))?;
        self.deaf = None;
        Ok(())
    }

    /// Binds a Unix socket at `path`, in the place of one that nobody listens at any more; `key` is as for [`Listener::bind`].
    ///
    /// # Errors
    /// [`Error::Bind`]: another process listens there, the path is something else, or the folder does not take it.
    pub fn bind_unix(path: &Path, key: &str) -> Result<Listener, Error> {
        let mut listener = Listener::bind_unix_deaf(path, key)?;
        listener.listen()?;
        Ok(listener)
    }

    /// The same, and nobody can connect before [`Listener::listen`].
    ///
    /// # Errors
    /// As [`Listener::bind_unix`].
    pub fn bind_unix_deaf(path: &Path, key: &str) -> Result<Listener, Error> {
        let failed = |source, hint| Error::bind(Bound::Unix(path.to_owned()), key, source, hint);
        if path
            .symlink_metadata()
            .is_ok_and(|found| found.file_type().is_socket())
        {
            if UnixStream::connect(path).is_ok() {
                let hint = "another process listens there: stop it, or choose another path";
                return Err(failed(ErrorKind::AddrInUse.into(), hint));
            }
            let hint = "it was left by a process that is gone; remove it";
            std::fs::remove_file(path).map_err(|source| failed(source, hint))?;
        }
        let bind = || {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            socket.bind(&SockAddr::unix(path)?)?;
            Ok(socket)
        };
        let socket = bind().map_err(|source: std::io::Error| {
            let hint = match source.kind() {
                ErrorKind::AddrInUse => "it is there already and is no socket: choose another path",
                ErrorKind::NotFound => "its folder is not there: make it",
                ErrorKind::PermissionDenied => "this user may not write to its folder: choose another",
                _ => "choose another path, of at most 107 bytes",
            };
            failed(source, hint)
        })?;
        Ok(Listener {
            socket,
            bound: Bound::Unix(path.to_owned()),
            deaf: Some(key.to_owned()),
            tls: None,
            port: 0,
        })
    }

    /// Its connections speak the protocols at that place of its transport's [`Ports`](crate::Ports), and not those of the first.
    #[must_use]
    pub fn speaking(mut self, port: usize) -> Listener {
        self.port = port;
        self
    }

    /// Its connections speak TLS, and nothing else.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<Tls>) -> Listener {
        self.tls = Some(tls);
        self
    }

    /// Whether a connection that it has accepted came over loopback, as any page may that a browser of this machine shows. Only
    /// where it listens on every address that is asked of the connection.
    pub(crate) fn is_loopback(&self, accepted: &OwnedFd) -> bool {
        let Some(bound) = self.bound.addr().map(|addr| addr.ip().to_canonical()) else {
            return false;
        };
        if !bound.is_unspecified() {
            return bound.is_loopback();
        }
        let local = rustix::net::getsockname(accepted).ok();
        let local = local.and_then(|local| SocketAddr::try_from(local).ok());
        // If the system does not say, the stricter of the two.
        local.is_none_or(|local| local.ip().to_canonical().is_loopback())
    }

    /// Where it listens, with the port the system chose where 0 was asked for.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Bound::Unix(path) = &self.bound {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn refused(bound: Bound, key: &str, source: std::io::Error) -> Error {
    let hint = match source.kind() {
        ErrorKind::AddrInUse => {
            "another process listens there, or a connection from here has the port: stop it, wait a minute, or choose another port"
        }
        ErrorKind::AddrNotAvailable => "this machine has no such address: choose one of its own",
        ErrorKind::PermissionDenied => "ports below 1024 need a privilege: choose a higher one",
        _ => "choose another address",
    };
    Error::bind(bound, key, source, hint)
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
