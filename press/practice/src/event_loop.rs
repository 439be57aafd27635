//! One serving thread: it waits, reads whole requests, and asks its behaviour what to do with them.
//!
//! It answers nothing itself. Its invariant: an answer that has a due time leaves at that time or after, and the last stretch
//! before it is not slept.

use crate::behaviour::Behaviour;
use crate::connections::{Connections, Id};
use crate::poller::{Wake, wake_precisely};
use rustix::event::epoll::{Event, EventFlags};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// The token of the wake-up; no connection has it.
const WAKE: u64 = u64::MAX;
/// The longest wait: nothing depends on it.
pub(crate) const WAIT_NS_MAX: u64 = 1_000_000_000;
/// So long before an answer is due the loop stays awake, because a sleep ends up to this late.
const AWAKE_NS: u64 = 60_000;
/// A buffer holds this much, or two requests.
const BUFFER_BYTES: usize = 256 * 1024;

/// A serving thread's all.
pub(crate) struct EventLoop {
    /// Connections that the acceptor hands over; it wakes the loop after each.
    pub(crate) arrivals: Receiver<TcpStream>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) connections: Connections,
    pub(crate) behaviour: Box<dyn Behaviour>,
}

impl EventLoop {
    /// Serves until the server is to end.
    pub(crate) fn run(mut self) -> io::Result<()> {
        wake_precisely();
        self.connections.poller.add(&*self.wake, WAKE, EventFlags::IN)?;
        let mut buffer = vec![0; BUFFER_BYTES.max(2 * self.connections.request_bytes())];
        let mut events: Vec<Event> = Vec::new();
        while !self.connections.stop().is_told() {
            self.connections.poller.wait(self.wait_ns(), &mut events)?;
            for event in &events {
                match event.data.u64() {
                    WAKE => self.take_arrivals(),
                    token => self.serve(Id::of(token), event.flags, &mut buffer),
                }
            }
            self.behaviour.due(&mut self.connections);
            self.connections.flush();
        }
        Ok(())
    }

    fn wait_ns(&self) -> u64 {
        let Some(due_ns) = self.behaviour.next_due_ns() else {
            return WAIT_NS_MAX;
        };
        let left_ns = due_ns.saturating_sub(self.connections.now_ns());
        left_ns.saturating_sub(AWAKE_NS).min(WAIT_NS_MAX)
    }

    fn take_arrivals(&mut self) {
        self.wake.clear();
        for stream in self.arrivals.try_iter() {
            // A connection that is gone before it was served is nobody's loss.
            let _gone = self.connections.insert(stream);
        }
    }

    fn serve(&mut self, id: Id, ready: EventFlags, buffer: &mut [u8]) {
        if ready.contains(EventFlags::OUT) {
            self.connections.flush_one(id);
        }
        if !ready.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        if let Some((whole, at_ns)) = self.connections.read(id, buffer)
            && whole > 0
        {
            self.behaviour
                .arrived(id, &buffer[..whole], at_ns, &mut self.connections);
            self.connections.flush();
            self.connections.settle(id);
        }
    }
}
