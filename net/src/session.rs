//! What a protocol is to a connection: a front that knows its own first bytes, and a session that turns bytes into calls.
//!
//! A connection asks its session for nothing but what stands here, and a session sees of its connection no more than a
//! [`Turn`]. Neither knows the other's work. Its invariant: a session lives and dies on one net thread, and never waits.

use crate::Counters;
use crate::RemoteAddr;
use crate::connection::{Link, Phase};
use crate::layer::Layer;
use crate::net_thread::{Kind, Net};
use crate::outlet::{Outlet, PushOutlet};
use crate::timers::Overdue;
use std::sync::Arc;
use std::time::Instant;

/// A number that a front gives an answer, and is told when the answer has left.
pub type Mark = u32;

/// What each net thread has of its own: its sessions are lent it. The transport clones it for each thread.
pub trait Local: Clone + Send + 'static {
    /// A turn of the thread begins: reads the clock.
    fn begin(&self) -> Instant;

    /// The kernel has taken all bytes of an answer that said since when it was ready ([`Outlet::answer`]): its mark, and since when.
    fn written(&self, mark: Mark, since: Instant);

    /// Whether calls wait for the end of the turn.
    fn has_batch(&self) -> bool {
        false
    }

    /// Serves them, when every connection had its turn; answers that are made here leave in this turn.
    fn serve_batch(&self) {}

    /// The turn has ended, after what it answered was sent.
    fn end(&self);
}

/// A protocol that a port speaks: whether a connection with these first bytes, of which there is one at least, speaks it.
pub type Front<L> = Box<dyn Fn(&[u8]) -> Match<L> + Send + Sync>;

/// The protocols of a port, in the order in which they are asked.
pub type Fronts<L> = Arc<[Front<L>]>;

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

    /// Whether so many calls in flight keep it from receiving more; none never do.
    fn is_full(&self, in_flight: usize) -> bool;

    /// Whether it holds a message that it can serve while so many calls are in flight.
    fn resumes(&self, _in_flight: usize) -> bool {
        false
    }

    /// Serves that message.
    fn resume(&mut self, _local: &L, _turn: &mut Turn<'_>) {}

    /// Refuses the message that `input` begins, for which there is no room, and lets go of everything it holds. The connection
    /// closes after it.
    fn refuse(&mut self, turn: &mut Turn<'_>, input: &[u8], why: &str);

    /// Whether the protocol has a message for the end: a peer whose stream ends without it has gone, and it is told itself.
    fn has_last_word(&self) -> bool {
        false
    }

    /// Writes that message, where there is one.
    fn part(&mut self, _turn: &mut Turn<'_>, _why: Goodbye) {}

    /// No further message of the peer is received: whoever waits for one is told.
    fn give_up(&mut self) {}

    /// Whether it awaits an answer of the peer.
    fn awaits_peer(&self) -> bool {
        false
    }

    /// The moment has come that was asked for by [`PushOutlet::send`]; the next one, if there is one.
    fn wake(&mut self, _now: Instant) -> Option<Instant> {
        None
    }

    /// Whether it holds the beginning of a message beside the connection's input.
    fn is_partial(&self) -> bool {
        false
    }

    /// Bytes of memory that hold messages which are not complete, or not served yet.
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
    /// So many of them were a message, and what comes behind them is another session's.
    Become(usize, Box<dyn Session<L>>),
}

/// Why this server ends a connection by its own will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goodbye {
    /// The peer has kept it waiting for too long.
    Overdue(Overdue),
    /// It stops.
    Stop,
    /// Another one came, and no connection has done nothing for longer.
    Crowded,
}

/// A connection, for as long as its session works on it.
pub struct Turn<'t> {
    pub(crate) net: &'t Net,
    pub(crate) link: &'t mut Link,
    /// Empty room to work in, of the net thread.
    pub scratch: &'t mut Vec<u8>,
}

impl<'t> Turn<'t> {
    /// Where answers are written to. What an answer was written to from some length on is passed to [`Turn::finish`].
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

    /// As [`Turn::close`], but nothing is said any more after what is written by now: no answer is waited for.
    pub fn close_at_once(&mut self) {
        self.link.enter(Phase::Parted);
    }

    /// From here on all bytes go through that layer, in both directions: those that come behind the message that is being served,
    /// and its answer.
    pub fn set_layer(&mut self, layer: Box<dyn Layer>) {
        self.link.layer = Some(layer);
        self.link.has_new_layer = true;
    }

    /// Whether its bytes go through a layer.
    #[inline]
    pub fn has_layer(&self) -> bool {
        self.link.layer.is_some()
    }

    /// Why the connection's first request is refused, where it is one over the limit.
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

    /// Who asks.
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

    /// The way to send the peer what is no answer, from any thread.
    pub fn push_outlet(&mut self) -> PushOutlet {
        PushOutlet {
            key: self.link.key,
            mailbox: Arc::clone(&self.net.mailbox),
            owed: Arc::clone(self.link.owed.get_or_insert_default()),
        }
    }
}

/// The session of a connection whose first bytes have not told its protocol.
pub(crate) struct Undecided<L>(pub(crate) Fronts<L>);

impl<L> Session<L> for Undecided<L> {
    fn receive(&mut self, _: &L, _: &mut Turn<'_>, input: &[u8]) -> Received<L> {
        let told = self.0.iter().find_map(|front| match front(input) {
            Match::Yes(session) => Some(Received::Become(0, session)),
            Match::More => Some(Received::More(input.len() + 1)),
            Match::No => None,
        });
        told.unwrap_or(Received::Malformed)
    }

    fn is_full(&self, _: usize) -> bool {
        false
    }

    fn refuse(&mut self, _: &mut Turn<'_>, _: &[u8], _: &str) {}
}
