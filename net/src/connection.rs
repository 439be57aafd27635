//! One connection on its net thread: read what is readable, have its session serve it, send once.
//!
//! It is not shared with other threads: their answers come through the mailbox. It knows no protocol. Its invariants: a turn
//! is bounded and reads once; while a bound is reached or its session is full, it serves nothing and reads little; an idle
//! one holds no buffer, and one that awaits the rest of a request little more than what has come of it. A peer that has
//! ended its stream still gets its answers, unless it reads nothing either, or its protocol has a closing message.

mod ages;
mod held;
mod link;
mod outward;
mod parting;
#[cfg(test)]
pub(crate) mod rig;

pub(crate) use held::UNCOUNTED_BYTES;
pub(crate) use link::{Link, Phase, Timed};

use crate::layer::Opened;
use crate::mailbox::{Delivery, What};
use crate::net_thread::{Buffers, Kind, Net};
use crate::poller::Ready;
use crate::session::{Local, Received, Session, Turn};
use crate::timers::{Ages, Nanos};
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes that a blocked connection reads ahead to see a last word once its peer has closed.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// Capacity of an input that is kept beyond twice the bytes in it.
const INPUT_SPARE_BYTES: usize = 64 << 10;
/// Requests served in one turn.
const SERVED_PER_TURN: usize = 256;
/// Calls that take long end a connection's turn after this time, so that a pipeline of them holds no other connection up.
const TURN_MAX: Duration = Duration::from_millis(1);

/// A connection; its net thread's slab holds it.
pub(crate) struct Connection<L> {
    pub(crate) link: Link,
    /// Its protocol.
    session: Box<dyn Session<L>>,
    /// Bytes read and not yet served: less than one request, unless blocked.
    input: Vec<u8>,
    /// Input length below which no request can be whole.
    needed: usize,
    /// Its share of the counted bytes of partial requests.
    counted: usize,
    ages: Ages,
    /// When its session is to be woken, or it is to end.
    pub(crate) wake_at: Option<Instant>,
    /// When that is, for the clock.
    pub(crate) timer: Option<Nanos>,
    /// Its last turn had calls that take long.
    pub(crate) took_long: bool,
    /// It is in the loop's queue.
    is_due: bool,
    /// The kernel may have bytes for it.
    is_readable: bool,
    /// The kernel says that the peer has sent its last byte; it may not have been read yet.
    has_hung_up: bool,
    /// The kernel says that the peer takes no more either.
    is_gone: bool,
    /// The peer's last byte was read.
    has_ended: bool,
    /// Since the stop, everything that the peer had sent by then was read.
    is_drained: bool,
}

/// What the first half of a turn did.
#[derive(Debug)]
pub(crate) struct Served {
    /// Messages that were served; the whole budget of a turn where they took long.
    pub(crate) messages: usize,
    /// Bytes of answers that wait for the second half.
    pub(crate) bytes: usize,
}

/// What a connection wants after its turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Its socket, or an answer of another thread.
    Wait,
    /// Another turn, behind the others.
    Again,
    /// To be held for a moment, while the peer reads what was sent.
    Linger,
    /// To be closed.
    End,
}

impl<L: Local> Connection<L> {
    pub(crate) fn new(link: Link, session: Box<dyn Session<L>>, now_s: u32) -> Connection<L> {
        Connection {
            link,
            session,
            input: Vec::new(),
            needed: 0,
            counted: 0,
            ages: Ages {
                active_s: now_s,
                ..Ages::default()
            },
            wake_at: None,
            timer: None,
            took_long: false,
            is_due: false,
            is_readable: false,
            has_hung_up: false,
            is_gone: false,
            has_ended: false,
            is_drained: false,
        }
    }

    pub(crate) fn lingers(&self) -> bool {
        self.link.phase == Phase::Lingering
    }

    #[inline]
    fn blocked(&self) -> bool {
        let in_flight = self.link.in_flight;
        !self.link.takes_answers() || (in_flight > 0 && self.session.is_full(in_flight))
    }

    /// Whether its session can serve something now without further bytes.
    fn servable(&self) -> bool {
        let whole = !self.input.is_empty() && self.input.len() >= self.needed;
        (whole || self.session.resumes(self.link.in_flight)) && !self.blocked()
    }

    /// Whether bytes that the kernel has would be of use.
    fn wants_bytes(&self) -> bool {
        let looks_for_the_end =
            self.has_hung_up && self.session.has_last_word() && self.input.len() < READ_AHEAD_BYTES;
        !self.has_ended && self.link.phase == Phase::Open && (looks_for_the_end || !self.blocked())
    }

    fn finished(&self) -> bool {
        let awaits = self.link.in_flight > 0 && self.link.phase != Phase::Parted;
        let over = self.link.phase > Phase::Open || (self.has_ended && !self.session.resumes(0));
        over && !awaits && self.link.unsent() == 0
    }

    /// Asks for a turn; false if it is queued for one.
    fn ask_for_turn(&mut self) -> bool {
        !std::mem::replace(&mut self.is_due, true)
    }

    /// Takes what the kernel says; true if it is to be queued for a turn.
    pub(crate) fn note(&mut self, ready: Ready) -> bool {
        self.is_readable |= ready.readable;
        self.link.is_writable |= ready.writable;
        self.has_hung_up |= ready.ended;
        self.is_gone |= ready.gone;
        if ready.gone && !self.lingers() {
            if self.has_ended {
                self.link.phase = Phase::Broken;
            }
            // What it had sent before is still read.
            self.tell_gone();
        }
        self.ask_for_turn()
    }

    /// Takes what another thread has sent; true if it is to be queued for a turn.
    pub(crate) fn deliver(&mut self, delivery: Delivery, net: &Net, buffers: &mut Buffers) -> bool {
        let link = &mut self.link;
        let bytes = delivery.bytes.as_slice();
        // The mailbox has counted them.
        link.kept.mailed += bytes.len();
        match delivery.what {
            What::Answer { close, ready } => {
                if link.phase <= Phase::Draining && link.has_place_for(net, buffers, bytes.len()) {
                    link.borrow_out(buffers);
                    link.take(bytes, ready);
                }
                link.in_flight = link.in_flight.saturating_sub(1);
                if close {
                    link.enter(Phase::Draining);
                }
            }
            What::Push { wake_at } => {
                if let Some(backlog) = &link.backlog {
                    backlog.take(bytes.len());
                }
                if link.phase == Phase::Open && !self.has_ended {
                    link.borrow_out(buffers);
                    link.take(bytes, None);
                    self.wake_at = self.wake_at.into_iter().chain(wake_at).min();
                } else {
                    // No answer could come.
                    self.session.give_up();
                }
            }
        }
        self.ask_for_turn()
    }

    /// Wakes its session.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.wake_at = self.session.wake(now);
    }

    /// The first half of a turn: serves what was read before, reads once, serves that. [`Connection::end_turn`] is the other.
    ///
    /// # Errors
    /// What the connection wants, where its turn is over: there is nothing to send.
    pub(crate) fn serve_turn(
        &mut self,
        local: &L,
        net: &Net,
        buffers: &mut Buffers,
    ) -> Result<Served, After> {
        self.is_due = false;
        if self.lingers() {
            return Err(self.discard(buffers));
        }
        if !self.is_connected(local) {
            return Err(self.unconnected());
        }
        let refused = self.link.kind == Kind::Refused;
        let budget = if refused { 1 } else { SERVED_PER_TURN };
        self.link.budget = budget;
        self.link.borrow_out(buffers);
        let unsent = self.link.unsent();
        self.serve_input(local, net, buffers);
        if self.link.budget > 0 && self.is_readable && self.wants_bytes() {
            self.read(local, net, buffers);
        }
        if refused && self.link.budget == 0 {
            self.link.enter(Phase::Draining);
        }
        self.count_held(net, buffers);
        Ok(Served {
            messages: budget - self.link.budget,
            bytes: self.link.unsent().saturating_sub(unsent),
        })
    }

    /// Reads once into the thread's buffer and serves from there; only a partial request is copied out.
    fn read(&mut self, local: &L, net: &Net, buffers: &mut Buffers) {
        let layer = self.link.layer.as_ref();
        let most = layer.map_or(buffers.read.len(), |layer| {
            buffers.read.len().min(layer.read_bytes_max())
        });
        let count = match self.link.receive(&mut buffers.read[..most]) {
            Ok(0) => return self.tell_end(),
            Ok(count) => count,
            Err(Errno::AGAIN) => {
                self.is_readable = false;
                self.is_drained = true;
                return;
            }
            Err(Errno::INTR) => return,
            Err(_) => {
                self.link.phase = Phase::Broken;
                return self.tell_gone();
            }
        };
        if matches!(self.link.kind, Kind::Opened(_)) {
            self.session.heard(local);
        }
        if count < most && !self.has_hung_up {
            // An event will come for what follows.
            self.is_readable = false;
            self.is_drained = true;
        }
        let bytes = &mut buffers.read[..count];
        if self.link.layer.is_some() {
            self.open(bytes);
            self.note_open(local);
        } else if self.input.is_empty() {
            self.link.waits_since = None;
            let used = self.serve(local, net, bytes, &mut buffers.scratch);
            let rest = &mut bytes[used..];
            return match std::mem::take(&mut self.link.has_new_layer) {
                // Behind the message that has brought a layer.
                true => self.open(rest),
                false => self.input.extend_from_slice(rest),
            };
        } else {
            self.reserve(count);
            self.input.extend_from_slice(bytes);
        }
        self.serve_input(local, net, buffers);
    }

    /// Takes sealed bytes; the input grows by what they hold.
    fn open(&mut self, bytes: &mut [u8]) {
        self.reserve(bytes.len());
        let link = &mut self.link;
        let Some(layer) = &mut link.layer else { return };
        match layer.open(bytes, &mut self.input, &mut link.out) {
            Opened::Open => {}
            // It is said of one direction alone (RFC 8446, 6.1).
            Opened::Ended if self.has_ended => {}
            Opened::Ended => self.tell_end(),
            Opened::Failed => {
                link.enter(Phase::Draining);
                self.input = Vec::new();
            }
        }
    }

    /// Serves what was read before and could not be served then.
    fn serve_input(&mut self, local: &L, net: &Net, buffers: &mut Buffers) {
        if self.link.budget == 0 || !self.servable() {
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        let used = self.serve(local, net, &input, &mut buffers.scratch);
        if std::mem::take(&mut self.link.has_new_layer) {
            return self.open(&mut input[used..]);
        }
        input.drain(..used);
        if input.capacity() > 2 * input.len() + INPUT_SPARE_BYTES {
            // What is left may be the beginning of a small request, and wait for long.
            input.shrink_to_fit();
        }
        if !input.is_empty() {
            self.input = input;
        }
    }

    /// Sends what was answered since its turn.
    pub(crate) fn send(&mut self, net: &Net, buffers: &mut Buffers, now_s: u32) -> After {
        self.is_due = false;
        match self.lingers() {
            true => self.discard(buffers),
            false => self.end_turn(net, buffers, now_s, false),
        }
    }

    /// The second half of a turn: sends, and gives back what was borrowed. `served` says whether the first half served anything.
    pub(crate) fn end_turn(&mut self, net: &Net, buffers: &mut Buffers, now_s: u32, served: bool) -> After {
        if self.link.phase > Phase::Open {
            self.session.give_up();
        }
        let waits = !self.input.is_empty() && self.blocked();
        self.link.waits_since = self.link.waits_since.or(buffers.began).filter(|_| waits);
        let sent = self.link.send(buffers);
        self.link.give_out_back(buffers);
        // A handshake has the time of one request, however often the peer makes this server answer.
        self.age(now_s, served || (sent && !self.link.is_shaking()));
        if self.link.phase == Phase::Broken {
            return After::End;
        }
        let servable = self.servable();
        // One read of TLS can hold the last requests and the end.
        if self.finished() && !servable {
            return self.finish(net, buffers);
        }
        self.is_due = servable || (self.is_readable && self.wants_bytes());
        if self.is_due { After::Again } else { After::Wait }
    }

    /// Has its session serve what it holds, and the messages at the front of `input`; returns bytes used.
    fn serve(&mut self, local: &L, net: &Net, input: &[u8], scratch: &mut Vec<u8>) -> usize {
        while self.link.budget > 0 && self.session.resumes(self.link.in_flight) && !self.blocked() {
            let link = &mut self.link;
            self.session.resume(local, &mut Turn { net, link, scratch });
            self.link.count_served(true);
        }
        let mut used = 0;
        self.needed = 0;
        let began = local.last_read();
        while used < input.len() && self.link.budget > 0 && !self.blocked() {
            let link = &mut self.link;
            let mut turn = Turn { net, link, scratch };
            match self.session.receive(local, &mut turn, &input[used..]) {
                Received::Served(len) => {
                    used += len;
                    self.link.count_served(true);
                    if let (Some(began), Some(last)) = (began, local.last_read())
                        && last != began
                        && last.saturating_duration_since(began) > TURN_MAX
                    {
                        self.link.budget = 0;
                    }
                }
                Received::Piece(len) => {
                    used += len;
                    self.link.count_served(false);
                }
                Received::More(needed) => {
                    self.needed = needed;
                    break;
                }
                Received::Malformed => {
                    net.counters.malformed.fetch_add(1, Ordering::Relaxed);
                    self.link.enter(Phase::Draining);
                    used = input.len();
                }
                Received::Become(len, session) => {
                    used += len;
                    self.session = session;
                    if len > 0 {
                        self.link.count_served(true);
                    }
                }
            }
        }
        used
    }

    /// The stop wants to know whether anything lies unread; true if it is to be queued for a turn.
    pub(crate) fn look_again(&mut self) -> bool {
        self.is_drained = false;
        self.is_readable = true;
        self.ask_for_turn()
    }

    /// Whether everything is answered and sent, with what the peer had sent before the stop.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_read = self.link.phase > Phase::Open || self.has_ended || self.is_drained;
        let unread = self.link.kind == Kind::Served && !is_read;
        self.link.in_flight == 0 && self.link.unsent() == 0 && !unread && !self.servable()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::rig::{CALL, LONG, Nothing, Rig, message};
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_pipeline_of_long_calls_gives_way_after_each_and_one_of_short_calls_goes_on() {
        let check = |kind, expected| {
            let mut rig = Rig::connected();
            rig.theirs.write_all(&message(kind, b"").repeat(5)).unwrap();
            rig.note_ready();
            let mut turns = 1;
            while rig.connection.turn(&Nothing, &rig.net, &mut rig.buffers, 0) == After::Again {
                turns += 1;
            }
            assert!(!rig.read_answers().is_empty());
            assert_eq!(turns, expected);
        };
        check(LONG, 5);
        check(CALL, 1);
    }
}
