//! The bytes of a connection to another node, over IP, a Unix socket or TLS, for a thread that may wait.
//!
//! It knows no message, and looks up no name. Its invariant: no connect, no handshake, no read and no write ends later than it was told.

use crate::nodes::Roads;
use millpond_net::{TlsStream, TlsTo};
use millpond_nodes::{TLS, host_of};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A blocking stream to a node, in clear or by TLS.
pub(super) enum Stream {
    Clear(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// What the bytes go over.
pub(super) struct Socket {
    kind: Kind,
    /// When reads and writes end.
    until: Instant,
}

enum Kind {
    Inet(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects to an address of a map, by TLS where it says so.
    pub(super) fn to(address: &str, roads: &Roads, until: Instant) -> io::Result<Stream> {
        if let Some(path) = address.strip_prefix("unix:") {
            let kind = Kind::Unix(connect_unix(path, until)?);
            return Ok(Stream::Clear(Socket { kind, until }));
        }
        let place = address.strip_prefix(TLS);
        let tls = place.zip(roads.tls.as_ref());
        let tls = tls.map(|(place, tls)| tls.to(host_of(place)));
        let tls = tls.transpose().map_err(io::Error::other)?;
        let mut last = io::Error::other("its name could not be looked up");
        let place = place.unwrap_or(address);
        let names = roads.names.load();
        let found = match place.parse() {
            Ok(address) => vec![address],
            Err(_) => names.get(place).cloned().unwrap_or_default(),
        };
        for (at, address) in found.iter().enumerate() {
            let part = left(until) / (found.len() - at) as u32;
            let until = Instant::now() + part;
            let connected = TcpStream::connect_timeout(address, part.max(Duration::from_millis(1)));
            match connected.and_then(|stream| Stream::over(stream, tls.as_ref(), until)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn over(stream: TcpStream, tls: Option<&TlsTo>, until: Instant) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        let kind = Kind::Inet(stream);
        let socket = Socket { kind, until };
        match tls {
            Some(tls) => Ok(Stream::Tls(Box::new(tls.over(socket)?))),
            None => Ok(Stream::Clear(socket)),
        }
    }

    /// Reads and writes from now on end by then.
    pub(super) fn set_until(&mut self, until: Instant) {
        match self {
            Stream::Clear(socket) => socket.until = until,
            Stream::Tls(stream) => stream.socket().until = until,
        }
    }
}

impl Socket {
    /// A read or a write from now on ends in time.
    fn set_timeout(&self) -> io::Result<()> {
        if Instant::now() >= self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = Some(left(self.until));
        match &self.kind {
            Kind::Inet(stream) => stream
                .set_read_timeout(left)
                .and_then(|()| stream.set_write_timeout(left)),
            Kind::Unix(stream) => stream
                .set_read_timeout(left)
                .and_then(|()| stream.set_write_timeout(left)),
        }
    }
}

/// A listener with as many connections before it as may wait would have a usual connect wait without end.
fn connect_unix(path: &str, until: Instant) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            Err(rustix::io::Errno::AGAIN) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Never zero, which would stand for no limit.
pub(super) fn left(until: Instant) -> Duration {
    let left = until.saturating_duration_since(Instant::now());
    left.max(Duration::from_millis(1))
}

/// The system says "would block" at the end of a timeout, which stands for something else elsewhere.
fn timed<T>(done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    })
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.set_timeout()?;
        timed(match &mut self.kind {
            Kind::Inet(stream) => stream.read(bytes),
            Kind::Unix(stream) => stream.read(bytes),
        })
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.set_timeout()?;
        timed(match &mut self.kind {
            Kind::Inet(stream) => stream.write(bytes),
            Kind::Unix(stream) => stream.write(bytes),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Clear(socket) => socket.read(bytes),
            Stream::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Clear(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Clear(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
