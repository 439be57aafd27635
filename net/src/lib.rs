//! Bytes in, bytes out: the listeners, the net threads and their connections. It knows no protocol.
//!
//! The acceptor hands each connection to the net thread with the fewest connections. It stays on that thread, a loop over
//! epoll, until it closes. The [`Front`] that knows its first bytes makes its [`Session`]. A turn of a connection reads once,
//! serves every complete message and sends the answers at its end; a connection with more to do waits behind the others.
//! Answers of other threads come through the net thread's mailbox with one wake-up a batch. TLS is per listener.
//! Sessions may have their thread open connections to others ([`Outward`]), which live on it like the rest.
//!
//! Its invariant: a connection holds at most its input limit and its write buffer, and all connections together at most
//! [`Options::partial_bytes_max`] of partial requests and [`Options::write_buffers_total_bytes_max`] of answers and pushes.

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
mod outward;
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
pub use outward::{Outward, Remote};
pub use pulse::{Pulses, Stuck};
pub use quiet::{LeftOut, Quiet};
pub use remote::RemoteAddr;
pub use session::{Front, Fronts, Goodbye, Local, Mark, Match, Ports, Received, Session, Turn};
pub use timers::{Overdue, Timeouts};
pub use tls::{OutwardTls, OutwardTlsFiles, Tls, TlsFile, TlsFiles, TlsKeys, TlsStream, TlsTo, Validity};
#[doc(hidden)]
pub use tracing;

use std::time::Duration;

/// What one listener's connections may use.
#[derive(Debug, Clone)]
pub struct Options {
    /// Net threads.
    pub threads: usize,
    /// Processors to pin them to, in turn; empty pins nothing.
    pub cpus: Vec<usize>,
    /// Connections served at a time; further ones are answered `Overloaded` and closed.
    pub connections_max: usize,
    /// A connection over the limit takes the place of the one that is idle for longest, if one awaits no answer. Finding that one
    /// looks at all connections of a thread: meant for one thread with few.
    pub idlest_gives_way: bool,
    /// Maximum bytes of answers in one connection's write buffer, beyond a single answer; further ones close the connection.
    pub write_buffer_bytes_max: usize,
    /// Maximum bytes in all write buffers and mailboxes together; near it, the connection with the largest buffer is closed.
    pub write_buffers_total_bytes_max: usize,
    /// Maximum bytes of partial requests over all connections, beyond 8 KiB of each; a connection that needs more is answered
    /// `Overloaded` and closed.
    pub partial_bytes_max: usize,
    /// How long peers may keep the server waiting.
    pub timeouts: Timeouts,
    /// How long a thread polls its sockets before it sleeps until one is ready. A request that comes in that time meets a thread that is
    /// awake, and a processor that did nothing else meanwhile.
    pub busy_poll: Duration,
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
    /// About `partial_bytes_max`, behind the same.
    pub partial_requests: &'static str,
    /// The key of `write_buffer_bytes_max`.
    pub write_buffer_key: &'static str,
    /// The key of `write_buffers_total_bytes_max`.
    pub write_buffers_total_key: &'static str,
}
