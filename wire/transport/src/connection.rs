//! One connection on its net thread: read what is readable, serve every whole request in it, flush once.
//!
//! It is not shared with other threads: answers from them come through the mailbox. Its invariants: a turn is bounded, and
//! whoever has more to do waits behind the others; while it is blocked (a bound is reached, or an HTTP answer must come
//! first) it serves nothing and reads little; an idle one holds no buffer. A peer that sends no more is answered what it has
//! asked: it has gone only when it takes nothing either, or where its protocol has a word for the end, as WebSockets have.

mod ages;
mod held;
mod http;
mod push;
mod reading;
mod requests;
#[cfg(test)]
mod rig;
mod secure;
mod sending;
mod tls;
mod websocket;
mod written;

pub(crate) use held::UNCOUNTED_BYTES;
pub(crate) use push::Pushes;
use written::Kept;
pub(crate) use written::Timed;

use crate::encryption::Secure;
use crate::mailbox::{Delivery, Key};
use crate::net_thread::{Kind, Net, Room};
use crate::peer::Peer;
use crate::poller::Ready;
use crate::quiet::{Cause, LeftOut};
use crate::service::Service;
use crate::timers::Ages;
use http::serve_http;
use millpond_wire_frame::websocket::WebSocket;
use millpond_wire_frame::{HttpProgress, is_http};
use requests::{Step, serve_frame};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use tls::Session;
pub(crate) use websocket::Goodbye;
use websocket::serve_websocket;

/// Unsent answers past which no further request is served: a reader that stops reading holds this much, and of what is in
/// flight by then no more than `Options::owed_bytes_max`.
const OUT_BYTES_HIGH: usize = 256 << 10;
/// Bytes a blocked WebSocket reads ahead once its peer has closed: enough to see the end. And bytes of calls that a connection
/// holds back while it awaits its peer's answers.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// Requests served in one turn.
const SERVED_PER_TURN: usize = 256;

/// A connection; its net thread's slab holds it.
pub(crate) struct Connection {
    /// Dropping it sends the end of the stream.
    socket: OwnedFd,
    pub(crate) peer: Peer,
    pub(crate) kind: Kind,
    key: Key,
    /// Turns true when the peer has gone; made when somebody else wants to know.
    gone: Option<Arc<AtomicBool>>,
    /// Bytes read and not yet served: less than one request, unless blocked.
    input: Vec<u8>,
    /// Input length below which no request can be whole.
    needed: usize,
    /// Bytes counted for it among those that all connections hold of unfinished requests.
    counted: usize,
    /// What is known of an HTTP request that is not whole.
    progress: HttpProgress,
    /// What is counted for it among what all connections keep for their peers.
    kept: Kept,
    /// Answers not yet sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// The answers in `out` that are measured; fewer than `out` has bytes.
    timed: Vec<Timed>,
    in_flight: usize,
    ages: Ages,
    flags: Flags,
    /// Its messages are frames, since an HTTP request asked for that.
    websocket: Option<Box<WebSocket>>,
    /// Its bytes are encrypted, since its first call asked for that.
    secure: Option<Box<Secure>>,
    /// It may be called, since somebody asked for the way.
    pushes: Option<Box<Pushes>>,
    /// Its bytes are TLS, since its listener says so.
    tls: Option<Box<Session>>,
}

/// What a connection is in the middle of.
#[derive(Default)]
struct Flags {
    /// It is in the loop's queue.
    due: bool,
    /// The kernel may have bytes for it.
    readable: bool,
    /// The kernel may have room for its answers.
    writable: bool,
    /// The kernel says that the peer has sent its last byte; it may not have been read yet.
    hung_up: bool,
    /// The peer's last byte was read.
    ended: bool,
    /// Writing or reading failed; nothing more can be said.
    broken: bool,
    /// Close once everything is answered and flushed.
    closing: bool,
    /// Everything was said; what the peer still sends is thrown away.
    lingers: bool,
    /// An HTTP answer is outstanding: HTTP/1.1 has no numbers, so the next request waits.
    http_waits: bool,
    continue_sent: bool,
    /// It came over loopback: not every `Host` is answered.
    loopback: bool,
    /// Whether it speaks HTTP, once its first bytes have told: a peer that spoke both would have answers by number and answers in
    /// turn on one connection, and either could come before the other.
    speaks_http: Option<bool>,
    /// A WebSocket's close frame was written: no message follows it.
    parted: bool,
    /// A request was served.
    called: bool,
    /// One was since the ages were last taken down, not just a piece of one.
    served: bool,
    /// A key was agreed on, and what was read behind the request for it is still encrypted.
    secured: bool,
    /// Set by the stop, once everything that the peer had sent by then was read.
    drained: bool,
}

/// What a connection wants after its turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// To be told of its socket, or of an answer.
    Wait,
    /// Another turn, behind the others.
    Again,
    /// Everything is said: to be held for a moment while the peer reads it.
    Linger,
    /// To be closed.
    End,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, peer: Peer, kind: Kind, key: Key, now_s: u32) -> Connection {
        Connection {
            socket,
            peer,
            kind,
            key,
            gone: None,
            input: Vec::new(),
            needed: 0,
            counted: 0,
            kept: Kept::default(),
            progress: HttpProgress::default(),
            out: Vec::new(),
            sent: 0,
            timed: Vec::new(),
            in_flight: 0,
            ages: Ages {
                active_s: now_s,
                ..Ages::default()
            },
            flags: Flags {
                // The first event says more.
                writable: true,
                ..Flags::default()
            },
            websocket: None,
            secure: None,
            pushes: None,
            tls: None,
        }
    }

    pub(crate) fn set_loopback(&mut self, loopback: bool) {
        self.flags.loopback = loopback;
    }

    pub(crate) fn key(&self) -> Key {
        self.key
    }

    pub(crate) fn lingers(&self) -> bool {
        self.flags.lingers
    }

    fn refused(&self) -> bool {
        self.kind == Kind::Refused
    }

    fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    fn finished(&self) -> bool {
        let over = self.flags.closing || (self.flags.ended && !self.holds_calls());
        over && (self.in_flight == 0 || self.flags.parted) && self.unsent() == 0
    }

    fn blocked(&self, in_flight_max: usize) -> bool {
        self.flags.closing
            || self.flags.http_waits
            || self.is_full(in_flight_max)
            || self.unsent() >= OUT_BYTES_HIGH
    }

    /// Whether it waits for answers of this server before more is read.
    fn is_full(&self, in_flight_max: usize) -> bool {
        self.in_flight >= in_flight_max && !self.awaits_answers()
    }

    /// Whether the input may hold a request that can be served now.
    fn servable(&self, in_flight_max: usize) -> bool {
        !self.input.is_empty() && self.input.len() >= self.needed && !self.blocked(in_flight_max)
    }

    /// Whether bytes that the kernel has would be of use.
    fn wants_bytes(&self, in_flight_max: usize) -> bool {
        let looks_for_the_end =
            self.flags.hung_up && self.websocket.is_some() && self.input.len() < READ_AHEAD_BYTES;
        !self.flags.ended && !self.flags.closing && (looks_for_the_end || !self.blocked(in_flight_max))
    }

    /// Takes what the kernel says; true if it is to be queued for a turn.
    pub(crate) fn note(&mut self, ready: Ready) -> bool {
        self.flags.readable |= ready.readable;
        self.flags.writable |= ready.writable;
        self.flags.hung_up |= ready.ended;
        if ready.gone && !self.flags.lingers {
            // What it had sent before is still read.
            self.flags.broken |= self.flags.ended;
            self.tell_gone();
        }
        self.ask_for_turn()
    }

    /// Takes an answer from another thread; true if it is to be queued for a turn.
    pub(crate) fn deliver<S: Service>(&mut self, delivery: &Delivery, net: &Net<S>, room: &mut Room) -> bool {
        self.kept.mailed += delivery.bytes.len();
        let flags = &self.flags;
        let is_over = flags.broken || flags.lingers || flags.parted;
        if !is_over && self.may_owe(net, delivery.bytes.len()) {
            self.borrow_out(room);
            let start = self.out.len();
            self.out.extend_from_slice(&delivery.bytes);
            self.measure(start, delivery.ready);
            self.sealed(start);
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        self.flags.http_waits = false;
        self.flags.closing |= delivery.close;
        self.ask_for_turn()
    }

    /// One turn: serve what was read before, read once, serve that, send.
    pub(crate) fn turn<S: Service>(&mut self, net: &Net<S>, room: &mut Room, now_s: u32) -> Turn {
        self.flags.due = false;
        if self.flags.lingers {
            return self.discard(room);
        }
        let in_flight_max = net.options.in_flight_max;
        let mut budget = SERVED_PER_TURN;
        self.borrow_out(room);
        self.serve_held(net, &mut budget);
        self.serve_input(net, &mut room.message, &mut budget);
        if budget > 0 && self.flags.readable && self.wants_bytes(in_flight_max) {
            self.read(net, room, &mut budget);
        }
        if std::mem::take(&mut self.flags.secured) {
            let rest = std::mem::take(&mut self.input);
            self.receive(net, &rest);
        }
        self.count_held(net);
        if self.flags.closing {
            // Nothing more is read.
            self.give_up_pushes();
        }
        let sent = self.send(net, room);
        self.give_out_back(room);
        // A handshake has the time of one request, however often the peer makes this server answer.
        let active = sent && !self.is_shaking();
        self.age(now_s, active || budget < SERVED_PER_TURN, in_flight_max);
        if self.flags.broken {
            return Turn::End;
        }
        // TLS can tell of the end together with the last requests.
        if self.finished() && !self.servable(in_flight_max) {
            return self.finish(net);
        }
        let reads = self.flags.readable && self.wants_bytes(in_flight_max);
        self.flags.due = reads || self.servable(in_flight_max) || self.can_release(in_flight_max);
        if self.flags.due { Turn::Again } else { Turn::Wait }
    }

    /// Serves whole requests from the front of `input` until none is left, the connection is blocked or its turn is over;
    /// returns bytes used.
    fn serve<S: Service>(
        &mut self,
        net: &Net<S>,
        input: &[u8],
        message: &mut Vec<u8>,
        budget: &mut usize,
    ) -> usize {
        let mut used = 0;
        self.needed = 0;
        while used < input.len()
            && *budget > 0
            && !self.blocked(net.options.in_flight_max)
            && !self.flags.secured
        {
            let (rest, start) = (&input[used..], self.out.len());
            let step = self.step(net, rest, message);
            self.sealed(start);
            match step {
                Step::Served(len) => {
                    used += len;
                    *budget -= 1;
                    self.flags.called = true;
                    self.flags.served |= !self.is_joining();
                    self.flags.continue_sent = false;
                }
                Step::Partial {
                    needed,
                    wants_continue,
                } => {
                    self.needed = needed;
                    if wants_continue && !self.flags.continue_sent {
                        self.flags.continue_sent = true;
                        self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    break;
                }
                Step::Malformed => {
                    net.counters.malformed.fetch_add(1, Ordering::Relaxed);
                    self.flags.closing = true;
                    used = input.len();
                }
            }
            if self.refused() {
                self.flags.closing = true;
            }
        }
        used
    }

    /// Serves the request at the front.
    fn step<S: Service>(&mut self, net: &Net<S>, rest: &[u8], message: &mut Vec<u8>) -> Step {
        if let Some(mut websocket) = self.websocket.take() {
            let step = serve_websocket(net, self, &mut websocket, rest, message);
            self.websocket = Some(websocket);
            return step;
        }
        if self.secure.is_some() {
            return serve_frame(net, self, rest);
        }
        let speaks_http = self.flags.speaks_http.or_else(|| is_http(rest));
        self.flags.speaks_http = speaks_http;
        match speaks_http {
            // A line end may stand before a request, so that four bytes need not be enough.
            None => Step::Partial {
                needed: rest.len() + 1,
                wants_continue: false,
            },
            Some(true) => serve_http(net, self, rest),
            Some(false) => serve_frame(net, self, rest),
        }
    }

    /// Everything was said: the peer is told, and given time to read it if it has not closed itself.
    fn finish<S: Service>(&mut self, net: &Net<S>) -> Turn {
        self.end_tls();
        let unread = !self.flags.ended;
        if !unread || rustix::net::shutdown(&self.socket, Shutdown::Write).is_err() {
            return Turn::End;
        }
        self.flags.lingers = true;
        self.tell_gone();
        self.input = Vec::new();
        self.count_held(net);
        self.flags.due = true;
        Turn::Linger
    }

    /// Reads on, keeping nothing, as long as the peer sends.
    fn discard(&mut self, room: &mut Room) -> Turn {
        match rustix::io::read(&self.socket, room.read.as_mut_slice()) {
            Ok(1..) => {
                self.flags.due = true;
                Turn::Again
            }
            Err(Errno::AGAIN | Errno::INTR) => Turn::Wait,
            Ok(0) | Err(_) => Turn::End,
        }
    }

    /// The peer has sent its last byte.
    fn tell_end(&mut self) {
        self.flags.ended = true;
        self.give_up_pushes();
        if self.websocket.is_some() {
            self.tell_gone();
        }
    }

    /// Nobody takes answers any more, nor those of calls that are still to be served.
    fn tell_gone(&mut self) {
        self.give_up_pushes();
        let gone = self.gone.get_or_insert_default();
        gone.store(true, Ordering::Relaxed);
    }

    /// It is over: whoever works for it is told, and so is the log where that is worth a line.
    pub(crate) fn ended<S>(mut self, net: &Net<S>) {
        self.uncount_held(net);
        self.tell_gone();
        self.end_tls();
        self.count_end_of_tls(net);
        if self.kind != Kind::Rehearsal {
            tracing::trace!(peer = %self.peer, connection = self.key.generation, "connection closed");
        }
        let flags = &self.flags;
        if flags.ended && !flags.broken && !self.input.is_empty() && !self.refused() {
            let (peer, bytes) = (self.peer, self.input.len());
            if let Some(LeftOut(left_out)) = net.counters.quiet.admits(Cause::CutShort) {
                tracing::info!(%peer, bytes, left_out, "connection closed by its peer in the middle of a request");
            }
            net.counters.malformed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It is over in the middle of a turn: whoever works for it is told, and its peer hears nothing but the end.
    pub(crate) fn lost<S>(mut self, net: &Net<S>) {
        self.uncount_held(net);
        self.tell_gone();
    }

    /// The stop wants to know whether anything lies unread; true if it is to be queued for a turn.
    pub(crate) fn look_again(&mut self) -> bool {
        self.flags.drained = false;
        self.flags.readable = true;
        self.ask_for_turn()
    }

    /// Whether nothing is owed to the peer, not even the look at what it had sent when the stop came.
    pub(crate) fn is_quiet(&self) -> bool {
        let flags = &self.flags;
        let unread = self.kind == Kind::Served
            && !(flags.closing || flags.ended || flags.broken || flags.lingers || flags.drained);
        self.in_flight == 0 && self.unsent() == 0 && !unread
    }
}
