//! A connection to another node for a thread that may wait: a call at a time, each within a time.
//!
//! Calls of net threads go by `fronts/native`, which never waits. Its invariant: after an error there is no connection; the next
//! call opens one.

use super::stream::{Stream, left};
use crate::nodes::Roads;
use millpond_nodes::Node;
use millpond_wire_frame::{Awaited, Encoding, FrameKind, Limits, Parsed};
use millpond_wire_payload::{Encoder, Gained, Map, Payload};
use millpond_wire_schema::{Code, Field, Status};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// What is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum LinkError {
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

/// A blocking connection to one node; opened by the first call, and again after an error.
pub(crate) struct Link {
    limits: Limits,
    roads: Roads,
    open: Option<Open>,
    /// The address that was reached last: it is tried first.
    reached: Option<String>,
}

struct Open {
    stream: Stream,
    awaited: Awaited<()>,
    input: Vec<u8>,
}

impl Link {
    pub(crate) fn new(limits: Limits, roads: Roads) -> Link {
        Link {
            limits,
            roads,
            open: None,
            reached: None,
        }
    }

    /// Calls a method of the node; an answer comes within `most`, or an error.
    pub(crate) fn call<C: Field, A: Field>(
        &mut self,
        node: &Node,
        (method, token): (&str, Option<&str>),
        call: &C::Of<'_>,
        most: Duration,
    ) -> Result<A::Of<'static>, LinkError> {
        let until = Instant::now() + most;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open::to(node, &self.roads, &mut self.reached, until)?,
        };
        let mut payload = Vec::new();
        let encoder = &mut Encoder::new(&mut payload, Encoding::Msgpack, false);
        C::write(call, encoder);
        if let Some(token) = token {
            let gained = Gained::token(token).insert(Encoding::Msgpack, &payload);
            payload = gained.map_err(|error| LinkError::Lost(error.to_string()))?;
        }
        let answer = open.ask::<A>((method, &payload), self.limits, until);
        // What a node refuses says nothing against its connection.
        if matches!(answer, Ok(_) | Err(LinkError::Refused(_))) {
            self.open = Some(open);
        }
        answer
    }
}

impl Open {
    /// At one of the node's addresses: each has its part of the time that is left, so that a dead one leaves some to the next.
    fn to(
        node: &Node,
        roads: &Roads,
        reached: &mut Option<String>,
        until: Instant,
    ) -> Result<Open, LinkError> {
        let mut last = LinkError::Lost(
            "it has no address that can be used: servers call each other at IP:PORT, unix:PATH, a name or, with nodes.tls, \
             tls://HOST:PORT"
                .to_owned(),
        );
        let mut addresses: Vec<&str> = node.usable_addresses(roads.tls.is_some()).collect();
        addresses.sort_by_key(|address| reached.as_deref() != Some(*address));
        for (at, address) in addresses.iter().enumerate() {
            // The last of the parts is for the question itself.
            let parts = (addresses.len() - at + 1) as u32;
            let part = Instant::now() + left(until) / parts;
            match Stream::to(address, roads, part) {
                Ok(stream) => {
                    *reached = Some((*address).to_owned());
                    return Ok(Open {
                        stream,
                        awaited: Awaited::default(),
                        input: Vec::new(),
                    });
                }
                // It is gone where nobody listens at any of them.
                Err(error) => match LinkError::from(error) {
                    LinkError::Gone(_) if at > 0 && !matches!(last, LinkError::Gone(_)) => {}
                    error => last = error,
                },
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
        self.stream.set_until(until);
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
            let mut chunk = vec![0; CHUNK_BYTES];
            let count = match self.stream.read(&mut chunk) {
                // The process was stopped and goes on: what was waited for may have come.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_wire_schema::features_missed as schema;
    use std::os::unix::net::UnixStream;

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
        let mut link = Link::new(Limits::default(), Roads::default());
        let mut ask = || {
            let most = Duration::from_millis(50);
            link.call::<schema::Call<'_>, schema::Answer<'_>>(&node, ("features.missed", None), &call, most)
        };
        assert!(matches!(ask(), Err(LinkError::Gone(_))));
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(ask(), Err(LinkError::Lost(_))));
    }

    #[test]
    fn an_address_that_takes_no_connection_leaves_time_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let listen = |name: &str| std::os::unix::net::UnixListener::bind(at(name)).unwrap();
        let (dead, _alive) = (listen("dead"), listen("alive"));
        rustix::net::listen(&dead, 0).unwrap();
        let _waiting = UnixStream::connect(at("dead")).unwrap();
        let address = |name: &str| format!("unix:{}", at(name).display());
        let node = Node {
            name: "b".into(),
            addresses: vec![address("dead"), address("alive")],
        };
        let (roads, mut reached) = (Roads::default(), None);
        let until = Instant::now() + Duration::from_secs(2);
        assert!(Open::to(&node, &roads, &mut reached, until).is_ok());
        assert_eq!(reached.as_deref(), Some(&*address("alive")));
        // Nothing is waited for at the dead one the next time.
        assert!(Open::to(&node, &roads, &mut reached, Instant::now()).is_ok());
        let nobody = Node {
            name: "b".into(),
            addresses: vec![address("dead"), address("none")],
        };
        let lost = Open::to(
            &nobody,
            &roads,
            &mut None,
            Instant::now() + Duration::from_millis(20),
        );
        assert!(matches!(lost, Err(LinkError::Lost(_))));
    }
}
