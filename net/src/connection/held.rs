//! Partial requests: the memory of each connection's, and the bound of all.
//!
//! It reads and serves nothing. Its invariants: a connection with less than [`UNCOUNTED_BYTES`] is never refused, however
//! much others hold; every further byte is counted until it is freed or its connection ends.

use super::{Connection, Phase};
use crate::net_thread::{Buffers, Kind, Net, SCRATCH_BYTES};
use crate::quiet::{self, limited};
use crate::session::{Local, Turn};
use std::sync::atomic::Ordering;

/// Bytes that each connection may hold whatever the others do: small requests come in pieces at any time.
pub(crate) const UNCOUNTED_BYTES: usize = 8 << 10;

impl<L: Local> Connection<L> {
    /// Reserves so many bytes behind a partial request: doubling like any Vec, but not far past what the request needs.
    pub(super) fn reserve(&mut self, bytes: usize) {
        let (len, capacity) = (self.input.len(), self.input.capacity());
        let wanted = len + bytes;
        if len == 0 || wanted <= capacity {
            return;
        }
        let most = match self.needed {
            needed if needed > len => needed.saturating_add(SCRATCH_BYTES),
            _ => usize::MAX,
        };
        let reserved = (2 * capacity).min(most).max(wanted);
        self.input.reserve_exact(reserved - len);
    }

    /// Bytes of memory that hold messages not complete, or not served yet.
    fn held(&self) -> usize {
        let sealed = self.link.layer.as_ref().map_or(0, |layer| layer.held_bytes());
        self.input.capacity() + sealed + self.session.held_bytes()
    }

    /// Counts what it holds. Where all connections hold too much, one that came to hold more is refused and closed.
    pub(super) fn count_held(&mut self, net: &Net, buffers: &mut Buffers) {
        let held = self.held().saturating_sub(UNCOUNTED_BYTES);
        if held == self.counted {
            return;
        }
        let total = &net.counters.partial_bytes;
        if held < self.counted {
            total.fetch_sub((self.counted - held) as u64, Ordering::Relaxed);
            self.counted = held;
            return;
        }
        let more = (held - self.counted) as u64;
        self.counted = held;
        let before = total.fetch_add(more, Ordering::Relaxed);
        // What this side has opened brings answers, which it asked for.
        let is_own = matches!(self.link.kind, Kind::Opened(_));
        let is_over = !is_own && before.saturating_add(more) > net.options.partial_bytes_max as u64;
        if is_over && self.link.phase == Phase::Open {
            self.refuse_partial(net, buffers);
            self.count_held(net, buffers);
        }
    }

    /// Counts it out.
    pub(super) fn uncount_held(&self, net: &Net) {
        if self.counted > 0 {
            let total = &net.counters.partial_bytes;
            total.fetch_sub(self.counted as u64, Ordering::Relaxed);
        }
    }

    /// Refuses the rest of its request and frees what has come of it.
    fn refuse_partial(&mut self, net: &Net, buffers: &mut Buffers) {
        net.counters.partial_refused.fetch_add(1, Ordering::Relaxed);
        let (peer, bytes, limit) = (self.link.peer, self.held(), net.options.partial_bytes_max);
        limited!(info, net.counters.quiet, quiet::PARTIAL, [%peer, bytes, limit], "connection closed: too much is held of requests that are not whole");
        let why = format!(
            "requests that have not come whole hold {limit} bytes over all connections, and there is no room for the rest of this one; \
             try again later, or {}",
            net.options.hints.partial_requests
        );
        let (input, scratch) = (std::mem::take(&mut self.input), &mut buffers.scratch);
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
    use super::super::INPUT_SPARE_BYTES;
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
        rig.net.options.partial_bytes_max = BOUND;
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
        assert_eq!(rig.counted(|counters| &counters.partial_refused), 1);
        assert_eq!(rig.counted(|counters| &counters.partial_bytes), 0);
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
            .partial_bytes
            .store(BOUND as u64, Ordering::Relaxed);
        let small = call(7_000);
        for _ in 0..20 {
            for piece in small.chunks(1_000) {
                assert_eq!(rig.sends(piece), After::Wait);
            }
            assert!(!rig.read_answers().is_empty());
        }
        assert_eq!(rig.counted(|counters| &counters.partial_bytes), BOUND as u64);
    }

    #[test]
    fn what_is_counted_is_taken_back_when_the_request_is_whole_and_when_its_peer_goes() {
        let mut rig = bounded(Rig::connected());
        let request = call(700_000);
        let (most, rest) = request.split_at(600_000);
        for _ in 0..5 {
            assert_eq!(rig.sends(most), After::Wait);
            let counted = rig.counted(|counters| &counters.partial_bytes);
            assert!((600_000 - UNCOUNTED_BYTES as u64..BOUND as u64).contains(&counted));
            assert_eq!(rig.sends(rest), After::Wait);
            assert_eq!(rig.counted(|counters| &counters.partial_bytes), 0);
            assert!(!rig.read_answers().is_empty());
        }
        rig.sends(most);
        let Rig { connection, net, .. } = rig;
        connection.ended(&net);
        assert_eq!(net.counters.partial_bytes.load(Ordering::Relaxed), 0);
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

    #[test]
    fn room_for_a_large_request_is_given_back_with_a_byte_of_the_next_behind_it() {
        const LARGE: usize = 6 << 20;
        let mut bytes = message(ONEWAY, &vec![0xc0; LARGE]);
        // The first byte of the next.
        bytes.push(bytes[0]);
        let mut rig = Rig::connected();
        let mut held = 0;
        for piece in bytes.chunks(50_000) {
            rig.theirs.write_all(piece).unwrap();
            rig.turns(0);
            held = held.max(rig.connection.input.capacity());
        }
        assert!(held > LARGE, "the request was never held: {held} bytes");
        assert_eq!(rig.connection.input.len(), 1);
        let kept = rig.connection.input.capacity();
        assert!(kept <= 2 + INPUT_SPARE_BYTES, "one byte keeps {kept}");
    }
}
