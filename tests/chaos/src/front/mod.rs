//! The server's fronts as a caller sees them: native frames, HTTP and WebSocket, in clear and by TLS.
//!
//! Written from the protocols; it shares the wire's readers with the server and nothing else. Its invariant: a connection
//! knows which calls it has made and hands out each one's answer once; an answer to anything else is an error.

mod frames;
mod http;
mod payload;
mod socket;
mod websocket;

pub use payload::{json_of, msgpack_of};
pub use socket::Socket;

use crate::server::Server;
use millpond_wire_frame::{Encoding, websocket::WebSocket};
use rand::RngExt;
use rand::rngs::StdRng;
use rustls::ClientConfig;
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

/// How calls travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Native frames.
    Frames(Encoding),
    /// HTTP/1.1.
    Http,
    /// Native frames in WebSocket messages.
    WebSocket(Encoding),
}

/// A protocol, and whether TLS is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Front {
    /// How calls travel.
    pub protocol: Protocol,
    /// Over the TLS port.
    pub is_tls: bool,
}

impl Front {
    /// One of all of them.
    pub fn any(random: &mut StdRng) -> Front {
        Front::of(random.random_range(0..Front::COUNT))
    }

    /// How many there are.
    pub const COUNT: usize = 10;

    /// One by its number.
    pub fn of(number: usize) -> Front {
        let protocol = match number % 5 {
            0 => Protocol::Frames(Encoding::Msgpack),
            1 => Protocol::Http,
            2 => Protocol::WebSocket(Encoding::Json),
            3 => Protocol::Frames(Encoding::Json),
            _ => Protocol::WebSocket(Encoding::Msgpack),
        };
        Front {
            protocol,
            is_tls: (number / 5) % 2 == 1,
        }
    }
}

impl fmt::Display for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.is_tls { " by TLS" } else { "" };
        match self.protocol {
            Protocol::Frames(encoding) => write!(f, "frames ({encoding:?}){tls}"),
            Protocol::Http => write!(f, "HTTP{tls}"),
            Protocol::WebSocket(encoding) => write!(f, "WebSocket ({encoding:?}){tls}"),
        }
    }
}

/// A call's end.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A result.
    Good(Value),
    /// An error and its words.
    Error(u64, String),
}

/// What comes next on a connection.
#[derive(Debug)]
pub enum Came {
    /// The answer to the call of that number.
    Answer(u32, Answer),
    /// The server closed the connection.
    Closed,
    /// Nothing, for as long as a read waits.
    Nothing,
    /// What no peer may send.
    Wrong(String),
}

/// One connection of a caller.
pub struct Connection {
    front: Front,
    socket: Socket,
    /// Bytes that came and were not looked at.
    inbox: Vec<u8>,
    websocket: WebSocket,
    scratch: Vec<u8>,
    /// Calls without an answer, in their order.
    owed: VecDeque<u32>,
    next: u32,
}

impl Connection {
    /// Connects, with what the front needs before the first call. A read waits no longer than `patience`.
    ///
    /// # Errors
    /// No connection; the server may be away.
    pub fn open(
        front: Front,
        server: &Server,
        tls: &Arc<ClientConfig>,
        patience: Duration,
        random: &mut StdRng,
    ) -> io::Result<Connection> {
        let mut socket = if front.is_tls {
            Socket::tls(server.tls, Arc::clone(tls), patience)?
        } else {
            Socket::plain(server.plain, patience)?
        };
        if let Protocol::WebSocket(_) = front.protocol {
            websocket::shake_hands(&mut socket)?;
        }
        Ok(Connection {
            front,
            socket,
            inbox: Vec::new(),
            websocket: websocket::reader(),
            scratch: Vec::new(),
            owed: VecDeque::new(),
            // Any number may stand in a frame, and each of its bytes may be any.
            next: random.random(),
        })
    }

    /// Which front it is.
    pub fn front(&self) -> Front {
        self.front
    }

    /// Sends calls in one write; returns the number of the first, which the others follow.
    ///
    /// # Errors
    /// The connection is closed; the calls may have reached the server all the same.
    pub fn send<'c>(&mut self, calls: impl IntoIterator<Item = (&'c str, Value)>) -> io::Result<u32> {
        let (first, mut bytes) = (self.next, Vec::new());
        for (method, payload) in calls {
            match self.front.protocol {
                Protocol::Http => http::write(&mut bytes, method, &payload),
                Protocol::Frames(encoding) => {
                    frames::write(&mut bytes, method, self.next, encoding, &payload)?
                }
                Protocol::WebSocket(encoding) => {
                    websocket::write(&mut bytes, method, self.next, encoding, &payload)?;
                }
            }
            self.owed.push_back(self.next);
            self.next = self.next.wrapping_add(1);
        }
        self.socket.write_all(&bytes)?;
        Ok(first)
    }

    /// How many calls have no answer.
    pub fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Waits for what comes next.
    pub fn receive(&mut self) -> Came {
        loop {
            match self.parse() {
                Ok(Some(Came::Answer(number, answer))) => return self.settle(number, answer),
                Ok(Some(came)) => return came,
                Err(wrong) => return Came::Wrong(wrong),
                Ok(None) => {}
            }
            let mut chunk = [0; 16 << 10];
            match self.socket.read(&mut chunk) {
                Ok(0) => return self.ended(),
                Ok(read) => self
                    .inbox
                    .extend_from_slice(chunk.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Came::Nothing;
                }
                Err(_) => return self.ended(),
            }
        }
    }

    /// Makes one call and waits for its answer.
    pub fn call(&mut self, method: &str, payload: Value) -> Came {
        match self.send([(method, payload)]) {
            // What the server said before it closed may still be there to be read.
            Err(_) | Ok(_) => self.receive(),
        }
    }

    /// The socket itself, for callers that do not behave.
    pub fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// Whole messages must not be cut where a server closes in good order; it may be killed in the middle.
    fn ended(&mut self) -> Came {
        self.inbox.clear();
        Came::Closed
    }

    fn parse(&mut self) -> Result<Option<Came>, String> {
        match self.front.protocol {
            Protocol::Frames(_) => frames::read(&mut self.inbox),
            Protocol::Http => {
                let number = self.owed.front().copied();
                http::read(&mut self.inbox, number)
            }
            Protocol::WebSocket(_) => websocket::read(
                &mut self.websocket,
                &mut self.inbox,
                &mut self.scratch,
                &mut self.socket,
            ),
        }
    }

    fn settle(&mut self, number: u32, answer: Answer) -> Came {
        match self.owed.iter().position(|owed| *owed == number) {
            Some(place) => {
                self.owed.remove(place);
                Came::Answer(number, answer)
            }
            None => Came::Wrong(format!(
                "an answer to call {number}, which has none to come: {answer:?}"
            )),
        }
    }
}
