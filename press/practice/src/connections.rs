//! The connections of one event loop: reading, holding requests back, answering, closing.
//!
//! It does not know when an answer is due; that is the behaviour's. Its invariant: what it holds of a connection is bounded, beyond
//! which that connection is not read until it has been answered.

use crate::poller::Poller;
use crate::running::Stop;
use rustix::event::epoll::EventFlags;
use slab::Slab;
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection is not read while this much of it waits for its answer or to be written.
const HELD_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A connection without unwritten answers gives memory beyond this back.
const OUT_BYTES_KEPT: usize = 256 * 1024;

/// One connection of a loop; the serial number tells it from an earlier one in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
}

impl Id {
    fn token(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.slot)
    }

    /// The connection of an event.
    pub(crate) fn of(token: u64) -> Id {
        Id {
            slot: token as u32,
            serial: (token >> 32) as u32,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// What is to be written still is; then the far end is told that nothing more comes.
    Closing,
    /// It was told. What comes is read and thrown away, since closing on unread bytes would reset.
    Closed,
}

struct Connection {
    stream: TcpStream,
    serial: u32,
    /// The beginning of a request whose rest has not come.
    partial: Vec<u8>,
    /// Requests that were read and are answered later.
    waiting: VecDeque<u8>,
    /// Answers that are to be written.
    out: VecDeque<u8>,
    phase: Phase,
    /// The far end writes no more.
    ended: bool,
    /// What the poller watches it for.
    interest: EventFlags,
    /// It stands in the list of those to flush.
    dirty: bool,
}

/// All connections of one loop.
pub(crate) struct Connections {
    slots: Slab<Connection>,
    serials: u32,
    dirty: Vec<Id>,
    request_bytes: usize,
    held_bytes_max: usize,
    pub(crate) poller: Poller,
    /// What the server's times are counted from.
    origin: Instant,
    stop: Arc<Stop>,
}

impl Connections {
    /// None yet. At least `requests_max` requests of one connection may be held.
    pub(crate) fn new(
        request_bytes: usize,
        requests_max: usize,
        origin: Instant,
        stop: &Arc<Stop>,
    ) -> io::Result<Connections> {
        Ok(Connections {
            slots: Slab::new(),
            serials: 0,
            dirty: Vec::new(),
            request_bytes,
            held_bytes_max: HELD_BYTES_MAX.max(request_bytes.saturating_mul(requests_max)),
            poller: Poller::new()?,
            origin,
            stop: Arc::clone(stop),
        })
    }

    pub(crate) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Whether the server is to end: long work asks now and then.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Nanoseconds on the clock that all threads of the server share.
    pub(crate) fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Takes a connection in.
    pub(crate) fn insert(&mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.serials = self.serials.wrapping_add(1);
        let entry = self.slots.vacant_entry();
        let id = Id {
            slot: entry.key() as u32,
            serial: self.serials,
        };
        self.poller.add(&stream, id.token(), EventFlags::IN)?;
        entry.insert(Connection {
            stream,
            serial: self.serials,
            partial: Vec::new(),
            waiting: VecDeque::new(),
            out: VecDeque::new(),
            phase: Phase::Open,
            ended: false,
            interest: EventFlags::IN,
            dirty: false,
        });
        Ok(())
    }

    fn get(&mut self, id: Id) -> Option<&mut Connection> {
        let connection = self.slots.get_mut(id.slot as usize)?;
        (connection.serial == id.serial).then_some(connection)
    }

    /// A connection that may be answered.
    fn open(&mut self, id: Id) -> Option<&mut Connection> {
        self.get(id).filter(|found| found.phase == Phase::Open)
    }

    pub(crate) fn is_open(&mut self, id: Id) -> bool {
        self.open(id).is_some()
    }

    /// Drops it; the system closes what is open.
    fn remove(&mut self, id: Id) {
        if self.get(id).is_some() {
            self.slots.remove(id.slot as usize);
        }
    }

    /// Reads once into a buffer that is longer than a request. Gives how many bytes of whole requests lie at its start, and
    /// when they were read.
    pub(crate) fn read(&mut self, id: Id, buffer: &mut [u8]) -> Option<(usize, u64)> {
        let request_bytes = self.request_bytes;
        let connection = self.get(id)?;
        let kept = connection.partial.len();
        buffer[..kept].copy_from_slice(&connection.partial);
        match connection.stream.read(&mut buffer[kept..]) {
            Ok(0) => {
                // What is due to the far end still goes.
                connection.ended = true;
                self.settle(id);
            }
            Ok(count) if connection.phase == Phase::Open => {
                let total = kept + count;
                let whole = total - total % request_bytes;
                connection.partial.clear();
                connection.partial.extend_from_slice(&buffer[whole..total]);
                return Some((whole, self.now_ns()));
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.remove(id),
        }
        None
    }

    /// Answers these bytes with the next flush.
    pub(crate) fn send(&mut self, id: Id, bytes: &[u8]) {
        if let Some(connection) = self.open(id) {
            connection.out.extend(bytes);
            self.flush_later(id);
        }
    }

    /// Keeps requests that were read; `answer` echoes the oldest.
    pub(crate) fn hold(&mut self, id: Id, requests: &[u8]) {
        if let Some(connection) = self.open(id) {
            connection.waiting.extend(requests);
        }
    }

    /// Echoes the oldest request that is held, with the next flush.
    pub(crate) fn answer(&mut self, id: Id) {
        let request_bytes = self.request_bytes;
        if let Some(Connection { waiting, out, .. }) = self.open(id) {
            let count = request_bytes.min(waiting.len());
            let (front, back) = waiting.as_slices();
            let in_front = count.min(front.len());
            out.extend(&front[..in_front]);
            out.extend(&back[..count - in_front]);
            waiting.drain(..count);
            self.flush_later(id);
        }
    }

    /// Closes it once what was answered is written; what is held is dropped.
    pub(crate) fn close(&mut self, id: Id) {
        if let Some(connection) = self.open(id) {
            connection.phase = Phase::Closing;
            connection.waiting.clear();
            connection.partial.clear();
            self.flush_later(id);
        }
    }

    /// Resets it: the far end's next read or write fails.
    pub(crate) fn reset(&mut self, id: Id) {
        if let Some(connection) = self.get(id) {
            let _gone = SockRef::from(&connection.stream).set_linger(Some(Duration::ZERO));
            self.remove(id);
        }
    }

    fn flush_later(&mut self, id: Id) {
        if let Some(connection) = self.get(id)
            && !std::mem::replace(&mut connection.dirty, true)
        {
            self.dirty.push(id);
        }
    }

    /// Writes what was answered since the last time.
    pub(crate) fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            self.flush_one(id);
        }
        self.dirty = dirty;
    }

    /// Writes what one connection takes now; the rest goes when it is told to be writable.
    pub(crate) fn flush_one(&mut self, id: Id) {
        if let Some(connection) = self.get(id) {
            connection.dirty = false;
            match connection.write() {
                Ok(()) => self.settle(id),
                Err(_) => self.remove(id),
            }
        }
    }

    /// Watches a connection for what it waits for now, and drops one that waits for nothing.
    pub(crate) fn settle(&mut self, id: Id) {
        let held_bytes_max = self.held_bytes_max;
        let Some(connection) = self.get(id) else { return };
        if connection.ended && connection.held() == 0 {
            return self.remove(id);
        }
        let is_full = connection.phase == Phase::Open && connection.held() >= held_bytes_max;
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, !connection.ended && !is_full);
        interest.set(EventFlags::OUT, !connection.out.is_empty());
        if std::mem::replace(&mut connection.interest, interest) != interest {
            let stream = &self.slots[id.slot as usize].stream;
            if self.poller.change(stream, id.token(), interest).is_err() {
                self.remove(id);
            }
        }
    }
}

impl Connection {
    /// How much of it is in memory.
    fn held(&self) -> usize {
        self.waiting.len() + self.out.len()
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            let (front, back) = self.out.as_slices();
            match self
                .stream
                .write_vectored(&[IoSlice::new(front), IoSlice::new(back)])
            {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.shrink_to(OUT_BYTES_KEPT);
        if self.phase == Phase::Closing {
            self.phase = Phase::Closed;
            self.stream.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}
