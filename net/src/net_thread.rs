//! A net thread: its loop over what is ready, and the connections that live on it.
//!
//! Each turn of the loop takes what the kernel and other threads have for it, then gives every connection with something to
//! do one bounded turn; one that has more waits behind the others. Its invariant: nothing on it blocks, and nothing of its
//! connections is touched elsewhere.

mod buffers;
mod outward;
mod room;
mod roster;
mod start;
mod together;

pub(crate) use buffers::{Buffers, KEPT_BYTES_MAX, OUT_BYTES_KEPT};
pub(crate) use start::start;

use crate::connection::{After, Connection};
use crate::mailbox::{Delivery, Key, Mailbox, Message, Queues, What};
use crate::outward::Outward;
use crate::poller::{Poller, Ready};
use crate::quiet::{self, limited};
use crate::session::{Goodbye, Local, Ports};
use crate::timers::Timers;
use crate::tls::Tls;
use crate::totals::Keepers;
use crate::{Counters, Options, RemoteAddr};
use millpond_threads::{Panic, contain};
use slab::Slab;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use together::Group;

/// One read's worth of bytes, shared by all connections of the thread.
pub(crate) const SCRATCH_BYTES: usize = 64 << 10;
/// How often a stop looks again whether everything is answered.
const RECHECK: Duration = Duration::from_millis(5);
/// How long a stop holds connections whose end was said, so that no reset overtakes the last answer: a round trip to a peer
/// far away. It ends with the last of them.
pub(crate) const PARTING: Duration = Duration::from_millis(250);
/// Pause after a wait that failed, instead of a busy loop.
const WAIT_FAILED_PAUSE: Duration = Duration::from_millis(10);

/// What a net thread is ordered to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// Serve (or refuse) this connection.
    Adopt(Newcomer),
    /// Send all answers, for this long at most, then close everything and end.
    Close { grace: Duration },
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: RemoteAddr,
    pub(crate) kind: Kind,
    /// What it begins with, where it is by TLS.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Which protocols it may speak.
    pub(crate) port: usize,
    /// It came over loopback.
    pub(crate) is_loopback: bool,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Calls.
    Served,
    /// Over the connection limit: its first request is answered `Overloaded`, and that is all.
    Refused,
    /// This side opened it, under that number. It is counted by who asked for it.
    Opened(u64),
}

/// The outside's handle to a net thread.
pub(crate) struct NetThread {
    pub(crate) mailbox: Arc<Mailbox>,
    /// Connections served on it now.
    pub(crate) live: Arc<AtomicUsize>,
}

/// Counts a connection of a thread in; before its order is given, so that the next one sees it.
pub(crate) fn count(counters: &Counters, live: &AtomicUsize, kind: Kind) {
    match kind {
        Kind::Served => {
            live.fetch_add(1, Ordering::Relaxed);
            counters.live.fetch_add(1, Ordering::Relaxed);
        }
        Kind::Refused => {
            counters.refusing.fetch_add(1, Ordering::Relaxed);
        }
        Kind::Opened(_) => {}
    }
}

/// Counts it out again.
pub(crate) fn uncount(counters: &Counters, live: &AtomicUsize, kind: Kind) {
    match kind {
        Kind::Served => {
            live.fetch_sub(1, Ordering::Relaxed);
            counters.live.fetch_sub(1, Ordering::Relaxed);
        }
        Kind::Refused => {
            counters.refusing.fetch_sub(1, Ordering::Relaxed);
        }
        Kind::Opened(_) => {}
    }
}

/// What a net thread's connections share and do not change.
pub(crate) struct Net {
    pub(crate) options: Options,
    pub(crate) counters: Arc<Counters>,
    pub(crate) mailbox: Arc<Mailbox>,
}

/// Everything that one net thread owns.
struct Loop<L: Local> {
    net: Net,
    local: L,
    ports: Ports<L>,
    poller: Poller,
    live: Arc<AtomicUsize>,
    connections: Slab<Connection<L>>,
    /// Those of them that keep bytes for their peers.
    keepers: Keepers,
    /// Room is to be made, once the connections had their turns.
    wants_room: bool,
    /// Slots of the connections that have something to do, and of those that will have in the turn after it.
    due: Vec<usize>,
    due_next: Vec<usize>,
    /// Those that were served and not sent to yet: empty but in the middle of the turns.
    group: Group,
    buffers: Buffers,
    drained: Queues,
    /// When this turn began.
    began: Instant,
    timers: Timers,
    closing: Option<Closing>,
    /// The connections that this side opened, by their numbers.
    outward: HashMap<u64, Key>,
    /// What is asked for of these: empty between two turns.
    asked: Vec<Outward<L>>,
}

/// A stop under way.
struct Closing {
    until: Instant,
    /// When the peers must have gone; none until the closing messages are sent.
    gone_by: Option<Instant>,
}

impl<L: Local> Loop<L> {
    fn new(net: Net, local: L, ports: Ports<L>, poller: Poller, live: Arc<AtomicUsize>) -> Loop<L> {
        let began = Instant::now();
        Loop {
            timers: Timers::start(net.options.timeouts, began),
            began,
            net,
            local,
            ports,
            poller,
            live,
            connections: Slab::new(),
            keepers: Keepers::default(),
            wants_room: false,
            due: Vec::new(),
            due_next: Vec::new(),
            group: Group::new(),
            buffers: Buffers::new(),
            drained: Queues::default(),
            closing: None,
            outward: HashMap::new(),
            asked: Vec::new(),
        }
    }

    fn run(mut self) {
        let mailbox = Arc::clone(&self.net.mailbox);
        mailbox.pulse.begin();
        loop {
            let woken = self.wait();
            mailbox.pulse.turned();
            self.began = self.local.begin();
            self.buffers.began = Some(self.began);
            self.timers.set_now(self.began);
            if woken {
                mailbox.pulse.wake_up.clear();
                self.take_mail();
            }
            let reaches_out = self.local.reaches_out();
            if reaches_out {
                // Answers of nodes become answers to callers on this thread.
                mailbox.set_awake();
            }
            std::mem::swap(&mut self.due, &mut self.due_next);
            self.take_turns();
            if self.local.has_batch() {
                self.serve_batch();
            }
            if reaches_out {
                self.reach_out();
                self.send_mail();
            }
            self.local.end(self.buffers.written.drain(..));
            if self.buffers.scratch.capacity() > SCRATCH_BYTES {
                self.buffers.scratch = Vec::new();
            }
            self.look_at_the_time();
            self.make_wanted_room();
            if self.is_closed() {
                return mailbox.pulse.end();
            }
        }
    }

    /// Waits for the kernel or a wake-up, and notes which connections have something to do.
    fn wait(&mut self) -> bool {
        let span = if !self.due_next.is_empty() {
            Some(Duration::ZERO)
        } else if self.closing.is_some() {
            Some(RECHECK)
        } else {
            self.timers.next(self.connections.len())
        };
        let span = match self.local.wake_at() {
            None => span,
            Some(at) => {
                let until = at.saturating_duration_since(Instant::now());
                Some(span.map_or(until, |span| span.min(until)))
            }
        };
        let busy_poll = self.net.options.busy_poll;
        if busy_poll.is_zero() || span == Some(Duration::ZERO) || self.closing.is_some() {
            return self.wait_for(span);
        }
        let woken = self.poll(span.map_or(busy_poll, |span| span.min(busy_poll)));
        woken.unwrap_or_else(|| self.wait_for(span))
    }

    /// Polls for that long; nothing when nothing came.
    fn poll(&mut self, span: Duration) -> Option<bool> {
        let began = Instant::now();
        loop {
            let woken = self.wait_for(Some(Duration::ZERO));
            let (polled, came) = (began.elapsed(), woken || !self.due_next.is_empty());
            if came || polled >= span {
                let counter = &self.net.counters.busy_poll_us;
                counter.fetch_add(polled.as_micros() as u64, Ordering::Relaxed);
                return came.then_some(woken);
            }
        }
    }

    fn wait_for(&mut self, span: Option<Duration>) -> bool {
        let (connections, due) = (&mut self.connections, &mut self.due_next);
        let waited = self.poller.wait(span, |ready: Ready| {
            let found = connections.get_mut(ready.slot);
            if let Some(connection) =
                found.filter(|found| found.link.key.generation as u32 == ready.generation)
                && connection.note(ready)
            {
                due.push(ready.slot);
            }
        });
        waited.unwrap_or_else(|error| {
            tracing::error!(%error, "a net thread cannot wait for its sockets");
            std::thread::sleep(WAIT_FAILED_PAUSE);
            true
        })
    }

    /// Takes the mailbox's answers to their connections, and carries out orders.
    fn take_mail(&mut self) {
        let mut drained = std::mem::take(&mut self.drained);
        self.net.mailbox.take(&mut drained);
        for message in drained.messages.drain(..) {
            match message {
                Message::Delivery(delivery) => self.deliver(delivery),
                Message::NoPlace(key, bytes) => self.give_up(key, bytes),
                // Made after the turns: what came with it may leave at once, and is counted until then.
                Message::MakeRoom => self.wants_room = true,
            }
        }
        for order in drained.orders.drain(..) {
            match order {
                Order::Adopt(newcomer) => self.adopt(newcomer),
                Order::Close { grace } => self.begin_close(grace),
            }
        }
        self.drained = drained;
    }

    fn deliver(&mut self, delivery: Delivery) {
        let key = delivery.key;
        let found = self.connections.get(key.slot);
        if found.is_none_or(|found| found.link.key != key) {
            self.net.mailbox.totals.take(delivery.bytes.len());
            if let What::Answer { .. } = delivery.what {
                self.net.counters.undelivered.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        let is_due = self.with(key.slot, |found, _, net, buffers| {
            found.deliver(delivery, net, buffers)
        });
        if is_due == Some(true) {
            self.due_next.push(key.slot);
        }
        self.set_timer(key.slot);
    }

    /// Has a connection's timer end when it says.
    fn set_timer(&mut self, slot: usize) {
        if let Some(found) = self.connections.get_mut(slot) {
            found.timer = self.timers.set(found.link.key, found.timer, found.wake_at);
        }
    }

    /// Does something for the connection of that slot; nothing where there is none. A panic in it ends that connection alone, and
    /// nothing that it had borrowed of its thread is used again.
    #[inline]
    fn with<T>(
        &mut self,
        slot: usize,
        work: impl FnOnce(&mut Connection<L>, &L, &Net, &mut Buffers) -> T,
    ) -> Option<T> {
        let connection = self.connections.get_mut(slot)?;
        match contain(|| work(connection, &self.local, &self.net, &mut self.buffers)) {
            Ok(done) => Some(done),
            Err(panic) => {
                self.lose(slot, &panic);
                None
            }
        }
    }

    /// Ends a connection that a panic has left in an unknown state: nothing more is sent on it.
    #[cold]
    fn lose(&mut self, slot: usize, panic: &Panic) {
        let began = self.buffers.began;
        self.buffers = Buffers {
            began,
            ..Buffers::new()
        };
        if let Some(connection) = self.connections.get(slot) {
            self.note_panic(connection.link.peer, panic);
        }
        self.remove(slot, Connection::lost);
    }

    /// Has the calls served that wait for the end of the turn, and sends their answers. These come by the mailbox, as those of other
    /// threads do, but wake nobody.
    fn serve_batch(&mut self) {
        self.net.mailbox.set_awake();
        if let Err(panic) = contain(|| self.local.serve_batch()) {
            let counters = &self.net.counters;
            counters.panics.fetch_add(1, Ordering::Relaxed);
            limited!(error, counters.quiet, quiet::PANICKED, [%panic], "the calls at the end of a turn panicked");
        }
        self.send_mail();
    }

    /// Does what a connection wants after its turn.
    fn follow(&mut self, slot: usize, after: After) {
        self.recount(slot);
        match (after, self.connections.get(slot)) {
            (After::Again, _) => self.due_next.push(slot),
            (After::Linger, Some(connection)) => {
                let (key, kind) = (connection.link.key, connection.link.kind);
                uncount(&self.net.counters, &self.live, kind);
                self.linger(key);
            }
            (After::End, _) => self.forget(slot),
            (After::Wait | After::Linger, _) => {}
        }
    }

    /// Closes a connection, with a closing message if its protocol has one.
    fn part(&mut self, slot: usize, why: Goodbye) {
        if let Some(after) = self.with(slot, |found, _, net, buffers| found.part(net, buffers, why)) {
            self.follow(slot, after);
        }
    }

    /// Ends what has lingered, been refused or kept this server waiting for too long.
    fn look_at_the_time(&mut self) {
        while let Some(Key { slot, .. }) = self.timers.ended() {
            let Some(found) = self.connections.get_mut(slot) else {
                continue;
            };
            found.timer = None;
            if found.lingers() || found.link.kind == Kind::Refused {
                self.forget(slot);
            } else {
                let now = self.began;
                self.with(slot, |found, _, _, _| found.wake(now));
                self.set_timer(slot);
            }
        }
        let Some(slots) = self.timers.sweep(self.connections.capacity()) else {
            return;
        };
        self.net.counters.quiet.tell();
        for slot in slots {
            let (timeouts, now_s) = (&self.net.options.timeouts, self.timers.now_s());
            let found = self.connections.get(slot);
            if let Some(why) = found.and_then(|found| found.overdue(timeouts, now_s)) {
                self.net.counters.count_overdue(why);
                self.part(slot, Goodbye::Overdue(why));
            }
        }
    }

    fn begin_close(&mut self, grace: Duration) {
        self.closing = Some(Closing {
            until: Instant::now() + grace,
            gone_by: None,
        });
        // What a peer had sent by now is read once more, so that it is answered.
        for (slot, connection) in &mut self.connections {
            if connection.look_again() {
                self.due_next.push(slot);
            }
        }
    }

    fn is_closed(&mut self) -> bool {
        let Some(mut closing) = self.closing.take() else {
            return false;
        };
        let now = Instant::now();
        if closing.gone_by.is_none() {
            let mut connections = self.connections.iter();
            let quiet = connections.all(|(_, connection)| connection.is_quiet());
            if quiet || now >= closing.until {
                closing.gone_by = Some(now + PARTING);
                (0..self.connections.capacity()).for_each(|slot| self.part(slot, Goodbye::Stop));
            }
        }
        let over = closing.gone_by.is_some_and(|until| now >= until);
        if !over && (closing.gone_by.is_none() || !self.connections.is_empty()) {
            self.closing = Some(closing);
            return false;
        }
        true
    }
}

/// However the thread ends, its connections are counted out.
impl<L: Local> Drop for Loop<L> {
    fn drop(&mut self) {
        for slot in 0..self.connections.capacity() {
            self.forget(slot);
        }
    }
}
