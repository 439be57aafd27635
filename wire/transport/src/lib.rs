//! Bytes in, calls out, answers back: the listener, the net threads and their connections.
//!
//! One acceptor gives each connection to the net thread that has the fewest; a net thread is a loop over epoll, and a
//! connection lives and dies on it. What is readable is read, every whole frame in it is served, and the answers are flushed
//! once; a connection that has more to do waits behind the others. Answers made on other threads come back through the net
//! thread's mailbox with one wake-up a batch. Native frames and HTTP/1.1 share the port and are told apart by the first
//! bytes; an HTTP request may turn its connection into a WebSocket, whose messages are frames. A connection of frames goes both
//! ways: a [`Pusher`](millpond_calls::Pusher) calls its peer. All of it works behind TLS, on listeners that say so.
//!
//! It knows no method, no engine and no configuration file. Its invariant: every twoway call gets exactly one answer, or
//! its connection closes; a connection holds at most its input limit, its output bound and its bounds of calls in flight, either way;
//! and all of them together hold no more of unfinished requests ([`Options::unfinished_bytes_max`]), and of answers and pushes that wait
//! for their peers ([`Options::write_buffers_total_bytes_max`]), than may be held.

mod acceptor;
mod answer;
mod connection;
mod counters;
mod error;
mod http;
mod layer;
mod listener;
mod mailbox;
mod memory;
mod native;
mod net_thread;
mod outlet;
mod poller;
mod pulse;
mod quiet;
mod service;
mod session;
mod sink;
mod timers;
mod tls;
mod totals;
mod websocket;

pub use acceptor::Transport;
pub use counters::Counters;
pub use error::Error;
pub use http::{Hosts, HttpOptions};
pub use listener::{Bound, Listener, raise_file_limit};
pub use memory::{MemoryPart, MemoryUse};
pub use native::{Encryption, NativeOptions};
pub use pulse::{Pulses, Stuck};
pub use service::Service;
pub use timers::Patience;
pub use tls::{Tls, TlsFiles, Validity};

use http::Upgrade;
use session::Fronts;
use std::sync::Arc;
use websocket::Messages;

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
    /// How long peers may keep this server waiting.
    pub patience: Patience,
    /// What connections of frames may use.
    pub native: NativeOptions,
    /// What HTTP's callers may do.
    pub http: HttpOptions,
}

/// What a port speaks, in the order in which first bytes are looked at.
fn fronts<S: Service>(options: &Options) -> Fronts<S> {
    let native = Arc::new(options.native.clone());
    let of_messages = Arc::clone(&native);
    let upgrade: Upgrade<S> = Arc::new(move || Box::new(Messages::new(Arc::clone(&of_messages))));
    let http = Arc::new(options.http.clone());
    Arc::new([http::front(http, upgrade), native::front(native)])
}
