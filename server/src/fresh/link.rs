//! A connection to another node for a thread that may wait: a call at a time, each within a time.
//!
//! Calls of net threads go by `fronts/native`, which never waits. Its invariant: after an error there is no connection; the next
//! call opens one.

use millpond_nodes::Node;
use millpond_wire_frame::{Awaited, Encoding, FrameKind, Limits, Parsed};
use millpond_wire_payload::{Map, Payload};
use millpond_wire_schema::{Code, Field, Status};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum LinkError {
    /// Nobody listens there: no process that could have taken anything.
    Gone(String),
    /// It could not be reached, broke off, or did not answer in time.
    Lost(String),
    /// The node answered an error.
    Refused(Status),
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LinkError::Gone(why) | LinkError::Lost(why) => f.write_str(why),
            LinkError::Refused(status) => write!(f, "it answered {status}"),
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        use io::ErrorKind::{ConnectionRefused, NotFound, TimedOut, WouldBlock};
        match error.kind() {
            ConnectionRefused | NotFound => LinkError::Gone(error.to_string()),
            TimedOut | WouldBlock => LinkError::Lost("it did not answer in time".to_owned()),
            _ => LinkError::Lost(error.to_string()),
        }
    }
}

/// See this module.
pub(super) struct Link {
    limits: Limits,
    open: Option<Open>,
}

struct Open {
    stream: Stream,
    awaited: Awaited<()>,
    input: Vec<u8>,
}

enum Stream {
    Inet(TcpStream),
    Unix(UnixStream),
}

impl Link {
    pub(super) fn new(limits: Limits) -> Link {
        Link { limits, open: None }
    }

    /// Calls a method of the node; an answer comes within `most`, or an error.
    pub(super) fn call<C: Field, A: Field>(
        &mut self,
        node: &Node,
        (method, token): (&str, Option<&str>),
        call: &C::Of<'_>,
        most: Duration,
    ) -> Result<A::Of<'static>, LinkError> {
        let until = Instant::now() + most;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open::to(node, until)?,
        };
        let mut payload = Vec::new();
        let encoder = &mut millpond_wire_payload::Encoder::new(&mut payload, Encoding::Msgpack, false);
        C::write(call, encoder);
        if let Some(token) = token {
            add_token(&mut payload, token);
        }
        let answer = open.ask::<A>((method, &payload), self.limits, until);
        // What a node refuses says nothing against its connection.
        if matches!(answer, Ok(_) | Err(LinkError::Refused(_))) {
            self.open = Some(open);
        }
        answer
    }
}

/// Puts a token into a map of fewer than 15 entries, as msgpack has it.
fn add_token(payload: &mut Vec<u8>, token: &str) {
    let Some(first) = payload.first_mut().filter(|first| (0x80..0x8f).contains(*first)) else {
        return;
    };
    *first += 1;
    let mut pair = Vec::new();
    millpond_wire_payload::Encoder::new(&mut pair, Encoding::Msgpack, false).map(|out| {
        out.key("_token");
        out.text(token);
    });
    payload.extend_from_slice(pair.get(1..).unwrap_or_default());
}

impl Open {
    fn to(node: &Node, until: Instant) -> Result<Open, LinkError> {
        let mut last = LinkError::Lost(
            "it has no address that can be used: servers ask each other for fresh rows at IP:PORT, unix:PATH or a name, without TLS"
                .to_owned(),
        );
        for address in node
            .addresses
            .iter()
            .filter(|address| !address.starts_with("tls://"))
        {
            match Stream::to(address, until) {
                Ok(stream) => {
                    return Ok(Open {
                        stream,
                        awaited: Awaited::default(),
                        input: Vec::new(),
                    });
                }
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    fn ask<A: Field>(
        &mut self,
        (method, payload): (&str, &[u8]),
        limits: Limits,
        until: Instant,
    ) -> Result<A::Of<'static>, LinkError> {
        let mut out = Vec::new();
        let written = self
            .awaited
            .write(&mut out, Encoding::Msgpack, method, payload, ());
        written.map_err(|(error, ())| LinkError::Lost(error.to_string()))?;
        self.stream.set_timeout(until)?;
        self.stream.write_all(&out)?;
        self.input.clear();
        loop {
            match self.awaited.read(&self.input, limits) {
                Ok(Parsed::Whole { message, .. }) => {
                    let FrameKind::Answer { status, .. } = message.frame.kind else {
                        return Err(LinkError::Lost("it called where it was to answer".to_owned()));
                    };
                    return read::<A>(status, message.frame.encoding, message.frame.payload);
                }
                Ok(Parsed::Partial { .. }) => {}
                Err(error) => return Err(LinkError::Lost(format!("it sent what is no answer: {error}"))),
            }
            self.stream.set_timeout(until)?;
            let mut chunk = vec![0; CHUNK_BYTES];
            let count = self.stream.read(&mut chunk)?;
            if count == 0 {
                return Err(LinkError::Lost("it closed the connection".to_owned()));
            }
            self.input
                .extend_from_slice(chunk.get(..count).unwrap_or_default());
        }
    }
}

fn read<A: Field>(status: u8, encoding: Encoding, bytes: &[u8]) -> Result<A::Of<'static>, LinkError> {
    let unread = |error: millpond_wire_payload::PayloadError| {
        LinkError::Lost(format!("it answered what cannot be read: {error}"))
    };
    let payload = Payload::new(encoding, bytes).map_err(unread)?;
    if status != 0 {
        let map = payload.read(|reader| Map::read(reader, "an error map").map(|map| Status::decode(&map)));
        return Err(LinkError::Refused(map.unwrap_or_else(|error| {
            Status::new(Code::Internal, format!("an error that cannot be read: {error}"))
        })));
    }
    let (answer, _) = A::decode(&payload).map_err(unread)?;
    Ok(A::own(answer))
}

impl Stream {
    fn to(address: &str, until: Instant) -> io::Result<Stream> {
        if let Some(path) = address.strip_prefix("unix:") {
            return UnixStream::connect(path).map(Stream::Unix);
        }
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, left(until)) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Stream::Inet(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// A read or a write from now on ends by then.
    fn set_timeout(&self, until: Instant) -> io::Result<()> {
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = Some(left(until));
        match self {
            Stream::Inet(stream) => stream
                .set_read_timeout(left)
                .and_then(|()| stream.set_write_timeout(left)),
            Stream::Unix(stream) => stream
                .set_read_timeout(left)
                .and_then(|()| stream.set_write_timeout(left)),
        }
    }
}

/// Never zero, which would stand for no limit.
fn left(until: Instant) -> Duration {
    let left = until.saturating_duration_since(Instant::now());
    left.max(Duration::from_millis(1))
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Inet(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Inet(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_wire_payload::Encoder;
    use millpond_wire_schema::features_missed as schema;

    #[test]
    fn a_token_stands_in_the_map() {
        let call = schema::Call {
            node: "b".into(),
            lease_ms: 5,
            run: None,
            seen: Vec::new(),
        };
        let mut payload = Vec::new();
        schema::Call::write(&call, &mut Encoder::new(&mut payload, Encoding::Msgpack, false));
        add_token(&mut payload, "secret");
        let payload = Payload::new(Encoding::Msgpack, &payload).unwrap();
        let (read, reserved) = schema::Call::decode(&payload).unwrap();
        assert_eq!((read, reserved.token.unwrap().0), (call, "secret"));
    }

    #[test]
    fn a_node_that_is_gone_is_told_from_one_that_does_not_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let node = Node {
            name: "b".into(),
            addresses: vec![format!("unix:{}", path.display())],
        };
        let call = schema::Call {
            node: "a".into(),
            lease_ms: 5,
            run: None,
            seen: Vec::new(),
        };
        let mut link = Link::new(Limits::default());
        let mut ask = || {
            let most = Duration::from_millis(50);
            link.call::<schema::Call<'_>, schema::Answer<'_>>(&node, ("features.missed", None), &call, most)
        };
        assert!(matches!(ask(), Err(LinkError::Gone(_))));
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(ask(), Err(LinkError::Lost(_))));
    }
}
