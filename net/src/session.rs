//! What a protocol is to a connection: a front that knows its own first bytes, and a session that turns bytes into calls.
//!
//! A session sees no more of its connection than a [`Turn`]. Its invariant: a session stays on one net thread and never waits.

use crate::connection::{Link, Phase};
use crate::layer::Layer;
use crate::net_thread::{Kind, Net};
use crate::outlet::{Outlet, PushOutlet};
use crate::outward::Outward;
use crate::timers::Overdue;
use crate::{Counters, RemoteAddr};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// A number that a front gives an answer, and gets back when the answer has left.
pub type Mark = u32;

/// What the sessions of one net thread share. The transport clones it for each thread.
pub trait Local: Clone + Send + 'static {
    /// A turn of the thread begins: reads the clock.
    fn begin(&self) -> Instant;

    /// When the clock was last read in this turn: calls that may take long have it read when they end.
    fn last_read(&self) -> Option<Instant> {
        None
    }

    /// Whether calls wait for the end of the turn.
    fn has_batch(&self) -> bool {
        false
    }

    /// Serves them after every connection's turn; their answers leave in this turn.
    fn serve_batch(&self) {}

    /// Whether its sessions open connections.
    fn reaches_out(&self) -> bool {
        false
    }

    /// When [`Local::outward`] is to be asked although no socket is ready.
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    /// What sessions ask for of connections that this side opens, and what is due by the time: asked at the end of each turn,
    /// until there is nothing more.
    fn outward(&self, _asked: &mut Vec<Outward<Self>>) {}

    /// Ends the turn; its answers have been sent. `written` has the mark of each answer of which the kernel took the last byte in this
    /// turn, and when the answer was ready; answers that gave no such time ([`Outlet::answer`]) are not in it.
    fn end(&self, written: impl Iterator<Item = (Mark, Instant)>);
}

/// A protocol that a port speaks: whether a connection with these first bytes, of which there is one at least, speaks it.
pub type Front<L> = Box<dyn Fn(&[u8]) -> Match<L> + Send + Sync>;

/// The protocols of a port, in the order in which they are asked.
pub type Fronts<L> = Arc<[Front<L>]>;

/// What the ports of a transport speak: a listener names its place ([`Listener::speaking`](crate::Listener::speaking)).
pub type Ports<L> = Arc<[Fronts<L>]>;

/// Whether first bytes are a protocol's own.
pub enum Match<L> {
    /// They are not.
    No,
    /// More of them are needed to say.
    More,
    /// This is its session.
    Yes(Box<dyn Session<L>>),
}

/// One connection's protocol.
pub trait Session<L> {
    /// Serves the message at the front of `input`, which is not empty.
    fn receive(&mut self, local: &L, turn: &mut Turn<'_>, input: &[u8]) -> Received<L>;

    /// Whether it receives nothing more with so many calls in flight; with none it always does.
    fn is_full(&self, in_flight: usize) -> bool;

    /// Whether it holds a message that it can serve while so many calls are in flight.
    fn resumes(&self, _in_flight: usize) -> bool {
        false
    }

    /// Serves that message.
    fn resume(&mut self, _local: &L, _turn: &mut Turn<'_>) {}

    /// Answers the partial message in `input` with the refusal `why` and frees all memory it holds; the connection then closes.
    fn refuse(&mut self, turn: &mut Turn<'_>, input: &[u8], why: &str);

    /// Whether the protocol has a closing message: this server sends one, and a peer whose stream ends without one has gone.
    fn has_last_word(&self) -> bool {
        false
    }

    /// Writes that message, where there is one.
    fn part(&mut self, _turn: &mut Turn<'_>, _why: Goodbye) {}

    /// No further message of the peer is received: calls to it fail.
    fn give_up(&mut self) {}

    /// A connection that this side opened is open.
    fn opened(&mut self, _local: &L) {}

    /// Bytes came on a connection that this side opened; they may be too few for a message.
    fn heard(&mut self, _local: &L) {}

    /// A connection that this side opened is over, `error` being why it never was open, if it was not. Nothing follows.
    fn ended(&mut self, _local: &L, _error: Option<io::Error>) {}

    /// Whether it awaits an answer of the peer.
    fn awaits_peer(&self) -> bool {
        false
    }

    /// The `wake_at` of a [`PushOutlet::send`] has come; returns the next one.
    fn wake(&mut self, _now: Instant) -> Option<Instant> {
        None
    }

    /// Whether it holds the beginning of a message beside the connection's input.
    fn is_partial(&self) -> bool {
        false
    }

    /// Bytes of memory that hold messages not complete, or not served yet.
    fn held_bytes(&self) -> usize {
        0
    }
}

/// What came of the bytes that a session was shown.
pub enum Received<L> {
    /// So many of them were a message.
    Served(usize),
    /// So many of them were a piece of a message, which the session keeps.
    Piece(usize),
    /// A message needs at least so many bytes.
    More(usize),
    /// They are no message, and nothing after them can be trusted: the connection closes once its answers have left.
    Malformed,
    /// So many of them were a message, and the bytes behind it are for this session.
    Become(usize, Box<dyn Session<L>>),
}

/// Why this server closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goodbye {
    /// A timeout.
    Overdue(Overdue),
    /// The server stops.
    Stop,
    /// A new connection takes its place.
    Crowded,
}

/// A connection, for as long as its session works on it.
pub struct Turn<'t> {
    pub(crate) net: &'t Net,
    pub(crate) link: &'t mut Link,
    /// An empty buffer of the net thread, for the session's use.
    pub scratch: &'t mut Vec<u8>,
}

impl<'t> Turn<'t> {
    /// Where answers are written. Each ends with [`Turn::finish`], given the length before it.
    #[inline]
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.link.out
    }

    /// An answer was written from `start` on.
    #[inline]
    pub fn finish(&mut self, start: usize) {
        self.link.seal(start);
    }

    /// Calls that are answered later.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.link.in_flight
    }

    /// Nothing more is received; the connection closes once everything is answered and sent.
    pub fn close(&mut self) {
        self.link.enter(Phase::Draining);
    }

    /// As [`Turn::close`], but answers that are not written yet are dropped.
    pub fn close_at_once(&mut self) {
        self.link.enter(Phase::Parted);
    }

    /// From here on all bytes go through that layer: those received behind the message being served, and its answer.
    pub fn set_layer(&mut self, layer: Box<dyn Layer>) {
        self.link.layer = Some(layer);
        self.link.has_new_layer = true;
    }

    /// Whether its bytes go through a layer.
    #[inline]
    pub fn has_layer(&self) -> bool {
        self.link.layer.is_some()
    }

    /// Why the first request is refused, on a connection over the limit.
    #[inline]
    pub fn over_limit(&self) -> Option<String> {
        let options = &self.net.options;
        (self.link.kind == Kind::Refused).then(|| {
            format!(
                "the connection limit of {} is reached; try again later, or {}",
                options.connections_max, options.hints.connections
            )
        })
    }

    /// The address of the peer.
    #[inline]
    pub fn peer(&self) -> RemoteAddr {
        self.link.peer
    }

    /// When what is served was read, in a turn that began then: before it, where it has waited for calls in flight.
    #[inline]
    pub fn received(&self, began: Instant) -> Instant {
        self.link.waits_since.unwrap_or(began)
    }

    /// Whether it came over loopback.
    pub fn is_loopback(&self) -> bool {
        self.link.is_loopback
    }

    /// The connection's number: no other of this process has it.
    #[inline]
    pub fn connection(&self) -> u64 {
        self.link.key.generation
    }

    /// The totals of its transport.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.net.counters
    }

    /// A call is answered later, from any thread.
    pub fn detach(&mut self) -> Outlet {
        self.link.in_flight += 1;
        Outlet {
            key: self.link.key,
            mailbox: Arc::clone(&self.net.mailbox),
            gone: Arc::clone(self.link.gone.get_or_insert_default()),
        }
    }

    /// Sends the peer messages that are no answers, from any thread.
    pub fn push_outlet(&mut self) -> PushOutlet {
        PushOutlet {
            key: self.link.key,
            mailbox: Arc::clone(&self.net.mailbox),
            backlog: Arc::clone(self.link.backlog.get_or_insert_default()),
        }
    }
}

/// The session of a connection whose protocol is not known yet.
pub(crate) struct Undecided<L>(pub(crate) Fronts<L>);

impl<L> Session<L> for Undecided<L> {
    fn receive(&mut self, _: &L, _: &mut Turn<'_>, input: &[u8]) -> Received<L> {
        let found = self.0.iter().find_map(|front| match front(input) {
            Match::Yes(session) => Some(Received::Become(0, session)),
            Match::More => Some(Received::More(input.len() + 1)),
            Match::No => None,
        });
        found.unwrap_or(Received::Malformed)
    }

    fn is_full(&self, _: usize) -> bool {
        false
    }

    fn refuse(&mut self, _: &mut Turn<'_>, _: &[u8], _: &str) {}
}
