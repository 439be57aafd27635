//! The options of a client.
//!
//! It decides nothing. Its invariant: every value does what its words say, and zero means what they say, too.

use crate::{Backoff, Hedge, PushHandler, Tls};
use std::time::Duration;

/// Limits and habits of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections to each address; 0 counts as 1.
    pub connections: usize,
    /// For one connection to be made.
    pub connect_timeout: Duration,
    /// Bytes of one frame in either direction. As many may also wait to be written on one connection before callers
    /// have to wait.
    pub frame_bytes_max: usize,
    /// Calls under way on one connection; 0 counts as 1.
    pub in_flight_max: usize,
    /// When a connection that could not be made is tried again.
    pub backoff: Backoff,
    /// A `*ping` this often on each connection, so that a server does not close it for being idle. A connection that
    /// leaves three of them unanswered is closed, and one that closed is opened again before a call needs it. `None`,
    /// the default, and zero send none: the next call opens what has closed. FPNN's clients take 20 s where they ping at all.
    pub keep_alive: Option<Duration>,
    /// Second attempts for slow calls made through [`Client::call_hedged`](crate::Client::call_hedged), which its caller so
    /// says are safe to repeat. `None`, the default, makes none. They need a second connection, better to another address.
    pub hedge: Option<Hedge>,
    /// What answers the server's calls. Without one, the default, they are answered that there is no such method. A program
    /// that waits for such calls and makes none needs [`Options::keep_alive`] too.
    pub push_handler: Option<PushHandler>,
    /// Calls of the server's that are worked on at a time, on one connection; 0 counts as 1. Further ones are answered
    /// that there are too many, or dropped where they want no answer.
    pub pushes_max: usize,
    /// Whom addresses that begin with tls:// have to prove to be, and who this client is. Needed for those, and refused where
    /// there are none.
    pub tls: Option<Tls>,
}

impl Default for Options {
    /// One connection, 5 s to make it, frames up to 8 MiB, 4,096 calls in flight, waits from 50 ms to 5 s between
    /// attempts to connect, no keep-alive, no hedging, no handler for the server's calls, of which 64 would be worked on at a time.
    fn default() -> Self {
        Options {
            connections: 1,
            connect_timeout: Duration::from_secs(5),
            frame_bytes_max: 8 << 20,
            in_flight_max: 4096,
            backoff: Backoff::default(),
            keep_alive: None,
            hedge: None,
            push_handler: None,
            pushes_max: 64,
            tls: None,
        }
    }
}
