//! Which sockets of a net thread are ready, and the wake-up of other threads.
//!
//! Events are edge-triggered, so that watching costs a connection one system call in its life; the connection remembers its
//! last event. Its invariant: an event names the key that its socket was added with, or is the wake-up.

use crate::mailbox::Key;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Events that one wait takes.
const EVENTS_MAX: usize = 512;
/// Stands for the wake-up; no slot reaches it.
const WAKE_UP: u64 = u64::MAX;

/// One epoll instance.
pub(crate) struct Poller {
    epoll: OwnedFd,
    room: Vec<MaybeUninit<epoll::Event>>,
}

/// What a connection's socket is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Where the connection is.
    pub(crate) slot: usize,
    /// The low half of its generation: a slot that was used again since does not match.
    pub(crate) generation: u32,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The peer sends no more.
    pub(crate) ended: bool,
    /// And takes no more: it has closed all of it, or reset it.
    pub(crate) gone: bool,
}

/// Wakes the thread that waits; several before it has waited again are one.
#[derive(Debug)]
pub(crate) struct WakeUp(OwnedFd);

impl WakeUp {
    pub(crate) fn new() -> io::Result<WakeUp> {
        Ok(WakeUp(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    pub(crate) fn send(&self) {
        // It fails only when 2^64 of them wait already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

#[cfg(test)]
impl From<WakeUp> for OwnedFd {
    fn from(wake_up: WakeUp) -> OwnedFd {
        wake_up.0
    }
}

impl AsFd for WakeUp {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An epoll instance that watches `wake_up`, and nothing else yet.
pub(crate) fn watch(wake_up: &WakeUp) -> io::Result<OwnedFd> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, wake_up, EventData::new_u64(WAKE_UP), EventFlags::IN)?;
    Ok(epoll)
}

impl Poller {
    /// Waits on what [`watch`] made, on the thread that will: the room for events cannot change threads.
    pub(crate) fn new(epoll: OwnedFd) -> Poller {
        Poller {
            epoll,
            room: vec![MaybeUninit::uninit(); EVENTS_MAX],
        }
    }

    /// Watches a socket until it is closed.
    pub(crate) fn add(&self, socket: impl AsFd, key: Key) -> io::Result<()> {
        let data = (key.generation << 32) | (key.slot as u64 & u64::from(u32::MAX));
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(data),
            interest,
        )?)
    }

    /// Waits (for ever, where no span is given) and hands each ready socket to `each`; returns whether there was a wake-up.
    pub(crate) fn wait(&mut self, span: Option<Duration>, mut each: impl FnMut(Ready)) -> io::Result<bool> {
        let span = span.map(timespec);
        let (events, _) = match epoll::wait(&self.epoll, self.room.as_mut_slice(), span.as_ref()) {
            Ok(events) => events,
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut woken = false;
        for event in events.iter() {
            let (data, flags) = (event.data.u64(), event.flags);
            if data == WAKE_UP {
                woken = true;
                continue;
            }
            let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            let gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            each(Ready {
                slot: (data & u64::from(u32::MAX)) as usize,
                generation: (data >> 32) as u32,
                readable: ended || flags.contains(EventFlags::IN),
                writable: gone || flags.contains(EventFlags::OUT),
                ended,
                gone,
            });
        }
        Ok(woken)
    }
}

fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}
