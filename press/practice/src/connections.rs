//! The connections of one event loop: reading, holding requests back, answering, closing.
//!
//! It does not know when an answer is due; that is the behaviour's. Its invariant: what it holds of a connection is bounded, beyond
//! which that connection is not read until it has been answered.

use crate::bytes::Bytes;
use crate::clock::Clock;
use crate::stop::Stop;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// A connection is not read while this much of it waits for its answer or to be written.
const HELD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// One connection of a loop; the serial number tells it from an earlier one in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
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
    waiting: Bytes,
    /// Answers that are to be written.
    out: Bytes,
    phase: Phase,
    /// The far end writes no more.
    ended: bool,
    /// It is not read, because too much of it is held.
    paused: bool,
    /// It stands in the list of those to flush.
    dirty: bool,
}

/// What one read gave.
pub(crate) enum Reading {
    /// `whole` bytes of whole requests lie at the start of the buffer; `more` may be there to read.
    Some { whole: usize, at_ns: u64, more: bool },
    /// Nothing to read now, or no connection any more.
    None,
}

/// All connections of one loop.
pub(crate) struct Connections {
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
    serials: u32,
    dirty: Vec<Id>,
    /// Those that are to be read without an event: they were paused, or had their turn.
    due_reads: Vec<Id>,
    request_bytes: usize,
    held_bytes_max: usize,
    pub(crate) clock: Clock,
    stop: Arc<Stop>,
}

impl Connections {
    /// None yet. At least `requests_max` requests of one connection may be held.
    pub(crate) fn new(
        request_bytes: usize,
        requests_max: usize,
        clock: Clock,
        stop: Arc<Stop>,
    ) -> Connections {
        Connections {
            slots: Vec::new(),
            free: Vec::new(),
            serials: 0,
            dirty: Vec::new(),
            due_reads: Vec::new(),
            request_bytes,
            held_bytes_max: HELD_BYTES_MAX.max(request_bytes.saturating_mul(requests_max)),
            clock,
            stop,
        }
    }

    pub(crate) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Whether the server is to end: long work asks now and then.
    pub(crate) fn stopping(&self) -> bool {
        self.stop.told()
    }

    /// Sleeps, less long if the server is to end.
    pub(crate) fn sleep_ns(&self, length_ns: u64) {
        self.stop.sleep(Duration::from_nanos(length_ns));
    }

    /// Takes a connection in; its slot is the token of its events.
    pub(crate) fn insert(&mut self, stream: TcpStream) -> io::Result<Id> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.serials = self.serials.wrapping_add(1);
        let connection = Connection {
            stream,
            serial: self.serials,
            partial: Vec::new(),
            waiting: Bytes::default(),
            out: Bytes::default(),
            phase: Phase::Open,
            ended: false,
            paused: false,
            dirty: false,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(connection);
        Ok(Id {
            slot,
            serial: self.serials,
        })
    }

    /// The connection in a slot now.
    pub(crate) fn at(&self, slot: u32) -> Option<Id> {
        let connection = self.slots.get(slot as usize)?.as_ref()?;
        Some(Id {
            slot,
            serial: connection.serial,
        })
    }

    pub(crate) fn socket(&self, id: Id) -> Option<&impl AsRawFd> {
        self.get(id).map(|connection| &connection.stream)
    }

    /// Whether it is there and may be answered.
    pub(crate) fn is_open(&self, id: Id) -> bool {
        self.get(id)
            .is_some_and(|connection| connection.phase == Phase::Open)
    }

    fn get(&self, id: Id) -> Option<&Connection> {
        let connection = self.slots.get(id.slot as usize)?.as_ref()?;
        (connection.serial == id.serial).then_some(connection)
    }

    fn get_mut(&mut self, id: Id) -> Option<&mut Connection> {
        let connection = self.slots.get_mut(id.slot as usize)?.as_mut()?;
        (connection.serial == id.serial).then_some(connection)
    }

    /// Drops it; the system closes what is open.
    pub(crate) fn remove(&mut self, id: Id) {
        if self.get(id).is_some() {
            self.slots[id.slot as usize] = None;
            self.free.push(id.slot);
        }
    }

    /// Reads once into a buffer that is longer than a request.
    pub(crate) fn read(&mut self, id: Id, buffer: &mut [u8]) -> Reading {
        let (request_bytes, held_bytes_max, clock) = (self.request_bytes, self.held_bytes_max, self.clock);
        let Some(connection) = self.get_mut(id) else {
            return Reading::None;
        };
        if connection.phase == Phase::Open && connection.held() >= held_bytes_max {
            connection.paused = true;
            return Reading::None;
        }
        let kept = connection.partial.len();
        buffer[..kept].copy_from_slice(&connection.partial);
        let room = buffer.len() - kept;
        match connection.stream.read(&mut buffer[kept..]) {
            Ok(0) => self.end(id),
            Ok(_) if connection.phase != Phase::Open => {
                connection.partial.clear();
                let (whole, at_ns, more) = (0, 0, true);
                return Reading::Some { whole, at_ns, more };
            }
            Ok(count) => {
                let at_ns = clock.now_ns();
                let (total, more) = (kept + count, count == room);
                let whole = total - total % request_bytes;
                connection.partial.clear();
                connection.partial.extend_from_slice(&buffer[whole..total]);
                return Reading::Some { whole, at_ns, more };
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => self.read_later(id),
            Err(_) => self.remove(id),
        }
        Reading::None
    }

    /// The far end writes no more: what is due to it still goes.
    fn end(&mut self, id: Id) {
        if let Some(connection) = self.get_mut(id) {
            connection.ended = true;
            if connection.is_over() {
                self.remove(id);
            }
        }
    }

    /// Reads it again in the next pass.
    pub(crate) fn read_later(&mut self, id: Id) {
        self.due_reads.push(id);
    }

    pub(crate) fn has_due_reads(&self) -> bool {
        !self.due_reads.is_empty()
    }

    pub(crate) fn take_due_reads(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.due_reads)
    }

    /// Answers these bytes with the next flush.
    pub(crate) fn send(&mut self, id: Id, bytes: &[u8]) {
        if let Some(connection) = self.get_mut(id).filter(|found| found.phase == Phase::Open) {
            connection.out.push(bytes);
            self.flush_later(id);
        }
    }

    /// Keeps requests that were read; `answer` echoes the oldest.
    pub(crate) fn hold(&mut self, id: Id, requests: &[u8]) {
        if let Some(connection) = self.get_mut(id).filter(|found| found.phase == Phase::Open) {
            connection.waiting.push(requests);
        }
    }

    /// Echoes the oldest request that is held, with the next flush.
    pub(crate) fn answer(&mut self, id: Id) {
        let request_bytes = self.request_bytes;
        let Some(connection) = self.get_mut(id).filter(|found| found.phase == Phase::Open) else {
            return;
        };
        let held = connection.waiting.as_slice();
        connection.out.push(&held[..request_bytes.min(held.len())]);
        connection.waiting.skip(request_bytes);
        self.flush_later(id);
    }

    /// Closes it once what was answered is written; what is held is dropped.
    pub(crate) fn close(&mut self, id: Id) {
        if let Some(connection) = self.get_mut(id).filter(|found| found.phase == Phase::Open) {
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
        if let Some(connection) = self.get_mut(id)
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
        let held_bytes_max = self.held_bytes_max;
        let Some(connection) = self.get_mut(id) else {
            return;
        };
        connection.dirty = false;
        if connection.write().is_err() || connection.is_over() {
            return self.remove(id);
        }
        let resumes = connection.held() < held_bytes_max || connection.phase == Phase::Closed;
        if connection.paused && resumes {
            connection.paused = false;
            self.read_later(id);
        }
    }
}

impl Connection {
    /// How much of it is in memory.
    fn held(&self) -> usize {
        self.waiting.len() + self.out.len()
    }

    /// Nothing comes from the far end and nothing is due to it.
    fn is_over(&self) -> bool {
        self.ended && self.held() == 0
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(self.out.as_slice()) {
                Ok(count) => self.out.skip(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.phase == Phase::Closing {
            self.phase = Phase::Closed;
            self.stream.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}
