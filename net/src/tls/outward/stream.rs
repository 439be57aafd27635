//! TLS over a socket that blocks, for a thread that may wait.
//!
//! Net threads never wait, and have `TlsLayer`. Its invariant: a failure says which key of the configuration helps, as theirs do.

use super::{TlsKeys, TlsTo};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// A connection by TLS whose reads and writes wait as its socket's do.
pub struct TlsStream<S: Read + Write> {
    stream: StreamOwned<ClientConnection, S>,
    keys: TlsKeys,
}

impl TlsTo {
    /// Encrypts a socket that is connected; returns when the handshake is over.
    ///
    /// # Errors
    /// Those of the socket; where TLS fails, why and what to do.
    pub fn over<S: Read + Write>(&self, socket: S) -> io::Result<TlsStream<S>> {
        let keys = self.tls.files.keys;
        let config = self.tls.with(|current| Arc::clone(&current.config));
        let tls = ClientConnection::new(config, self.name.clone())
            .map_err(|error| io::Error::other(keys.explain(Some(&error))))?;
        let mut stream = TlsStream {
            stream: StreamOwned::new(tls, socket),
            keys,
        };
        while stream.stream.conn.is_handshaking() {
            let StreamOwned { conn, sock } = &mut stream.stream;
            if let Err(error) = conn.complete_io(sock) {
                return Err(stream.explained(error));
            }
        }
        Ok(stream)
    }
}

impl<S: Read + Write> TlsStream<S> {
    /// What it goes over.
    pub fn socket(&mut self) -> &mut S {
        &mut self.stream.sock
    }

    /// Says what to do where TLS failed; other errors stay as they are.
    fn explained(&mut self, error: io::Error) -> io::Error {
        let StreamOwned { conn, sock } = &mut self.stream;
        let failure = error.get_ref().and_then(|inner| inner.downcast_ref()).cloned();
        let is_cut = matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        );
        // Who is refused after its own handshake learns that by an alert, which a write that fails leaves unread.
        let failure = failure.or_else(|| {
            let is_read = is_cut && conn.read_tls(sock).is_ok();
            is_read.then(|| conn.process_new_packets().err()).flatten()
        });
        match failure {
            Some(failure) => io::Error::new(error.kind(), self.keys.explain(Some(&failure))),
            None if is_cut && conn.is_handshaking() => io::Error::new(error.kind(), self.keys.explain(None)),
            None => error,
        }
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(bytes) {
            // Messages say their length: an end without a word cuts none unnoticed.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            Err(error) => Err(self.explained(error)),
            read => read,
        }
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes);
        written.map_err(|error| self.explained(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stream.flush();
        flushed.map_err(|error| self.explained(error))
    }
}
