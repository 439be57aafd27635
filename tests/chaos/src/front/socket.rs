//! A connected socket, in clear or by TLS, that can be left in every way a caller may leave.

use rustix::net::sockopt::set_socket_linger;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// How long a connect may take: the backlog of a paused server takes connections, so that it is short.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A connected socket.
pub enum Socket {
    /// In clear.
    Plain(TcpStream),
    /// By TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

fn connected(addr: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, CONNECT_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

impl Socket {
    /// Connects in clear.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn plain(addr: SocketAddr, patience: Duration) -> io::Result<Socket> {
        connected(addr, patience).map(Socket::Plain)
    }

    /// Connects by TLS; the handshake is done with the first bytes.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn tls(addr: SocketAddr, config: Arc<ClientConfig>, patience: Duration) -> io::Result<Socket> {
        let name = "localhost".try_into().map_err(io::Error::other)?;
        let client = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let stream = connected(addr, patience)?;
        Ok(Socket::Tls(Box::new(StreamOwned::new(client, stream))))
    }

    fn stream(&self) -> &TcpStream {
        match self {
            Socket::Plain(stream) => stream,
            Socket::Tls(stream) => &stream.sock,
        }
    }

    /// Closes with a reset: what is on its way in both directions is lost.
    pub fn reset(&self) {
        let _ = set_socket_linger(self.stream(), Some(Duration::ZERO));
    }

    /// Shuts down the sending side.
    pub fn half_close(&mut self) {
        if let Socket::Tls(stream) = self {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        let _ = self.stream().shutdown(Shutdown::Write);
    }

    /// Shows the certificate of the server once the handshake is done.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        match self {
            Socket::Plain(_) => None,
            Socket::Tls(stream) => Some(stream.conn.peer_certificates()?.first()?.to_vec()),
        }
    }

    /// How long a read waits from now on.
    pub fn set_patience(&self, patience: Duration) {
        let _ = self.stream().set_read_timeout(Some(patience));
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(stream) => stream.read(buffer),
            Socket::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(stream) => stream.write(bytes),
            Socket::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Plain(stream) => stream.flush(),
            Socket::Tls(stream) => stream.flush(),
        }
    }
}
