//! What a connection holds of requests that have not come whole: room for it, and its share of what all connections may hold.
//!
//! It reads and serves nothing. Its invariants: a connection that holds little is counted nowhere and refused nothing, however
//! much others hold; everything else that one keeps of its requests is counted; and what is counted for a connection is taken
//! back when it ends.

use super::{Connection, Phase};
use crate::net_thread::{Net, Room, SCRATCH_BYTES};
use crate::quiet::{self, limited};
use crate::session::Turn;
use std::sync::atomic::Ordering;

/// Bytes that each connection may hold whatever the others do: requests of that size come in pieces at any time.
pub(crate) const UNCOUNTED_BYTES: usize = 8 << 10;

impl<L> Connection<L> {
    /// Makes room behind an unfinished request for so many bytes more: doubled like any Vec, but not far past what the request
    /// is known to need.
    pub(super) fn make_room(&mut self, bytes: usize) {
        let (len, capacity) = (self.input.len(), self.input.capacity());
        let wanted = len + bytes;
        if len == 0 || wanted <= capacity {
            return;
        }
        let most = match self.needed {
            needed if needed > len => needed.saturating_add(SCRATCH_BYTES),
            _ => usize::MAX,
        };
        let room = (2 * capacity).min(most).max(wanted);
        self.input.reserve_exact(room - len);
    }

    /// Bytes of memory that hold what has not come whole, or is not served yet.
    fn held(&self) -> usize {
        let sealed = self.link.layer.as_ref().map_or(0, |layer| layer.held_bytes());
        self.input.capacity() + sealed + self.session.held_bytes()
    }

    /// Counts what it holds beyond a little among what all connections hold. Where that is too much, a connection that came to
    /// hold more is told so, as far as its protocol has a way, and closed.
    pub(super) fn count_held(&mut self, net: &Net, room: &mut Room) {
        let held = self.held().saturating_sub(UNCOUNTED_BYTES);
        if held == self.counted {
            return;
        }
        let total = &net.counters.unfinished_bytes;
        if held < self.counted {
            total.fetch_sub((self.counted - held) as u64, Ordering::Relaxed);
            self.counted = held;
            return;
        }
        let more = (held - self.counted) as u64;
        self.counted = held;
        let before = total.fetch_add(more, Ordering::Relaxed);
        let is_over = before.saturating_add(more) > net.options.unfinished_bytes_max as u64;
        if is_over && self.link.phase == Phase::Open {
            self.refuse_unfinished(net, room);
            self.count_held(net, room);
        }
    }

    /// What was counted for it is held no more.
    pub(super) fn uncount_held(&self, net: &Net) {
        if self.counted > 0 {
            let total = &net.counters.unfinished_bytes;
            total.fetch_sub(self.counted as u64, Ordering::Relaxed);
        }
    }

    /// Says that there is no room for the rest of its request, and lets go of what has come of it.
    fn refuse_unfinished(&mut self, net: &Net, room: &mut Room) {
        net.counters.unfinished_refused.fetch_add(1, Ordering::Relaxed);
        let (peer, bytes, limit) = (self.link.peer, self.held(), net.options.unfinished_bytes_max);
        limited!(info, net.counters.quiet, quiet::UNFINISHED, [%peer, bytes, limit], "connection closed: too much is held of requests that are not whole");
        let why = format!(
            "requests that have not come whole hold {limit} bytes over all connections, and there is no room for the rest of this one; \
             try again later, or {}",
            net.options.hints.unfinished
        );
        let (input, scratch) = (std::mem::take(&mut self.input), &mut room.scratch);
        let link = &mut self.link;
        self.session
            .refuse(&mut Turn { net, link, scratch }, &input, &why);
        self.link.enter(Phase::Draining);
        self.needed = 0;
        if let Some(layer) = &mut self.link.layer {
            layer.forget_held();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::rig::{CALL, FRAGMENT, ONEWAY, Rig, message};
    use super::*;
    use crate::connection::After;
    use std::io::Write as _;
    use std::sync::atomic::AtomicU64;

    const BOUND: usize = 1 << 20;

    /// A call of `bytes` bytes and a little more.
    fn call(bytes: usize) -> Vec<u8> {
        message(CALL, &vec![b' '; bytes])
    }

    fn bounded(mut rig: Rig) -> Rig {
        rig.net.options.unfinished_bytes_max = BOUND;
        rig
    }

    impl Rig {
        /// Sends in pieces, with turns between, until all is sent or it ends; the last turn.
        fn sends(&mut self, bytes: &[u8]) -> After {
            let mut turn = After::Wait;
            for piece in bytes.chunks(50_000) {
                if turn == After::Wait {
                    self.theirs.write_all(piece).unwrap();
                    turn = self.turns(0);
                }
            }
            turn
        }

        fn counted(&self, counter: impl Fn(&crate::Counters) -> &AtomicU64) -> u64 {
            counter(&self.net.counters).load(Ordering::Relaxed)
        }
    }

    fn check(mut rig: Rig, bytes: &[u8]) -> Vec<u8> {
        assert_eq!(rig.sends(bytes), After::Linger);
        assert_eq!(rig.counted(|counters| &counters.unfinished_refused), 1);
        assert_eq!(rig.counted(|counters| &counters.unfinished_bytes), 0);
        assert_eq!(rig.connection.held(), 0);
        rig.read_answers()
    }

    #[test]
    fn what_would_grow_beyond_the_bound_is_told_so_and_closed() {
        let fragments = message(FRAGMENT, &[7; 100_000]).repeat(40);
        for (rig, bytes) in [(Rig::connected(), call(4 << 20)), (Rig::upgraded(), fragments)] {
            let said = String::from_utf8(check(bounded(rig), &bytes)).unwrap();
            assert!(said.contains("1048576 bytes"), "{said}");
        }
        let oneway = message(ONEWAY, &vec![0xc0; 4 << 20]);
        assert_eq!(check(bounded(Rig::connected()), &oneway), b"");
    }

    #[test]
    fn what_others_hold_keeps_no_small_request_out() {
        let mut rig = bounded(Rig::connected());
        rig.net
            .counters
            .unfinished_bytes
            .store(BOUND as u64, Ordering::Relaxed);
        let small = call(7_000);
        for _ in 0..20 {
            for piece in small.chunks(1_000) {
                assert_eq!(rig.sends(piece), After::Wait);
            }
            assert!(!rig.read_answers().is_empty());
        }
        assert_eq!(rig.counted(|counters| &counters.unfinished_bytes), BOUND as u64);
    }

    #[test]
    fn what_is_counted_is_taken_back_when_the_request_is_whole_and_when_its_peer_goes() {
        let mut rig = bounded(Rig::connected());
        let request = call(700_000);
        let (most, rest) = request.split_at(600_000);
        for _ in 0..5 {
            assert_eq!(rig.sends(most), After::Wait);
            let counted = rig.counted(|counters| &counters.unfinished_bytes);
            assert!((600_000 - UNCOUNTED_BYTES as u64..BOUND as u64).contains(&counted));
            assert_eq!(rig.sends(rest), After::Wait);
            assert_eq!(rig.counted(|counters| &counters.unfinished_bytes), 0);
            assert!(!rig.read_answers().is_empty());
        }
        rig.sends(most);
        let Rig { connection, net, .. } = rig;
        connection.ended(&net);
        assert_eq!(net.counters.unfinished_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn room_is_made_for_what_a_request_needs_and_not_for_twice_as_much() {
        let mut rig = Rig::connected();
        let request = call(5 << 20);
        rig.sends(&request[..request.len() - 1]);
        let room = rig.connection.input.capacity();
        assert!(
            (request.len() - 1..=request.len() + SCRATCH_BYTES).contains(&room),
            "{room}"
        );
    }
}
