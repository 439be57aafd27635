//! The turns of the connections that are due: several are served, and then the answers of all of them are sent.
//!
//! So the caches stay with one kind of work at a time, and a peer with many connections is woken once for the answers on
//! all of them. Its invariants: a group that has enough connections, messages, bytes or time takes no further connection; one that
//! is due alone is served and sent to at once, and answers do not wait for one whose last calls took long; whatever becomes of one connection, the others of its group get their
//! answers.

use super::Loop;
use super::buffers::TURNS_TOGETHER;
use crate::connection::Served;
use crate::session::Local;
use std::time::{Duration, Instant};

/// Messages of a group beyond which it takes no further connection.
const MESSAGES_TOGETHER: usize = 32;
/// Unsent bytes of a group beyond which it takes no further connection: small enough for the caches to hold until they leave.
const TOGETHER_BYTES: usize = 64 << 10;
/// The time of calls that take long, as they have the clock read, beyond which their group takes no further connection.
const TOGETHER_MAX: Duration = Duration::from_micros(200);

/// Connections that were served and are to be sent to.
pub(super) struct Group {
    /// Their slots, in the order of their turns, and whether anything was served.
    slots: Vec<(usize, bool)>,
    messages: usize,
    bytes: usize,
    /// When the clock was last read before the first was served.
    began: Option<Instant>,
}

impl Group {
    pub(super) fn new() -> Group {
        Group {
            slots: Vec::with_capacity(TURNS_TOGETHER),
            messages: 0,
            bytes: 0,
            began: None,
        }
    }

    fn add(&mut self, slot: usize, served: &Served) {
        self.slots.push((slot, served.messages > 0));
        self.messages += served.messages;
        self.bytes += served.bytes;
    }

    fn is_full(&self, last_read: Option<Instant>) -> bool {
        self.slots.len() >= TURNS_TOGETHER
            || self.messages >= MESSAGES_TOGETHER
            || self.bytes >= TOGETHER_BYTES
            || took_long(self.began, last_read)
    }
}

/// Whether more than the time of a group lies between two looks at the clock.
fn took_long(began: Option<Instant>, ended: Option<Instant>) -> bool {
    let times = began.zip(ended);
    times.is_some_and(|(began, ended)| ended.saturating_duration_since(began) > TOGETHER_MAX)
}

impl<L: Local> Loop<L> {
    /// Gives every connection that is due its turn.
    pub(super) fn take_turns(&mut self) {
        for at in 0..self.due.len() {
            let slot = self.due[at];
            // What is answered does not wait for calls that are likely to take long again.
            if self.connections.get(slot).is_some_and(|found| found.took_long) {
                self.send_group();
            }
            let began = self.local.last_read();
            if self.group.slots.is_empty() {
                self.group.began = began;
            }
            self.serve(slot);
            self.net.mailbox.pulse.turned();
            let ended = self.local.last_read();
            if let Some(served) = self.connections.get_mut(slot) {
                served.took_long = took_long(began, ended);
            }
            if self.group.is_full(ended) {
                self.send_group();
            }
        }
        self.send_group();
        self.due.clear();
    }

    /// The first half of a connection's turn.
    fn serve(&mut self, slot: usize) {
        match self.with(slot, |found, local, net, buffers| {
            found.serve_turn(local, net, buffers)
        }) {
            Some(Ok(served)) => self.group.add(slot, &served),
            Some(Err(after)) => self.follow(slot, after),
            None => {}
        }
    }

    /// The second half, of all that have had the first.
    fn send_group(&mut self) {
        let now_s = self.timers.now_s();
        for at in 0..self.group.slots.len() {
            let (slot, served) = self.group.slots[at];
            let after = self.with(slot, |found, _, net, buffers| {
                found.end_turn(net, buffers, now_s, served)
            });
            if let Some(after) = after {
                self.follow(slot, after);
            }
        }
        self.group.slots.clear();
        (self.group.messages, self.group.bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::connection::rig;
    use crate::mailbox::Mailbox;
    use crate::net_thread::{Kind, Net, Newcomer};
    use crate::poller::{self, Poller, Ready};
    use crate::session::{Front, Fronts, Match, Received, Session, Turn};
    use crate::totals::Totals;
    use crate::{Mark, RemoteAddr};
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    /// Has one byte answered; a call that takes a millisecond by the clock of the test; one with a large answer; one that panics.
    const CALL: u8 = b'c';
    const LONG: u8 = b'l';
    const LARGE: u8 = b'b';
    const PANICS: u8 = b'p';

    /// What the test sees of its net thread.
    #[derive(Clone)]
    struct Watched {
        clock: Arc<Mutex<Instant>>,
        peers: Arc<Mutex<Vec<UnixStream>>>,
        /// Bytes that had been sent to all peers, whenever a message was served.
        sent: Arc<Mutex<Vec<u64>>>,
    }

    impl Local for Watched {
        fn begin(&self) -> Instant {
            *self.clock.lock().unwrap()
        }

        fn last_read(&self) -> Option<Instant> {
            Some(self.begin())
        }

        fn end(&self, _: impl Iterator<Item = (Mark, Instant)>) {}
    }

    /// Messages of one byte.
    struct Bytes;

    impl Session<Watched> for Bytes {
        fn receive(&mut self, local: &Watched, turn: &mut Turn<'_>, input: &[u8]) -> Received<Watched> {
            let unread = |peer| rustix::io::ioctl_fionread(peer).unwrap();
            let sent = local.peers.lock().unwrap().iter().map(unread).sum();
            local.sent.lock().unwrap().push(sent);
            match input[0] {
                LONG => *local.clock.lock().unwrap() += Duration::from_millis(1),
                LARGE => turn.out().resize(TOGETHER_BYTES - 1, input[0]),
                PANICS => panic!("a call that panics"),
                _ => {}
            }
            turn.out().push(input[0]);
            Received::Served(1)
        }

        fn is_full(&self, _: usize) -> bool {
            false
        }

        fn refuse(&mut self, _: &mut Turn<'_>, _: &[u8], _: &str) {}
    }

    fn net_thread(local: Watched) -> Loop<Watched> {
        let options = rig::options();
        let bytes_max = options.write_buffers_total_bytes_max;
        let totals = Arc::new(Totals::new(Arc::default(), 1, bytes_max, ""));
        let mailbox = Arc::new(Mailbox::new(totals, 0).unwrap());
        let poller = Poller::new(poller::watch(&mailbox.pulse.wake_up).unwrap());
        let front: Front<Watched> = Box::new(|_| Match::Yes(Box::new(Bytes)));
        let fronts: Fronts<Watched> = Arc::new([front]);
        let net = Net {
            options,
            counters: Arc::default(),
            mailbox,
        };
        Loop::new(
            net,
            local,
            Arc::new([fronts]),
            poller,
            Arc::new(AtomicUsize::new(0)),
        )
    }

    /// Adopts a connection of which these messages are to be served in the next turn.
    fn connect(net_thread: &mut Loop<Watched>, messages: &[u8]) -> UnixStream {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.write_all(messages).unwrap();
        net_thread.adopt(Newcomer {
            socket: ours.into(),
            peer: RemoteAddr(None),
            kind: Kind::Served,
            tls: None,
            port: 0,
            is_loopback: true,
        });
        let slot = net_thread.connections.len() - 1;
        note(net_thread, slot);
        theirs
    }

    /// Something has come on a connection.
    fn note(net_thread: &mut Loop<Watched>, slot: usize) {
        let connection = &mut net_thread.connections[slot];
        let is_due = connection.note(Ready {
            slot,
            generation: connection.link.key.generation as u32,
            readable: true,
            writable: true,
            ended: false,
            gone: false,
        });
        assert!(is_due);
        net_thread.due.push(slot);
    }

    /// One turn of a net thread that has a connection of each of these messages: what had been sent when each was served.
    /// Every peer gets its own answers, whatever became of the others.
    fn check(messages: &[&[u8]], expected: &[u64]) {
        let local = Watched {
            clock: Arc::new(Mutex::new(Instant::now())),
            peers: Arc::default(),
            sent: Arc::default(),
        };
        let mut net_thread = net_thread(local.clone());
        for messages in messages {
            let theirs = connect(&mut net_thread, messages);
            local.peers.lock().unwrap().push(theirs);
        }
        net_thread.take_turns();
        assert_eq!(*local.sent.lock().unwrap(), expected, "{messages:?}");
        assert!(net_thread.group.slots.is_empty());
        let panics = messages
            .iter()
            .filter(|messages| messages.contains(&PANICS))
            .count();
        let counters = &net_thread.net.counters;
        assert_eq!(counters.panics.load(Ordering::Relaxed), panics as u64);
        assert_eq!(net_thread.connections.len(), messages.len() - panics);
        let kept = net_thread.connections.iter();
        assert!(kept.into_iter().all(|(_, kept)| kept.link.out.capacity() == 0));
        for (theirs, messages) in local.peers.lock().unwrap().iter_mut().zip(messages) {
            theirs.set_nonblocking(true).unwrap();
            let mut found = Vec::new();
            let is_over = theirs.read_to_end(&mut found).is_ok();
            let expected: Vec<u8> = match messages.contains(&PANICS) {
                true => Vec::new(),
                false => messages
                    .iter()
                    .flat_map(|kind| vec![*kind; if *kind == LARGE { TOGETHER_BYTES } else { 1 }])
                    .collect(),
            };
            assert!(found == expected && is_over == messages.contains(&PANICS));
        }
    }

    #[test]
    fn answers_do_not_wait_for_a_connection_whose_last_call_took_long() {
        let local = Watched {
            clock: Arc::new(Mutex::new(Instant::now())),
            peers: Arc::default(),
            sent: Arc::default(),
        };
        let mut net_thread = net_thread(local.clone());
        for messages in [LONG, CALL] {
            let theirs = connect(&mut net_thread, &[messages]);
            local.peers.lock().unwrap().push(theirs);
        }
        net_thread.take_turns();
        for slot in [1, 0] {
            let kind = [LONG, CALL][slot];
            local.peers.lock().unwrap()[slot].write_all(&[kind]).unwrap();
            note(&mut net_thread, slot);
        }
        net_thread.take_turns();
        assert_eq!(*local.sent.lock().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn what_is_due_together_is_served_before_any_answer_leaves() {
        check(&[&[CALL], &[CALL, CALL], &[CALL]], &[0; 4]);
    }

    #[test]
    fn a_panic_takes_no_answer_from_the_others() {
        check(&[&[CALL], &[CALL, PANICS], &[CALL]], &[0; 4]);
    }

    #[test]
    fn a_group_ends_with_enough_connections_messages_bytes_or_time() {
        let connections = [[CALL].as_slice(); TURNS_TOGETHER + 2];
        let sent: Vec<u64> = [vec![0; TURNS_TOGETHER], vec![TURNS_TOGETHER as u64; 2]].concat();
        check(&connections, &sent);
        let messages = [CALL; MESSAGES_TOGETHER];
        let sent: Vec<u64> = [vec![0; MESSAGES_TOGETHER], vec![MESSAGES_TOGETHER as u64; 2]].concat();
        check(&[&messages, &[CALL], &[CALL]], &sent);
        check(&[&[CALL], &[LARGE], &[CALL]], &[0, 0, 1 + TOGETHER_BYTES as u64]);
        check(&[&[CALL], &[LONG], &[CALL]], &[0, 0, 2]);
    }
}
