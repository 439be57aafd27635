//! Readiness of descriptors with waits in nanoseconds, and wake-ups from other threads.
//!
//! Its invariant: an event carries the token that its descriptor was added with.

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How many events one wait takes.
const EVENTS_MAX: usize = 512;

/// One epoll instance. What a descriptor is ready for is told again until it is served.
pub(crate) struct Poller(OwnedFd);

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        Ok(Poller(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches a descriptor until it is closed.
    pub(crate) fn add(&self, watched: impl AsFd, token: u64, interest: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.0, watched, EventData::new_u64(token), interest)?)
    }

    /// Watches it for something else.
    pub(crate) fn change(&self, watched: impl AsFd, token: u64, interest: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(
            &self.0,
            watched,
            EventData::new_u64(token),
            interest,
        )?)
    }

    /// Waits at most `wait_ns` (0: not at all) for `events`.
    pub(crate) fn wait(&self, wait_ns: u64, events: &mut Vec<Event>) -> io::Result<()> {
        let wait = Timespec {
            tv_sec: (wait_ns / 1_000_000_000) as i64,
            tv_nsec: (wait_ns % 1_000_000_000) as i64,
        };
        events.clear();
        events.reserve(EVENTS_MAX);
        match epoll::wait(&self.0, spare_capacity(events), Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Ends a wait of a poller from another thread.
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub(crate) fn new() -> io::Result<Wake> {
        Ok(Wake(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn wake(&self) {
        // A counter that is full has woken already.
        let _full = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes what was told, so that the next wait is one.
    pub(crate) fn clear(&self) {
        let _empty = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Lets the calling thread's timed waits end as soon as the kernel can, instead of up to 50 µs later.
pub(crate) fn wake_precisely() {
    // A kernel that refuses leaves the default.
    let _refused = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
