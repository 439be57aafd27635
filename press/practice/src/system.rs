//! The calls of the system that std does not offer: readiness, wake-ups, signals, processor time.
//!
//! Its invariant: nothing here touches memory but values of its own.
#![allow(unsafe_code)] // Each is one call of the C library on descriptors and values of our own.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How many events one wait takes.
const EVENTS_MAX: usize = 512;

/// What a descriptor is ready for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) token: u32,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The far end writes no more: reading shows the end only after the last byte.
    pub(crate) ended: bool,
}

/// One epoll instance. Changes are told once (edge-triggered).
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

    /// Watches a descriptor until it is closed.
    pub(crate) fn add(&self, watched: &impl AsRawFd, token: u32) -> io::Result<()> {
        let interest = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: interest as u32,
            u64: u64::from(token),
        };
        let (epoll, fd) = (self.epoll.as_raw_fd(), watched.as_raw_fd());
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
        let broken = libc::EPOLLHUP | libc::EPOLLERR;
        Event {
            token: event.u64 as u32,
            readable: bits & (libc::EPOLLIN | libc::EPOLLRDHUP | broken) != 0,
            writable: bits & (libc::EPOLLOUT | broken) != 0,
            ended: bits & (libc::EPOLLRDHUP | broken) != 0,
        }
    }
}

/// Ends a wait of a poller from another thread.
pub(crate) struct Wake(File);

impl Wake {
    pub(crate) fn new() -> io::Result<Wake> {
        // SAFETY: plain values; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and belongs to nobody else.
        Ok(Wake(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    pub(crate) fn wake(&self) {
        // A counter that is full has woken already.
        let _full = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Takes what was told, so that the next wake-up is told again.
    pub(crate) fn clear(&self) {
        let _empty = (&self.0).read(&mut [0; 8]);
    }
}

impl AsRawFd for Wake {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Lets the calling thread's timed waits end as soon as the kernel can, instead of up to 50 µs later.
pub(crate) fn wake_precisely() {
    // SAFETY: plain values; a kernel that refuses leaves the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

/// The processor time that the calling thread has used.
pub(crate) fn thread_cpu_ns() -> u64 {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `used` is a valid place for one timespec. The clock exists for the calling thread, so this cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut used) };
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Raises the soft limit of open files to the hard one; where that is refused, fewer connections are taken.
pub(crate) fn raise_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for one rlimit, and whole when it is given back.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// SIGTERM and SIGINT, kept from ending the process so that they can be waited for.
pub(crate) struct EndSignals(libc::sigset_t);

impl EndSignals {
    /// Blocks them in the calling thread and in those it starts from now on.
    pub(crate) fn block() -> io::Result<EndSignals> {
        // SAFETY: an all-zero set is a valid place, and it is emptied before it is used; no old set is asked for.
        let (rc, set) = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            let rc = libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            (rc, set)
        };
        if rc == 0 {
            Ok(EndSignals(set))
        } else {
            Err(io::Error::from_raw_os_error(rc))
        }
    }

    /// Waits until one of them comes.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut signal = 0;
        // SAFETY: the set is whole, and `signal` is a valid place for one number.
        let rc = unsafe { libc::sigwait(&self.0, &mut signal) };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(rc))
        }
    }
}
