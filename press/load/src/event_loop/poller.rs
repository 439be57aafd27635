//! Readiness of sockets with waits told in nanoseconds.
//!
//! The event loop of every client thread stands on this. Milliseconds, as other wrappers of epoll count, are too coarse for
//! a schedule of fifty requests a millisecond. Its invariant: an event names the token that its socket was added with.
#![allow(unsafe_code)] // Four calls of the C library on descriptors and buffers of our own.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// How many events one wait takes.
const EVENTS_MAX: usize = 512;

/// What a socket is ready for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) token: u32,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The other side sends no more: what is there is to be read to its end.
    pub(crate) ended: bool,
}

/// One epoll instance. Sockets are told once for every change (edge-triggered).
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    ready: usize,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        // SAFETY: a plain value; the result is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Poller {
            // SAFETY: the descriptor was just made and belongs to nobody else.
            epoll: unsafe { OwnedFd::from_raw_fd(fd) },
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX],
            ready: 0,
        })
    }

    /// Watches a socket until it is closed.
    pub(crate) fn add(&self, socket: &impl AsRawFd, token: u32) -> io::Result<()> {
        let interest = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: interest as u32,
            u64: u64::from(token),
        };
        let (epoll, fd): (RawFd, RawFd) = (self.epoll.as_raw_fd(), socket.as_raw_fd());
        // SAFETY: `event` outlives the call; both descriptors are open.
        let rc = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Waits at most `wait_ns` (0: not at all) and gives the number of events.
    pub(crate) fn wait(&mut self, wait_ns: u64) -> io::Result<usize> {
        let wait = libc::timespec {
            tv_sec: (wait_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (wait_ns % 1_000_000_000) as libc::c_long,
        };
        let none: *const libc::sigset_t = std::ptr::null();
        // SAFETY: the buffer holds EVENTS_MAX events and `wait` outlives the call; no signal mask is given.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS_MAX as libc::c_int,
                &wait,
                none,
                0usize,
            )
        };
        self.ready = 0;
        if rc < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                return Ok(0);
            }
            return Err(error);
        }
        self.ready = rc as usize;
        Ok(self.ready)
    }

    /// Event `at` of the last wait.
    pub(crate) fn event(&self, at: usize) -> Event {
        let event = self.events[..self.ready][at];
        let bits = event.events as i32;
        let ended = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
        Event {
            token: event.u64 as u32,
            readable: bits & (libc::EPOLLIN | ended) != 0,
            writable: bits & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) != 0,
            ended: bits & ended != 0,
        }
    }
}

/// Lets the calling thread's timed waits end as soon as the kernel can, instead of up to 50 µs later.
pub(crate) fn wake_precisely() {
    // SAFETY: plain values; a kernel that refuses leaves the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
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
        let mut poller = Poller::new().unwrap();
        poller.add(&near, 7).unwrap();
        far.write_all(b"x").unwrap();
        let readable = (0..1_000).any(|_| {
            let count = poller.wait(10_000_000).unwrap();
            (0..count)
                .map(|at| poller.event(at))
                .any(|event| event.token == 7 && event.readable)
        });
        assert!(readable);
        assert_eq!(poller.wait(0).unwrap(), 0);
    }
}
