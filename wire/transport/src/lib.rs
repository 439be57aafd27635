//! Bytes in, calls out, answers back: the listener, the net threads and their connections.
//!
//! One acceptor gives each connection to the net thread that has the fewest; a net thread is a loop over epoll, and a
//! connection lives and dies on it. What is readable is read, every whole frame in it is served, and the answers are flushed
//! once; a connection that has more to do waits behind the others. Answers made on other threads come back through the net
//! thread's mailbox with one wake-up a batch. Native frames and HTTP/1.1 share the port and are told apart by the first
//! bytes; an HTTP request may turn its connection into a WebSocket, whose messages are frames. A connection of frames goes both
//! ways: a [`Pusher`] calls its peer. All of it works behind TLS, on listeners that say so.
//!
//! It knows no method, no engine and no configuration file. Its invariant: every twoway call gets exactly one answer, or
//! its connection closes; a connection holds at most its input limit, its output bound and its bounds of calls in flight, either way;
//! and all of them together hold no more of unfinished requests ([`Options::unfinished_bytes_max`]), and of answers and pushes that wait
//! for their peers ([`Options::write_buffers_total_bytes_max`]), than may be held.

mod acceptor;
mod answer;
mod clock;
mod connection;
mod counters;
mod encryption;
mod error;
mod hosts;
mod listener;
mod mailbox;
mod memory;
mod net_thread;
mod peer;
mod poller;
mod pulse;
mod push;
mod quiet;
mod service;
mod timers;
mod tls;
mod totals;

pub use acceptor::Transport;
pub use answer::Body;
pub use clock::Clock;
pub use counters::Counters;
pub use encryption::Encryption;
pub use error::Error;
pub use hosts::Hosts;
pub use listener::{Bound, Listener, raise_file_limit};
pub use memory::{MemoryPart, MemoryUse};
pub use peer::Peer;
pub use pulse::{Pulses, Stuck};
pub use push::{PushAnswer, PushError, PushLimits, Pusher};
pub use service::{Meta, Reply, Request, Service, Target, Ticket};
pub use timers::Patience;
pub use tls::{Tls, TlsFiles, TlsProblem, Validity};

use millpond_wire_frame::Limits;
use std::sync::Arc;

/// What one listener's connections may use.
#[derive(Debug, Clone)]
pub struct Options {
    /// Net threads.
    pub threads: usize,
    /// Processors to pin them to, in turn; empty pins nothing.
    pub cpus: Vec<usize>,
    /// Connections served at a time; further ones are told `Overloaded` and closed.
    pub connections_max: usize,
    /// What somebody can do who is told so: it follows "try again later, or".
    pub connections_mend: &'static str,
    /// A connection over the limit is served in the place of the one that has done nothing for longest, if there is one that
    /// awaits no answer. Finding it takes a look at all of a thread's connections: for one thread, and few of them.
    pub idlest_gives_way: bool,
    /// Calls one connection may have unanswered; it is not read further while it has.
    pub in_flight_max: usize,
    /// Bytes of answers that may wait for a peer to read them, beyond a single answer: more, and the connection is closed.
    pub owed_bytes_max: usize,
    /// Bytes of answers and pushes that may wait for all peers together, in buffers and mailboxes: near it, the connection that
    /// keeps most is closed.
    pub write_buffers_total_bytes_max: usize,
    /// Bytes of requests that have not come whole, over all connections, beyond 8 KiB of each: a connection that would hold
    /// more of its request then is told `Overloaded` and closed.
    pub unfinished_bytes_max: usize,
    /// What somebody can do who is told so: it follows "try again later, or".
    pub unfinished_mend: &'static str,
    /// Calls to its peer.
    pub push: PushLimits,
    /// Sizes of frames and bodies.
    pub limits: Limits,
    /// How long peers may keep this server waiting.
    pub patience: Patience,
    /// Origins whose pages may call and read the answers (CORS), or `*` for any; pages of all others are refused.
    pub cors_origins: Vec<&'static str>,
    /// By which names HTTP's callers may call over loopback.
    pub hosts: Hosts,
    /// The key of FPNN's encrypted channel, for old clients; a call to `*key` is any other call without it.
    pub encryption: Option<Arc<Encryption>>,
}

impl Options {
    /// What an answer to a page of that origin says.
    pub(crate) fn allowed(&self, origin: Option<&str>) -> Option<&'static str> {
        let origin = origin?;
        let mut allowed = self.cors_origins.iter();
        allowed
            .find(|allowed| **allowed == "*" || **allowed == origin)
            .copied()
    }
}
