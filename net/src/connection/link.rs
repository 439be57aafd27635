//! The outward half of a connection: its socket, what is on its way out of it, and how far the connection is.
//!
//! It receives nothing. Its invariants: it never waits; what the kernel does not take stays in its order; an answer counts as
//! written when its own last byte has left; the write buffer holds at most `write_buffer_bytes_max`, or a single answer; and its
//! capacity is counted at the end of every turn.

use crate::layer::Layer;
use crate::mailbox::Key;
use crate::net_thread::{Buffers, Kind, Net};
use crate::outlet::Backlog;
use crate::quiet::{self, limited};
use crate::{Mark, RemoteAddr};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Unsent answers past which no further request is served; those in flight by then may add up to
/// [`Options::write_buffer_bytes_max`](crate::Options).
pub(super) const OUT_BYTES_HIGH: usize = 256 << 10;
/// Unused capacity that a connection may keep beside unsent answers.
const OUT_SPARE_BYTES: usize = 64 << 10;

/// How far a connection is; it never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It is served.
    Open,
    /// It receives nothing more, and closes once everything is answered and sent.
    Draining,
    /// Its closing message is written: it closes once that is sent, and drops later answers.
    Parted,
    /// Everything is sent, and what the peer still sends is thrown away.
    Lingering,
    /// Reading or writing failed.
    Broken,
}

/// An answer whose writing is measured.
pub(crate) struct Timed {
    /// Where it ends among the bytes that are not sent, those before them included.
    end: usize,
    since: Instant,
    mark: Mark,
}

/// Bytes that are counted for a connection among those of all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kept {
    /// Capacity of its write buffer at the end of its last turn.
    pub(crate) kept: usize,
    /// Bytes from the mailbox since then, counted there.
    pub(crate) mailed: usize,
}

impl Kept {
    pub(crate) fn is_nothing(self) -> bool {
        self.kept == 0 && self.mailed == 0
    }
}

/// The socket of a connection, its write buffer and its phase.
pub(crate) struct Link {
    /// Dropping it sends the end of the stream.
    pub(super) socket: OwnedFd,
    pub(crate) peer: RemoteAddr,
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    /// It came over loopback.
    pub(crate) is_loopback: bool,
    pub(crate) phase: Phase,
    /// Encrypts its bytes: TLS, where its listener says so, or what its session has agreed on.
    pub(crate) layer: Option<Box<dyn Layer>>,
    /// The layer came in this turn: what was read behind the message that brought it is still sealed.
    pub(crate) has_new_layer: bool,
    /// Turns true when the peer has gone; made when somebody else wants to know.
    pub(crate) gone: Option<Arc<AtomicBool>>,
    /// What waits for the peer, for its pushers; made for the first of them.
    pub(crate) backlog: Option<Arc<Backlog>>,
    /// Calls that are answered later.
    pub(crate) in_flight: usize,
    /// Messages that may still be served in this turn.
    pub(crate) budget: usize,
    /// Since when requests lie read that could not be served: as many calls as may be were in flight.
    pub(crate) waits_since: Option<Instant>,
    /// A request was served since the ages were last taken down, not just a piece of one.
    pub(crate) has_served: bool,
    /// The kernel may have room for its answers.
    pub(super) is_writable: bool,
    /// This side opens it, and the kernel has not said yet what came of that.
    pub(crate) is_connecting: bool,
    /// This side opens it, and its session has not heard that it is open.
    pub(crate) is_opening: bool,
    /// Why it could not be opened.
    pub(crate) error: Option<Errno>,
    /// Answers not yet sent, from `sent` on.
    pub(crate) out: Vec<u8>,
    sent: usize,
    /// The answers in `out` that are measured; fewer than `out` has bytes.
    timed: Vec<Timed>,
    /// Its share of the counted write buffers.
    pub(crate) kept: Kept,
}

impl Link {
    pub(crate) fn new(socket: OwnedFd, peer: RemoteAddr, kind: Kind, key: Key) -> Link {
        Link {
            socket,
            peer,
            kind,
            key,
            is_loopback: false,
            phase: Phase::Open,
            layer: None,
            has_new_layer: false,
            waits_since: None,
            gone: None,
            backlog: None,
            in_flight: 0,
            budget: 0,
            has_served: false,
            // The first event says more.
            is_writable: true,
            is_connecting: false,
            is_opening: false,
            error: None,
            out: Vec::new(),
            sent: 0,
            timed: Vec::new(),
            kept: Kept::default(),
        }
    }

    /// It is being opened by this side: the first event says that it is open, or why not.
    pub(crate) fn begin_connecting(&mut self) {
        (self.is_connecting, self.is_opening, self.is_writable) = (true, true, false);
    }

    /// Goes on to that phase, unless it is further.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = self.phase.max(phase);
    }

    pub(super) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Whether further messages may be served, as far as their answers go.
    #[inline]
    pub(crate) fn takes_answers(&self) -> bool {
        // What this side asked for is read whatever it has still to send: each end could else wait for the other.
        let may_owe = self.unsent() < OUT_BYTES_HIGH || matches!(self.kind, Kind::Opened(_));
        self.phase == Phase::Open && !self.has_new_layer && may_owe
    }

    /// A message was served in this turn; `is_request` if it was more than a piece of one.
    #[inline]
    pub(super) fn count_served(&mut self, is_request: bool) {
        self.budget -= 1;
        self.has_served |= is_request;
    }

    /// Whether its layer's handshake is not done.
    pub(super) fn is_shaking(&self) -> bool {
        self.layer.as_ref().is_some_and(|layer| layer.is_shaking())
    }

    /// Nobody takes answers any more.
    pub(super) fn tell_gone(&mut self) {
        let gone = self.gone.get_or_insert_default();
        gone.store(true, Ordering::Relaxed);
    }

    /// Answers are written to a buffer of the thread's, unless some of this connection's wait in one of its own.
    pub(super) fn borrow_out(&mut self, buffers: &mut Buffers) {
        if self.out.capacity() == 0 {
            self.out = buffers.out.lend();
        }
        if self.timed.capacity() == 0 {
            self.timed = buffers.timed.lend();
        }
    }

    /// What was borrowed is given back, if nothing is in it.
    pub(super) fn give_out_back(&mut self, buffers: &mut Buffers) {
        if let Some(backlog) = &self.backlog {
            backlog.unsent.store(self.unsent(), Ordering::Relaxed);
        }
        self.shrink_out(buffers);
        if self.timed.is_empty() {
            buffers.timed.take_back(std::mem::take(&mut self.timed));
        }
        if self.out.is_empty() {
            buffers.out.take_back(std::mem::take(&mut self.out));
        }
    }

    /// A few unsent bytes do not keep the buffer that all answers of a turn took.
    fn shrink_out(&mut self, buffers: &mut Buffers) {
        let capacity = self.out.capacity();
        if self.out.is_empty() || capacity < OUT_SPARE_BYTES || self.unsent() > capacity / 4 {
            return;
        }
        self.forget_sent();
        let rest = self.out.as_slice().to_vec();
        buffers.out.take_back(std::mem::replace(&mut self.out, rest));
    }

    /// What was counted for its write buffer, and what it takes now, which is counted from here on.
    pub(crate) fn recount_kept(&mut self) -> (Kept, usize) {
        let keeps = self.out.capacity() + self.timed.capacity() * size_of::<Timed>();
        let (kept, mailed) = (keeps, 0);
        (std::mem::replace(&mut self.kept, Kept { kept, mailed }), keeps)
    }

    /// Reads into the front of `buffer`; 0 is the end of the peer's stream.
    #[inline]
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        // A socket's own call: `read` costs the kernel more, as for a file.
        let (received, _) = rustix::net::recv(&self.socket, buffer, RecvFlags::empty())?;
        Ok(received)
    }

    /// A message was written from `start` on: its layer may seal it.
    #[inline]
    pub(crate) fn seal(&mut self, start: usize) {
        if let Some(layer) = &mut self.layer
            && self.out.len() > start
        {
            layer.seal_message(&mut self.out, start);
        }
    }

    /// Takes what another thread has sent, as one message. A push is worth nothing once no answer to it can come.
    pub(super) fn take(&mut self, bytes: &[u8], ready: Option<(Instant, Mark)>) {
        let start = self.out.len();
        self.out.extend_from_slice(bytes);
        self.seal(start);
        if let Some((since, mark)) = ready
            && self.kind == Kind::Served
            && self.out.len() > start
        {
            let end = self.out.len();
            self.timed.push(Timed { end, since, mark });
        }
    }

    /// Seals what is not yet, and writes without waiting; true if any byte left.
    pub(super) fn send(&mut self, buffers: &mut Buffers) -> bool {
        if let Some(layer) = &mut self.layer {
            let before = layer.sealed(self.out.len());
            if !layer.seal(&mut self.out, &mut buffers.plain) {
                self.phase = Phase::Broken;
                self.out.truncate(layer.sealed(self.out.len()));
                self.timed.retain(|timed| timed.end <= before);
            }
            // What was sealed now ends together, or nearly.
            for timed in self.timed.iter_mut().filter(|timed| timed.end > before) {
                timed.end = self.out.len();
            }
        }
        let sent = self.write(buffers);
        if self.sent >= OUT_BYTES_HIGH.max(self.out.len() / 2) {
            self.forget_sent();
        }
        sent
    }

    /// Writes what may leave, and notes the measured answers that have left: their ends mean nothing once the buffer begins anew.
    fn write(&mut self, buffers: &mut Buffers) -> bool {
        let sent = self.flush();
        if !self.timed.is_empty() {
            let left = match self.unsent() {
                0 => self.timed.len(),
                _ => self.timed.partition_point(|timed| timed.end <= self.sent),
            };
            let left = self.timed.drain(..left);
            buffers
                .written
                .extend(left.map(|timed| (timed.mark, timed.since)));
        }
        sent
    }

    fn flush(&mut self) -> bool {
        let layer = self.layer.as_ref();
        let (mut sent, end) = (
            false,
            layer.map_or(self.out.len(), |layer| layer.sealed(self.out.len())),
        );
        while self.is_writable && self.sent < end {
            match rustix::net::send(&self.socket, &self.out[self.sent..end], SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.sent += count;
                    sent = true;
                }
                Err(Errno::AGAIN) => self.is_writable = false,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.phase = Phase::Broken;
                    return sent;
                }
            }
        }
        if self.sent == self.out.len() {
            self.forget_sealed(self.sent);
            self.sent = 0;
            self.out.clear();
        }
        sent
    }

    /// A peer that is always a little behind would have everything kept that was ever sent to it.
    fn forget_sent(&mut self) {
        self.out.drain(..self.sent);
        self.forget_sealed(self.sent);
        for timed in &mut self.timed {
            timed.end -= self.sent;
        }
        self.sent = 0;
    }

    fn forget_sealed(&mut self, bytes: usize) {
        if let Some(layer) = &mut self.layer {
            layer.forget_sealed(bytes);
        }
    }

    /// Whether the write buffer takes another answer; a peer that does not read a full one is cut off.
    pub(super) fn has_place_for(&mut self, net: &Net, buffers: &mut Buffers, bytes: usize) -> bool {
        let limit = net.options.write_buffer_bytes_max;
        let fits = |link: &Link| {
            let unsent = link.unsent();
            unsent == 0 || unsent.saturating_add(bytes) <= limit
        };
        if fits(self) {
            return true;
        }
        // The kernel may have space by now; what a layer has not sealed could not leave.
        self.send(buffers);
        if fits(self) {
            return true;
        }
        let (peer, owed) = (self.peer, self.unsent() + bytes);
        let key = net.options.hints.write_buffer_key;
        limited!(info, net.counters.quiet, quiet::SLOW_READER, [%peer, owed, limit], "connection closed: its peer does not read its answers ({key})");
        net.counters.overfull_readers.fetch_add(1, Ordering::Relaxed);
        self.cut_off();
        false
    }

    /// Ends because write buffers hold too much: its own is the largest, or an answer of so many bytes found no place.
    pub(crate) fn give_way(&mut self, net: &Net, missed: Option<usize>) {
        let (peer, limit, key) = (
            self.peer,
            net.options.write_buffers_total_bytes_max,
            net.options.hints.write_buffers_total_key,
        );
        let bytes = missed.unwrap_or(self.kept.kept);
        let why = match missed {
            None => "its peer reads least",
            Some(_) => "no place for its answer",
        };
        limited!(info, net.counters.quiet, quiet::WRITE_BUFFERS, [%peer, bytes, limit], "connection closed: {why} while too much waits for all peers ({key})");
        net.counters.write_buffers_cut.fetch_add(1, Ordering::Relaxed);
        self.cut_off();
    }

    /// Drops everything unsent, what the kernel has of it too.
    fn cut_off(&mut self) {
        self.reset_at_end();
        (self.out, self.sent, self.timed) = (Vec::new(), 0, Vec::new());
        self.forget_sealed(usize::MAX);
        self.phase = Phase::Broken;
        self.tell_gone();
    }

    /// Has the kernel drop unsent bytes when the socket is closed. Else it keeps megabytes and goes on probing the peer; with
    /// thousands of such peers that delays everybody else.
    pub(super) fn reset_at_end(&self) {
        // A Unix socket has no such thing, and needs none.
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }

    /// Sends the layer's closing message, if it has one and the kernel takes it without waiting.
    pub(super) fn end_layer(&mut self) {
        if let Some(layer) = &mut self.layer
            && self.out.is_empty()
            && self.phase != Phase::Broken
        {
            let last = layer.close();
            if !last.is_empty() {
                let _ = rustix::net::send(&self.socket, &last, SendFlags::NOSIGNAL);
            }
        }
    }
}

#[cfg(test)]
mod tests;
