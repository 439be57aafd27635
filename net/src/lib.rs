//! Bytes in, bytes out: the listeners, the net threads and their connections. It knows no protocol.
//!
//! One acceptor gives each connection to the net thread that has the fewest; a net thread is a loop over epoll, and a
//! connection lives and dies on it. Each [`Front`] of a port says whether a connection's first bytes are its own, and its
//! [`Session`] serves the connection from then on: what is readable is read, every whole message in it is served, and what was answered
//! is flushed once a turn; a connection that has more to do waits behind the others. Answers made on other threads come back through the net
//! thread's mailbox with one wake-up a batch. All of it works behind TLS, on listeners that say so.
//!
//! Its invariant: a connection holds at most its input limit and its output bound; and all of them together hold no more of
//! unfinished requests ([`Options::unfinished_bytes_max`]), and of answers and pushes that wait
//! for their peers ([`Options::write_buffers_total_bytes_max`]), than may be held.

mod acceptor;
mod connection;
mod counters;
mod error;
mod layer;
mod listener;
mod mailbox;
mod memory;
mod net_thread;
mod outlet;
mod poller;
mod pulse;
mod quiet;
mod remote;
mod session;
mod timers;
mod tls;
mod totals;

pub use acceptor::Transport;
pub use counters::Counters;
pub use error::Error;
pub use layer::{Layer, Opened};
pub use listener::{Bound, Listener, raise_file_limit};
pub use memory::{MemoryPart, MemoryUse};
pub use outlet::{Outlet, PushOutlet, Unsent};
pub use pulse::{Pulses, Stuck};
pub use quiet::{LeftOut, Quiet};
pub use remote::RemoteAddr;
pub use session::{Front, Fronts, Goodbye, Local, Mark, Match, Received, Session, Turn};
pub use timers::{Overdue, Timeouts};
pub use tls::{Tls, TlsFile, TlsFiles, Validity};
#[doc(hidden)]
pub use tracing;

/// What one listener's connections may use.
#[derive(Debug, Clone)]
pub struct Options {
    /// Net threads.
    pub threads: usize,
    /// Processors to pin them to, in turn; empty pins nothing.
    pub cpus: Vec<usize>,
    /// Connections served at a time; further ones are answered `Overloaded` and closed.
    pub connections_max: usize,
    /// A connection over the limit is served in the place of the one that has done nothing for longest, if there is one that
    /// awaits no answer. Finding it takes a look at all of a thread's connections: for one thread, and few of them.
    pub idlest_gives_way: bool,
    /// Bytes of answers that may wait for a peer to read them, beyond a single answer: more, and the connection is closed.
    pub owed_bytes_max: usize,
    /// Bytes of answers and pushes that may wait for all peers together, in buffers and mailboxes: near it, the connection that
    /// keeps most is closed.
    pub write_buffers_total_bytes_max: usize,
    /// Bytes of requests that have not come whole, over all connections, beyond 8 KiB of each: a connection that would hold
    /// more of its request then is answered `Overloaded` and closed.
    pub unfinished_bytes_max: usize,
    /// How long peers may keep the server waiting.
    pub timeouts: Timeouts,
    /// What to do about these bounds.
    pub hints: Hints,
}

/// What texts say to do about the bounds of a port; only the caller knows their configuration keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hints {
    /// About a processor that does not exist.
    pub cpus: &'static str,
    /// About `connections_max`, behind "try again later, or".
    pub connections: &'static str,
    /// About `unfinished_bytes_max`, behind the same.
    pub unfinished: &'static str,
    /// The key of `owed_bytes_max`.
    pub write_buffer_key: &'static str,
    /// The key of `write_buffers_total_bytes_max`.
    pub write_buffers_total_key: &'static str,
}
