//! How long a connection's peer has kept this server waiting, in whole seconds of its thread's clock.
//!
//! It reads no clock and closes nothing: turns note what they did, sweeps read it. Its invariant: the time of a request
//! counts from its first byte, as long as this server would read the next. A message in fragments is one request, and what may
//! stand between them (a ping, its pong) gives it no more time.

use super::Connection;
use crate::net_thread::Kind;
use crate::session::Local;
use crate::timers::{Overdue, Timeouts};

impl<L: Local> Connection<L> {
    /// Takes down what came of a turn; `active` if a byte left, or anything was served.
    pub(super) fn age(&mut self, now_s: u32, active: bool) {
        if active {
            self.ages.active_s = now_s;
        }
        let unsent = self.link.unsent() > 0;
        self.ages.stuck_s = unsent.then_some(match self.ages.stuck_s {
            Some(since) if !active => since,
            _ => now_s,
        });
        let another = std::mem::take(&mut self.link.has_served);
        let begun = self.ages.partial_s.filter(|_| !another);
        self.ages.partial_s = self.awaits_rest().then(|| begun.unwrap_or(now_s));
    }

    /// Whether the peer is late with the rest of a request or of its layer's handshake.
    fn awaits_rest(&self) -> bool {
        // What waits for this server alone is no request that the peer is late with.
        let layer = self.link.layer.as_ref();
        let part = (!self.input.is_empty() && self.input.len() < self.needed)
            || layer.is_some_and(|layer| layer.held_bytes() > 0);
        (part && self.wants_bytes())
            || self.link.is_shaking()
            // Pongs that nobody reads are no reason to hold fragments longer.
            || (self.session.is_partial() && !self.session.is_full(self.link.in_flight))
    }

    /// Since when it has neither asked nor been answered, then its age; nothing while calls are in flight, or if it is not served.
    /// A partial request is no request.
    pub(crate) fn idle_since(&self) -> Option<(u32, u64)> {
        let is_served = self.link.kind == Kind::Served && !self.lingers();
        (is_served && self.link.in_flight == 0).then_some((self.ages.active_s, self.link.key.generation))
    }

    /// For what its peer's time is up.
    pub(crate) fn overdue(&self, timeouts: &Timeouts, now_s: u32) -> Option<Overdue> {
        if self.link.kind != Kind::Served || self.lingers() {
            return None;
        }
        let works = self.link.in_flight > 0 || self.session.awaits_peer();
        self.ages.overdue(timeouts, now_s, works)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::link::OUT_BYTES_HIGH;
    use super::super::rig::{CALL, FRAGMENT, IN_FLIGHT_MAX, PING, Rig, message};
    use super::*;
    use std::io::{Read as _, Write as _};

    /// Half a minute for a request; the others are not what is tried here.
    const TIMEOUTS: Timeouts = Timeouts {
        idle: std::time::Duration::ZERO,
        request: std::time::Duration::from_secs(30),
        write: std::time::Duration::from_secs(1000),
    };

    impl Rig {
        /// Lets so much come, gives it turns until it is read, and says for what the peer's time is up.
        fn hears(&mut self, bytes: &[u8], now_s: u32) -> Option<Overdue> {
            self.theirs.write_all(bytes).unwrap();
            self.turns(now_s);
            self.connection.overdue(&TIMEOUTS, now_s)
        }
    }

    fn call() -> Vec<u8> {
        message(CALL, &[0x80; 10])
    }

    /// A call in three fragments.
    fn fragments() -> [Vec<u8>; 3] {
        [FRAGMENT, FRAGMENT, CALL].map(|kind| message(kind, &[7; 5]))
    }

    fn ping() -> Vec<u8> {
        message(PING, b"")
    }

    #[test]
    fn neither_fragments_nor_pings_give_a_message_more_time() {
        let mut rig = Rig::upgraded();
        let [first, second, third] = fragments();
        let nothing_more = message(FRAGMENT, b"");
        assert_eq!(rig.hears(&first, 100), None);
        assert_eq!(rig.hears(&second, 110), None);
        for now_s in 111..=130 {
            assert_eq!(rig.hears(&ping(), now_s), None);
            assert_eq!(rig.hears(&nothing_more, now_s), None);
            assert!(!rig.read_answers().is_empty(), "a ping is answered");
        }
        // The rest of a frame that has not come is no excuse either.
        assert_eq!(rig.hears(&ping()[..3], 130), None);
        assert_eq!(rig.hears(&ping()[3..], 131), Some(Overdue::Request));
        assert_eq!(rig.hears(&third, 131), None, "it is whole");
        assert_eq!(rig.connection.overdue(&TIMEOUTS, 1000), None);
    }

    #[test]
    fn each_message_has_its_own_time() {
        let mut rig = Rig::upgraded();
        let [first, second, third] = fragments();
        assert_eq!(rig.hears(&[first.clone(), second.clone()].concat(), 100), None);
        // The end of one and the beginning of the next in one turn.
        assert_eq!(rig.hears(&[third, first].concat(), 125), None);
        assert_eq!(rig.hears(&second, 155), None);
        assert_eq!(rig.connection.overdue(&TIMEOUTS, 156), Some(Overdue::Request));
    }

    #[test]
    fn a_message_waits_as_long_as_this_server_does_not_read() {
        let mut rig = Rig::upgraded();
        let [first, second, _] = fragments();
        assert_eq!(rig.hears(&first, 100), None);
        rig.connection.link.in_flight = IN_FLIGHT_MAX;
        assert_eq!(rig.hears(&second, 101), None);
        assert_eq!(rig.connection.overdue(&TIMEOUTS, 500), None);
        rig.connection.link.in_flight = 0;
        rig.turns(500);
        assert_eq!(rig.connection.overdue(&TIMEOUTS, 530), None);
        assert_eq!(rig.connection.overdue(&TIMEOUTS, 531), Some(Overdue::Request));
    }

    #[test]
    fn pongs_that_nobody_reads_give_a_message_no_more_time() {
        let mut rig = Rig::upgraded();
        let [first, ..] = fragments();
        assert_eq!(rig.hears(&first, 100), None);
        let pings = message(PING, &[7; 125]).repeat(100);
        let mut now_s = 100;
        while rig.connection.link.unsent() < OUT_BYTES_HIGH {
            now_s = (now_s + 1).min(130);
            assert_eq!(rig.hears(&pings, now_s), None);
        }
        // A little is read, and taken for a sign of life.
        rig.theirs.read_exact(&mut vec![0; 100_000]).unwrap();
        rig.turns(131);
        assert!(rig.connection.link.unsent() > 0);
        assert_eq!(rig.connection.ages.stuck_s, Some(131));
        assert_eq!(rig.connection.overdue(&TIMEOUTS, 131), Some(Overdue::Request));
    }

    #[test]
    fn an_answer_that_leaves_gives_a_frame_no_more_time() {
        let mut rig = Rig::connected();
        let call = call();
        assert_eq!(rig.hears(&call[..10], 100), None);
        // An answer to a call before it.
        rig.connection.link.out.extend_from_slice(&[0; 64]);
        assert_eq!(rig.hears(&call[10..12], 120), None);
        assert_eq!(rig.read_answers().len(), 64);
        assert_eq!(rig.connection.overdue(&TIMEOUTS, 131), Some(Overdue::Request));
        let two = [&call[12..], &call[..10]].concat();
        assert_eq!(rig.hears(&two, 131), None, "it is whole, and another has begun");
        assert_eq!(rig.connection.overdue(&TIMEOUTS, 161), None);
        assert_eq!(rig.connection.overdue(&TIMEOUTS, 162), Some(Overdue::Request));
    }
}
