//! Answers on their way out of a connection: how long the measured ones took, and how much a peer may be owed.
//!
//! It does not write to the socket. Its invariants: an answer is told written when its own last byte has left, whatever waits
//! behind it; what waits for a peer is at most `owed_bytes_max`, or a single answer; and the room that it takes is counted
//! at the end of every turn.

use super::{Connection, OUT_BYTES_HIGH};
use crate::net_thread::{Kind, Net, Room};
use crate::quiet::{Cause, LeftOut};
use crate::service::Service;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A buffer for answers that grew beyond this is not kept for the next connection.
pub(super) const OUT_BYTES_KEPT: usize = 256 << 10;
/// Room that a connection may keep unused while answers wait in it.
const OUT_SPARE_BYTES: usize = 64 << 10;
/// Measured answers of one buffer that is kept for the next connection.
const TIMED_KEPT: usize = 1024;

/// An answer whose writing is measured.
pub(crate) struct Timed {
    /// Where it ends among the bytes that are not sent, those before them included; not known until it is whole.
    end: usize,
    since: Instant,
    mark: u16,
}

/// Bytes that are counted for a connection among those of all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kept {
    /// Room that its unsent answers took at the end of its last turn.
    pub(crate) kept: usize,
    /// Bytes that came from the mailbox since then, and were counted there.
    pub(crate) mailed: usize,
}

impl Kept {
    pub(crate) fn is_nothing(self) -> bool {
        self.kept == 0 && self.mailed == 0
    }
}

impl Timed {
    /// Where it ended beyond `before`, it ends at `end` now.
    pub(super) fn move_end(&mut self, before: usize, end: usize) {
        if self.end > before {
            self.end = end;
        }
    }
}

impl Connection {
    /// Answers are written to the thread's buffer, unless some of this connection's wait in one of its own.
    pub(super) fn borrow_out(&mut self, room: &mut Room) {
        if self.out.capacity() == 0 {
            std::mem::swap(&mut self.out, &mut room.out);
        }
        if self.timed.capacity() == 0 {
            std::mem::swap(&mut self.timed, &mut room.timed);
        }
    }

    /// What was borrowed is given back, if nothing is in it.
    pub(super) fn give_out_back(&mut self, room: &mut Room) {
        if let Some(pushes) = &self.pushes {
            pushes.set_unsent(self.unsent());
        }
        self.keep_no_spare_room(room);
        if self.timed.is_empty() {
            let timed = std::mem::take(&mut self.timed);
            if room.timed.capacity() == 0 && timed.capacity() <= TIMED_KEPT {
                room.timed = timed;
            }
        }
        if !self.out.is_empty() {
            return;
        }
        let out = std::mem::take(&mut self.out);
        give_back(out, room);
    }

    /// A few bytes that wait do not keep the room that all answers of a turn took.
    fn keep_no_spare_room(&mut self, room: &mut Room) {
        let capacity = self.out.capacity();
        if self.out.is_empty() || capacity < OUT_SPARE_BYTES || self.unsent() > capacity / 4 {
            return;
        }
        self.forget_sent();
        let rest = self.out.as_slice().to_vec();
        let mut out = std::mem::replace(&mut self.out, rest);
        out.clear();
        give_back(out, room);
    }

    /// What was counted for it, and what its unsent answers take now, which is counted from here on.
    pub(crate) fn recount_kept(&mut self) -> (Kept, usize) {
        let keeps = self.out.capacity() + self.timed.capacity() * size_of::<Timed>();
        let now = Kept {
            kept: keeps,
            mailed: 0,
        };
        (std::mem::replace(&mut self.kept, now), keeps)
    }

    /// What was counted for it, and is no more.
    pub(crate) fn forget_kept(&mut self) -> Kept {
        std::mem::take(&mut self.kept)
    }

    /// Measures the answer that was written from `start` on, where that is asked for; a oneway call has none, and a rehearsal is
    /// counted nowhere.
    pub(super) fn measure(&mut self, start: usize, ready: Option<(Instant, u16)>) {
        if let Some((since, mark)) = ready
            && self.kind == Kind::Served
            && self.out.len() > start
        {
            self.timed.push(Timed {
                end: usize::MAX,
                since,
                mark,
            });
        }
    }

    /// What was written from `start` on is whole: it is encrypted where the connection is.
    #[inline]
    pub(super) fn sealed(&mut self, start: usize) {
        self.seal(start);
        let end = self.out.len();
        if let Some(last) = self.timed.last_mut() {
            last.end = last.end.min(end);
        }
    }

    /// Encrypts what TLS has not yet, and writes without waiting; true if any byte left.
    pub(super) fn send<S: Service>(&mut self, net: &Net<S>, room: &mut Room) -> bool {
        self.seal_tls(room);
        let sent = self.write(net);
        if self.sent >= OUT_BYTES_HIGH.max(self.out.len() / 2) {
            self.forget_sent();
        }
        sent
    }

    /// Writes what may leave, and tells the service of the measured answers that have left: their ends mean nothing once the
    /// buffer begins anew. True if any byte left.
    fn write<S: Service>(&mut self, net: &Net<S>) -> bool {
        let sent = self.flush();
        if self.timed.is_empty() {
            return sent;
        }
        let left = match self.unsent() {
            0 => self.timed.len(),
            _ => self.timed.partition_point(|timed| timed.end <= self.sent),
        };
        for timed in self.timed.drain(..left) {
            net.service.written(timed.mark, timed.since);
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

    /// Whether the peer may be owed another answer; one that is owed too much without taking it is cut off.
    pub(super) fn may_owe<S: Service>(&mut self, net: &Net<S>, bytes: usize) -> bool {
        let limit = net.options.owed_bytes_max;
        let fits = |connection: &Connection| {
            let unsent = connection.unsent();
            unsent == 0 || unsent.saturating_add(bytes) <= limit
        };
        if fits(self) {
            return true;
        }
        // The kernel may have room by now.
        self.write(net);
        if fits(self) {
            return true;
        }
        let (peer, owed) = (self.peer, self.unsent() + bytes);
        if let Some(LeftOut(left_out)) = net.counters.quiet.admits(Cause::SlowReader) {
            tracing::info!(%peer, owed, limit, left_out, "connection closed: its peer does not read its answers (server.write_buffer_bytes_max)");
        }
        net.counters.overfull_readers.fetch_add(1, Ordering::Relaxed);
        self.cut_off();
        false
    }

    /// Ends with all that waits for its peer: of all connections it keeps most, and too much is kept.
    pub(crate) fn give_way<S>(&mut self, net: &Net<S>) {
        let (peer, bytes) = (self.peer, self.kept.kept);
        let limit = net.mailbox.totals().write_bytes_max();
        if let Some(LeftOut(left_out)) = net.counters.quiet.admits(Cause::WriteBuffers) {
            tracing::info!(%peer, bytes, limit, left_out, "connection closed: its peer reads least while too much waits for all peers (server.write_buffers_total_bytes_max)");
        }
        net.counters.write_buffers_cut.fetch_add(1, Ordering::Relaxed);
        self.cut_off();
    }

    /// Ends because there was no place for one of its answers.
    pub(crate) fn miss_answer<S>(&mut self, net: &Net<S>, bytes: usize) {
        let (peer, limit) = (self.peer, net.mailbox.totals().write_bytes_max());
        if let Some(LeftOut(left_out)) = net.counters.quiet.admits(Cause::WriteBuffers) {
            tracing::info!(%peer, bytes, limit, left_out, "connection closed: no place for its answer while too much waits for all peers (server.write_buffers_total_bytes_max)");
        }
        net.counters.write_buffers_cut.fetch_add(1, Ordering::Relaxed);
        self.cut_off();
    }

    /// Nothing more is sent, nor what the kernel has of it.
    fn cut_off(&mut self) {
        self.reset_at_end();
        (self.out, self.sent, self.timed) = (Vec::new(), 0, Vec::new());
        self.forget_sealed(usize::MAX);
        self.flags.broken = true;
        self.tell_gone();
    }

    /// Has the kernel drop what its peer did not take as soon as the socket is closed. It would keep megabytes of it else, and go on
    /// asking the peer whether there is room: of thousands of such peers that is what delays everybody else.
    pub(super) fn reset_at_end(&self) {
        // A Unix socket has no such thing, and needs none.
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }
}

/// An empty buffer is the thread's again, unless it has one or this one is large.
fn give_back(out: Vec<u8>, room: &mut Room) {
    if room.out.capacity() == 0 && out.capacity() <= OUT_BYTES_KEPT {
        room.out = out;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::connection::rig::Rig;
    use crate::mailbox::Delivery;
    use std::io::Read as _;

    #[test]
    fn an_answer_is_told_written_when_it_has_left_whatever_waits_behind_it() {
        const BYTES: usize = 50_000;
        const ANSWERS: u16 = 40;
        let Rig {
            mut connection,
            mut theirs,
            net,
            mut room,
        } = Rig::connected();
        for mark in 0..ANSWERS {
            let start = connection.out.len();
            connection.out.extend([7; BYTES]);
            connection.measure(start, Some((Instant::now(), mark)));
            connection.sealed(start);
        }
        let mut chunk = vec![0; 32 << 10];
        loop {
            connection.flags.writable = true;
            connection.send(&net, &mut room);
            let left = ANSWERS as usize * BYTES - connection.unsent();
            assert!(left > 0);
            let expected: Vec<u16> = (0..(left / BYTES) as u16).collect();
            assert_eq!(*net.service.0.lock().unwrap(), expected, "{left} bytes have left");
            if connection.unsent() == 0 {
                return;
            }
            theirs.read_exact(&mut chunk).unwrap();
        }
    }

    #[test]
    fn answers_that_left_to_make_place_for_another_are_told_written_then() {
        let Rig {
            mut connection,
            mut theirs,
            net,
            mut room,
        } = Rig::connected();
        const PIECE: usize = 10_000;
        let (mut answers, mut sent) = (0, 0);
        while connection.unsent() == 0 {
            let start = connection.out.len();
            connection.out.resize(start + PIECE, 7);
            connection.measure(start, Some((Instant::now(), answers)));
            connection.sealed(start);
            connection.send(&net, &mut room);
            answers += 1;
            sent = usize::from(answers) * PIECE - connection.unsent();
        }
        let told: Vec<u16> = (0..answers - 1).collect();
        assert_eq!(*net.service.0.lock().unwrap(), told, "one waits");
        theirs.read_exact(&mut vec![0; sent]).unwrap();
        connection.flags.writable = true;
        // More than fits beside what waits, and more than the kernel takes at a time.
        let next = Delivery {
            key: connection.key(),
            bytes: vec![8; net.options.owed_bytes_max],
            close: false,
            ready: Some((Instant::now(), answers)),
        };
        connection.deliver(&next, &net, &mut room);
        let told: Vec<u16> = (0..answers).collect();
        assert_eq!(*net.service.0.lock().unwrap(), told);
        connection.send(&net, &mut room);
        assert!(connection.unsent() > 0 && !connection.flags.broken);
        assert_eq!(*net.service.0.lock().unwrap(), told, "the last one waits");
    }

    #[test]
    fn a_peer_that_is_always_behind_gets_all_and_nothing_is_kept_that_was_sent() {
        let byte = |at: usize| (at % 251) as u8;
        let Rig {
            mut connection,
            mut theirs,
            net,
            mut room,
        } = Rig::connected();
        let (mut written, mut read, mut chunk) = (0, 0, vec![0; 32 << 10]);
        while read < 30 << 20 {
            // Always more than the kernel takes at a time.
            let more = 4 * OUT_BYTES_HIGH - connection.unsent();
            connection.out.extend((written..written + more).map(byte));
            written += more;
            connection.flags.writable = true;
            connection.send(&net, &mut room);
            assert!(connection.unsent() > 0, "the peer has caught up");
            let kept = connection.out.len();
            assert!(kept <= 9 * OUT_BYTES_HIGH, "{kept} bytes are kept");
            let count = theirs.read(&mut chunk).unwrap();
            let wrong = (chunk[..count].iter().zip(read..)).find(|(found, at)| **found != byte(*at));
            assert_eq!(wrong, None);
            read += count;
        }
    }
}
