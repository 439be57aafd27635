//! The ends of a connection: its closing messages, and the notice to its calls.
//!
//! Its invariant: nothing is sent after the closing message, and every call of a connection that is gone can see it.

use super::{After, Connection, Phase};
use crate::net_thread::{Buffers, Kind, Net};
use crate::quiet::{self, limited};
use crate::session::{Goodbye, Local, Turn};
use crate::timers::Overdue;
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::sync::atomic::Ordering;

impl<L: Local> Connection<L> {
    /// Everything is sent: ends the stream, and leaves a peer that has not closed itself time to read.
    pub(super) fn finish(&mut self, net: &Net, buffers: &mut Buffers) -> After {
        self.link.end_layer();
        // Where this side opened it, no answer could be lost, and its calls are to hear at once that none comes.
        let is_own = matches!(self.link.kind, Kind::Opened(_));
        if self.has_ended || is_own || rustix::net::shutdown(&self.link.socket, Shutdown::Write).is_err() {
            return After::End;
        }
        self.link.phase = Phase::Lingering;
        self.tell_gone();
        self.input = Vec::new();
        self.count_held(net, buffers);
        self.is_due = true;
        After::Linger
    }

    /// Closes the connection, with a closing message that says why if its protocol has one. The peer has a moment to read it if
    /// the kernel takes all of it now. In a stop every peer that got all answers has that moment: it may be sending, and a
    /// reset would take answers from it.
    pub(crate) fn part(&mut self, net: &Net, buffers: &mut Buffers, why: Goodbye) -> After {
        if why == Goodbye::Overdue(Overdue::Write) {
            self.link.reset_at_end();
        }
        let (phase, has_last_word) = (self.link.phase, self.session.has_last_word());
        let is_stop = why == Goodbye::Stop;
        if is_stop && phase == Phase::Lingering {
            return After::Wait;
        }
        if has_last_word && phase == Phase::Open {
            self.session.give_up();
            self.link.borrow_out(buffers);
            let (link, scratch) = (&mut self.link, &mut buffers.scratch);
            self.session.part(&mut Turn { net, link, scratch }, why);
            self.link.send(buffers);
            self.link.give_out_back(buffers);
        } else if has_last_word || !is_stop || self.link.in_flight > 0 {
            return After::End;
        }
        if self.link.phase == Phase::Broken || self.link.unsent() > 0 {
            return After::End;
        }
        self.finish(net, buffers)
    }

    /// Throws away what the peer still sends.
    pub(super) fn discard(&mut self, buffers: &mut Buffers) -> After {
        match self.link.receive(&mut buffers.read) {
            Ok(1..) => {
                self.is_due = true;
                After::Again
            }
            Err(Errno::AGAIN | Errno::INTR) => After::Wait,
            Ok(0) | Err(_) => After::End,
        }
    }

    /// The peer has sent its last byte.
    pub(super) fn tell_end(&mut self) {
        self.has_ended = true;
        if self.link.is_opening || self.is_gone {
            // Its handshake cannot end, or nobody reads: what waits for that never leaves.
            self.link.phase = Phase::Broken;
        }
        self.session.give_up();
        if self.session.has_last_word() {
            self.tell_gone();
        }
    }

    /// Nobody takes answers any more, nor those of calls that are still to be served.
    pub(super) fn tell_gone(&mut self) {
        self.session.give_up();
        self.link.tell_gone();
    }

    /// It is over: notifies its calls, and logs a request that was cut short.
    pub(crate) fn ended(mut self, net: &Net) {
        self.link.end_layer();
        let link = &self.link;
        tracing::trace!(peer = %link.peer, connection = link.key.generation, "connection closed");
        let in_the_middle = self.has_ended && link.phase != Phase::Broken && !self.input.is_empty();
        if in_the_middle && link.kind == Kind::Served {
            let (peer, bytes) = (link.peer, self.input.len());
            limited!(info, net.counters.quiet, quiet::CUT_SHORT, [%peer, bytes], "connection closed by its peer in the middle of a request");
            net.counters.malformed.fetch_add(1, Ordering::Relaxed);
        }
        self.lost(net);
    }

    /// It is over in the middle of a turn: notifies its calls, and sends nothing.
    pub(crate) fn lost(mut self, net: &Net) {
        self.uncount_held(net);
        self.tell_gone();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::rig::{CALL, Nothing, Rig, message};
    use super::*;
    use crate::mailbox::{Delivery, What};
    use crate::session::{Received, Session};
    use std::cell::Cell;
    use std::io::{Read as _, Write as _};
    use std::rc::Rc;

    /// Counts calls of `give_up`.
    struct Told(Rc<Cell<u32>>);

    impl<S> Session<S> for Told {
        fn receive(&mut self, _: &S, _: &mut Turn<'_>, input: &[u8]) -> Received<S> {
            Received::Served(input.len())
        }

        fn is_full(&self, _: usize) -> bool {
            false
        }

        fn refuse(&mut self, _: &mut Turn<'_>, _: &[u8], _: &str) {}

        fn give_up(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn a_connection_that_this_side_opened_does_not_linger() {
        let check = |kind, expected| {
            let mut rig = Rig::connected();
            rig.connection.link.kind = kind;
            let after = rig.connection.part(&rig.net, &mut rig.buffers, Goodbye::Stop);
            assert_eq!(after, expected, "{kind:?}");
        };
        check(Kind::Served, After::Linger);
        check(Kind::Opened(1), After::End);
    }

    #[test]
    fn a_push_that_comes_after_the_peers_end_is_given_up() {
        let told = Rc::<Cell<u32>>::default();
        let Rig {
            mut connection,
            net,
            mut buffers,
            theirs: _theirs,
        } = Rig::connected();
        connection.session = Box::new(Told(Rc::clone(&told)));
        let push = |connection: &Connection<_>| Delivery {
            key: connection.link.key,
            bytes: b"push".to_vec(),
            what: What::Push { wake_at: None },
        };
        connection.deliver(push(&connection), &net, &mut buffers);
        assert_eq!((told.get(), connection.link.unsent()), (0, 4));
        connection.has_ended = true;
        connection.deliver(push(&connection), &net, &mut buffers);
        assert_eq!((told.get(), connection.link.unsent()), (1, 4));
    }

    #[test]
    fn the_last_word_is_the_last_that_is_said() {
        let mut rig = Rig::upgraded();
        rig.connection.link.in_flight = 1;
        let turn = rig
            .connection
            .part(&rig.net, &mut rig.buffers, Goodbye::Overdue(Overdue::Request));
        assert_eq!(turn, After::Linger);
        // An answer that comes too late.
        let late = Delivery {
            key: rig.connection.link.key,
            bytes: b"late".to_vec(),
            what: What::Answer {
                close: false,
                ready: None,
            },
        };
        rig.connection.deliver(late, &rig.net, &mut rig.buffers);
        assert_eq!(rig.turns(1), After::Wait);
        assert_eq!(rig.connection.link.unsent(), 0);
        let mut said = Vec::new();
        rig.theirs.read_to_end(&mut said).unwrap();
        assert_eq!(said, b"Overdue(Request)");
        let again = rig.connection.part(&rig.net, &mut rig.buffers, Goodbye::Stop);
        assert_eq!(again, After::Wait, "it is said once");
    }

    #[test]
    fn a_peer_that_reads_nothing_is_not_waited_for() {
        let mut rig = Rig::upgraded();
        rig.connection.link.out = vec![7; 4 << 20];
        assert_eq!(rig.turns(1), After::Wait);
        assert!(rig.connection.link.unsent() > 0);
        let turn = rig
            .connection
            .part(&rig.net, &mut rig.buffers, Goodbye::Overdue(Overdue::Write));
        assert_eq!(turn, After::End);
    }

    #[test]
    fn nobody_is_told_without_a_last_word() {
        let mut rig = Rig::connected();
        let overdue = Goodbye::Overdue(Overdue::Idle);
        let turn = rig.connection.part(&rig.net, &mut rig.buffers, overdue);
        assert_eq!(turn, After::End);
        assert_eq!(rig.read_answers(), b"");
    }

    #[test]
    fn a_stop_reads_on_until_its_peer_goes() {
        let mut rig = Rig::connected();
        let turn = rig.connection.part(&rig.net, &mut rig.buffers, Goodbye::Stop);
        assert_eq!(turn, After::Linger);
        // What comes too late does no harm: the peer reads the end of the stream, no reset.
        rig.theirs.write_all(b"too late").unwrap();
        assert_eq!(rig.turns(1), After::Wait);
        assert_eq!(rig.theirs.read(&mut [0; 8]).unwrap(), 0);
        let again = rig.connection.part(&rig.net, &mut rig.buffers, Goodbye::Stop);
        assert_eq!(again, After::Wait, "it goes on for as long as it may");
        drop(rig.theirs.shutdown(std::net::Shutdown::Both));
        assert_eq!(rig.turns(2), After::End);
    }

    #[test]
    fn a_stop_waits_for_requests_that_were_read_and_not_served() {
        const CALLS: usize = 300;
        let mut rig = Rig::connected();
        rig.theirs.write_all(&message(CALL, b"").repeat(CALLS)).unwrap();
        rig.note_ready();
        rig.connection.look_again();
        let mut turns = 1;
        while rig.connection.turn(&Nothing, &rig.net, &mut rig.buffers, 0) == After::Again {
            assert!(!rig.connection.is_quiet(), "after {turns} turns");
            turns += 1;
        }
        assert!(turns > 1 && rig.connection.is_quiet());
        assert_eq!(rig.read_answers(), b"answer".repeat(CALLS));
    }
}
