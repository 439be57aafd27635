//! For tests: one connection without a net thread, the other end of its socket, turns on demand, any time of the clock, and a
//! protocol of messages that are a length, a kind and as many bytes.
//! Its invariant: nothing happens to the connection but what the test does.
#![allow(clippy::unwrap_used)]

use super::{After, Connection, Link};
use crate::mailbox::{Key, Mailbox};
use crate::net_thread::{Buffers, Kind, Net};
use crate::poller::Ready;
use crate::session::{Front, Fronts, Goodbye, Local, Match, Received, Session, Turn, Undecided};
use crate::totals::Totals;
use crate::{Hints, Options, Timeouts};
use crate::{Mark, RemoteAddr};
use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes before those of a message.
const HEAD_BYTES: usize = 5;
/// Calls in flight at which a session is full.
pub(crate) const IN_FLIGHT_MAX: usize = 1;

/// A message that is answered at once.
pub(crate) const CALL: u8 = b'c';
/// A message without an answer.
pub(crate) const ONEWAY: u8 = b'o';
/// A piece of a message: the next call ends it.
pub(crate) const FRAGMENT: u8 = b'f';
/// What may stand between the pieces, and is answered.
pub(crate) const PING: u8 = b'p';
/// What takes two milliseconds to answer, by the clock of this thread's test.
pub(crate) const LONG: u8 = b'l';
/// From here on the session has a last word.
const UPGRADE: u8 = b'u';

/// A message of that kind.
pub(crate) fn message(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap();
    [&len.to_be_bytes(), [kind].as_slice(), bytes].concat()
}

thread_local! {
    static LAST_READ: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// What a net thread has for the sessions: nothing.
#[derive(Clone)]
pub(crate) struct Nothing;

impl Local for Nothing {
    fn begin(&self) -> Instant {
        Instant::now()
    }

    fn last_read(&self) -> Option<Instant> {
        LAST_READ.get()
    }

    fn end(&self, _: impl Iterator<Item = (Mark, Instant)>) {}
}

/// The session of the protocol.
#[derive(Default)]
struct Messages {
    has_last_word: bool,
    is_joining: bool,
    /// Of fragments.
    held: Vec<u8>,
}

impl<L> Session<L> for Messages {
    fn receive(&mut self, _: &L, turn: &mut Turn<'_>, input: &[u8]) -> Received<L> {
        let Some(([len @ .., kind], rest)) = input.split_first_chunk::<HEAD_BYTES>() else {
            return Received::More(HEAD_BYTES);
        };
        let used = HEAD_BYTES + u32::from_be_bytes(*len) as usize;
        let Some(bytes) = rest.get(..used - HEAD_BYTES) else {
            return Received::More(used);
        };
        match *kind {
            FRAGMENT => {
                self.is_joining = true;
                self.held.extend_from_slice(bytes);
            }
            CALL => {
                (self.is_joining, self.held) = (false, Vec::new());
                turn.out().extend_from_slice(b"answer");
            }
            LONG => {
                let last = LAST_READ.get().unwrap_or_else(Instant::now);
                LAST_READ.set(Some(last + Duration::from_millis(2)));
                turn.out().push(b'l');
            }
            PING => turn.out().extend_from_slice(&message(b'P', bytes)),
            UPGRADE => {
                let has_last_word = true;
                let session = Messages {
                    has_last_word,
                    ..Messages::default()
                };
                return Received::Become(used, Box::new(session));
            }
            _ => {}
        }
        match self.is_joining {
            true => Received::Piece(used),
            false => Received::Served(used),
        }
    }

    fn is_full(&self, in_flight: usize) -> bool {
        in_flight >= IN_FLIGHT_MAX
    }

    fn refuse(&mut self, turn: &mut Turn<'_>, input: &[u8], why: &str) {
        self.held = Vec::new();
        if input.get(HEAD_BYTES - 1) != Some(&ONEWAY) {
            turn.out().extend_from_slice(why.as_bytes());
        }
    }

    fn has_last_word(&self) -> bool {
        self.has_last_word
    }

    fn part(&mut self, turn: &mut Turn<'_>, why: Goodbye) {
        turn.out().extend_from_slice(format!("{why:?}").as_bytes());
        turn.close_at_once();
    }

    fn is_partial(&self) -> bool {
        self.is_joining
    }

    fn held_bytes(&self) -> usize {
        self.held.capacity()
    }
}

/// What a port speaks that speaks this protocol alone.
pub(crate) fn fronts<L: 'static>() -> Fronts<L> {
    let front: Front<L> = Box::new(|_| Match::Yes(Box::<Messages>::default()));
    Arc::new([front])
}

impl Connection<Nothing> {
    /// Both halves of a turn.
    pub(crate) fn turn(&mut self, local: &Nothing, net: &Net, buffers: &mut Buffers, now_s: u32) -> After {
        match self.serve_turn(local, net, buffers) {
            Ok(served) => self.end_turn(net, buffers, now_s, served.messages > 0),
            Err(after) => after,
        }
    }
}

/// The connection, its peer, and what a net thread would lend it.
pub(crate) struct Rig {
    pub(crate) connection: Connection<Nothing>,
    pub(crate) theirs: UnixStream,
    pub(crate) net: Net,
    pub(crate) buffers: Buffers,
}

impl Rig {
    pub(crate) fn connected() -> Rig {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        LAST_READ.set(Some(Instant::now()));
        let net = net();
        let key = Key {
            slot: 0,
            generation: 1,
        };
        Rig {
            connection: Connection::new(
                Link::new(ours.into(), RemoteAddr(None), Kind::Served, key),
                Box::new(Undecided(fronts())),
                0,
            ),
            theirs,
            net,
            buffers: Buffers::new(),
        }
    }

    /// One whose protocol has a last word.
    pub(crate) fn upgraded() -> Rig {
        let mut rig = Rig::connected();
        rig.theirs.write_all(&message(UPGRADE, b"")).unwrap();
        assert_eq!(rig.turns(0), After::Wait);
        rig
    }

    /// Says that its socket is ready.
    pub(crate) fn note_ready(&mut self) {
        self.connection.note(Ready {
            slot: 0,
            generation: 1,
            readable: true,
            writable: true,
            ended: false,
            gone: false,
        });
    }

    /// Says that its socket is ready, and gives it turns until it wants none.
    pub(crate) fn turns(&mut self, now_s: u32) -> After {
        self.note_ready();
        loop {
            let turn = self
                .connection
                .turn(&Nothing, &self.net, &mut self.buffers, now_s);
            if turn != After::Again {
                return turn;
            }
        }
    }

    /// The peer reads all there is.
    pub(crate) fn read_answers(&mut self) -> Vec<u8> {
        self.theirs.set_nonblocking(true).unwrap();
        let mut found = Vec::new();
        // Without an end there comes an error: nothing more is there.
        let _ = self.theirs.read_to_end(&mut found);
        self.theirs.set_nonblocking(false).unwrap();
        found
    }
}

/// Bounds that no test of one connection meets.
fn net() -> Net {
    let options = options();
    let totals = Totals::new(Arc::default(), 1, options.write_buffers_total_bytes_max, "");
    Net {
        options,
        counters: Arc::default(),
        mailbox: Arc::new(Mailbox::new(Arc::new(totals), 0).unwrap()),
    }
}

/// One net thread with wide bounds.
pub(crate) fn options() -> Options {
    Options {
        threads: 1,
        cpus: Vec::new(),
        connections_max: 100_000,
        idlest_gives_way: false,
        write_buffer_bytes_max: 1 << 20,
        write_buffers_total_bytes_max: 64 << 20,
        partial_bytes_max: 64 << 20,
        timeouts: Timeouts::default(),
        busy_poll: std::time::Duration::ZERO,
        hints: Hints::default(),
    }
}
