//! One serving thread: it waits, reads whole requests, and asks its behaviour what to do with them.
//!
//! It answers nothing itself. Its invariant: an answer that has a due time leaves at that time or after, and the last stretch
//! before it is not slept.

use crate::behaviour::Behaviour;
use crate::connections::{Connections, Id, Reading};
use crate::stop::Stop;
use crate::system::{Event, Poller, Wake, wake_precisely};
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

/// The token of the wake-up; slots of connections stay below it.
const WAKE: u32 = u32::MAX;
/// The longest wait: nothing depends on it.
const WAIT_NS_MAX: u64 = 1_000_000_000;
/// So long before an answer is due the loop stays awake, because a sleep ends up to this late.
const AWAKE_NS: u64 = 60_000;
/// A buffer holds this much, or two requests.
const BUFFER_BYTES: usize = 256 * 1024;
/// A connection that has more to read than this many buffers lets the others go first.
const READS_MAX: usize = 4;

/// Where the acceptor leaves connections for a loop.
pub(crate) struct Door {
    /// Told after a connection was left, and by a behaviour's own threads.
    pub(crate) wake: Arc<Wake>,
    arrivals: Mutex<Vec<TcpStream>>,
}

impl Door {
    pub(crate) fn new() -> io::Result<Door> {
        Ok(Door {
            wake: Arc::new(Wake::new()?),
            arrivals: Mutex::default(),
        })
    }

    pub(crate) fn leave(&self, stream: TcpStream) {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.push(stream);
        drop(arrivals);
        self.wake.wake();
    }

    fn take(&self) -> Vec<TcpStream> {
        self.wake.clear();
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut arrivals)
    }
}

/// A serving thread's all.
pub(crate) struct EventLoop {
    poller: Poller,
    door: Arc<Door>,
    connections: Connections,
    behaviour: Box<dyn Behaviour>,
    buffer: Vec<u8>,
    stop: Arc<Stop>,
}

impl EventLoop {
    pub(crate) fn new(
        door: Arc<Door>,
        connections: Connections,
        behaviour: Box<dyn Behaviour>,
        stop: Arc<Stop>,
    ) -> io::Result<EventLoop> {
        let poller = Poller::new()?;
        poller.add(&*door.wake, WAKE)?;
        let buffer = vec![0; BUFFER_BYTES.max(2 * connections.request_bytes())];
        Ok(EventLoop {
            poller,
            door,
            connections,
            behaviour,
            buffer,
            stop,
        })
    }

    /// Serves until the server is to end.
    pub(crate) fn run(mut self) -> io::Result<()> {
        wake_precisely();
        while !self.stop.told() {
            let count = self.poller.wait(self.wait_ns())?;
            for at in 0..count {
                let event = self.poller.event(at);
                if event.token == WAKE {
                    self.take_arrivals();
                } else {
                    self.serve(event);
                }
            }
            for id in self.connections.take_due_reads() {
                self.read(id, true);
            }
            self.behaviour.due(&mut self.connections);
            self.connections.flush();
        }
        Ok(())
    }

    fn wait_ns(&self) -> u64 {
        if self.connections.has_due_reads() {
            return 0;
        }
        let Some(due_ns) = self.behaviour.next_due_ns() else {
            return WAIT_NS_MAX;
        };
        let left_ns = due_ns.saturating_sub(self.connections.clock.now_ns());
        left_ns.saturating_sub(AWAKE_NS).min(WAIT_NS_MAX)
    }

    fn take_arrivals(&mut self) {
        for stream in self.door.take() {
            // A connection that is gone before it was served is nobody's loss.
            let Ok(id) = self.connections.insert(stream) else {
                continue;
            };
            let watched = self
                .connections
                .socket(id)
                .is_some_and(|socket| self.poller.add(socket, id.slot).is_ok());
            if !watched {
                self.connections.remove(id);
            }
        }
    }

    fn serve(&mut self, event: Event) {
        let Some(id) = self.connections.at(event.token) else {
            return;
        };
        if event.writable {
            self.connections.flush_one(id);
        }
        if event.readable {
            self.read(id, event.ended);
        }
    }

    /// Reads what is there, `to_the_end` where no further event tells of it.
    fn read(&mut self, id: Id, to_the_end: bool) {
        for _ in 0..READS_MAX {
            let Reading::Some { whole, at_ns, more } = self.connections.read(id, &mut self.buffer) else {
                return;
            };
            if whole > 0 {
                let requests = &self.buffer[..whole];
                self.behaviour.arrived(id, requests, at_ns, &mut self.connections);
                self.connections.flush();
            }
            if !more && !to_the_end {
                return;
            }
        }
        self.connections.read_later(id);
    }
}
