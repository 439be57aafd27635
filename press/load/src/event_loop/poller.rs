//! Readiness of sockets with waits told in nanoseconds.
//!
//! The event loop of every client thread stands on this. Milliseconds, as other wrappers of epoll count, are too coarse for
//! a schedule of fifty requests a millisecond. Its invariant: an event carries the token that its socket was added with.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::SECOND;

/// How many events one wait takes.
const EVENTS_MAX: usize = 512;

/// One epoll instance. Sockets are told once for every change (edge-triggered).
pub(crate) struct Poller(OwnedFd);

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        Ok(Poller(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches a socket until it is closed.
    pub(crate) fn add(&self, socket: impl AsFd, token: u32) -> io::Result<()> {
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let token = EventData::new_u64(u64::from(token));
        Ok(epoll::add(&self.0, socket, token, interest)?)
    }

    /// Waits at most `wait_ns` (0: not at all) for `events`.
    pub(crate) fn wait(&self, wait_ns: u64, events: &mut Vec<Event>) -> io::Result<()> {
        let wait = Timespec {
            tv_sec: (wait_ns / SECOND) as i64,
            tv_nsec: (wait_ns % SECOND) as i64,
        };
        events.clear();
        events.reserve(EVENTS_MAX);
        match epoll::wait(&self.0, spare_capacity(events), Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_is_told_under_its_token() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = listener.accept().unwrap().0;
        let (poller, mut events) = (Poller::new().unwrap(), Vec::new());
        poller.add(&near, 7).unwrap();
        far.write_all(b"x").unwrap();
        let readable = (0..1_000).any(|_| {
            poller.wait(10_000_000, &mut events).unwrap();
            let is_it = |(token, flags): (u64, EventFlags)| token == 7 && flags.contains(EventFlags::IN);
            events
                .iter()
                .map(|event| (event.data.u64(), event.flags))
                .any(is_it)
        });
        assert!(readable);
        poller.wait(0, &mut events).unwrap();
        assert!(events.is_empty());
    }
}
