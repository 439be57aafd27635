//! Writes of a store without a log, which their callers' threads make themselves.
//!
//! Large ones still go by the queue, so that no net thread stands over them. Invariants: while a write looks at keys and changes them nobody
//! else changes any; the versions of a key ascend.

use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond_wal::{Pending, Queue, Work as _};

use crate::counter::thread_number;
use crate::error::{WriteError, check_ttl};
use crate::eviction::Room;
use crate::index::{Index, entry_bytes};
use crate::judge::{Judge, Refusal, expires_ms};
use crate::put::KEY_BYTES_MAX;
use crate::record::Accepted;
use crate::space::lacking;
use crate::sweep::Sweep;
use crate::tree::{Content, Near};
use crate::write::{Write, Written};
use crate::{Durability, Error};

/// A write that takes or copies more goes by the queue.
const AT_ONCE_BYTES_MAX: usize = 64 << 10;
/// Threads that put at the same time without a wait for each other, mostly.
const GATES: usize = 16;
/// How often it is looked whether there are entries that expire by now.
const LOOKED_FOR_EVERY: Duration = Duration::from_secs(1);

/// What became of a write.
type Made = Result<Written, WriteError>;

/// Held by whoever writes: one gate by a put that looks at nothing, all of them by others. Two lines, as processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Gate(Mutex<()>);

impl Gate {
    fn enter(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The content of a store without a log.
pub(crate) struct Memory {
    index: Arc<Index>,
    room: Arc<Room>,
    next_version: AtomicU64,
    gates: [Gate; GATES],
    is_closed: AtomicBool,
    /// Writes of the queue that are not answered yet: nobody overtakes them, or stands at the gates for them.
    queued: AtomicUsize,
}

impl Memory {
    pub fn new(index: Arc<Index>, room: Arc<Room>) -> Memory {
        Memory {
            index,
            room,
            next_version: AtomicU64::new(1),
            gates: Default::default(),
            is_closed: AtomicBool::new(false),
            queued: AtomicUsize::new(0),
        }
    }

    pub fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// Makes no more writes at once: the queue says why.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Makes the writes of the queue until it is closed and empty.
    pub fn run(&self, queue: &Queue<Write>) -> Result<(), Error> {
        let mut sweep = Sweep::default();
        let next = |sweep: &Sweep| {
            // Nobody wakes it for the first entry that expires.
            let wait = sweep.wait(&self.index, &self.room).unwrap_or(LOOKED_FOR_EVERY);
            queue.take_within(AT_ONCE_BYTES_MAX, wait)
        };
        while let Some(group) = next(&sweep) {
            let entered = self.enter();
            let written = |pending: Pending<Write>| {
                // It may copy whatever there is: it does not come back.
                let made = self.write_entered(pending.work, usize::MAX);
                (pending.reply, made.unwrap_or(Err(WriteError::Empty)))
            };
            let answers: Vec<_> = group.into_iter().map(written).collect();
            drop(entered);
            for (reply, answer) in answers {
                reply.send(answer);
                self.left_queue();
            }
            self.sweep(&mut sweep);
        }
        Ok(())
    }

    fn sweep(&self, sweep: &mut Sweep) {
        if sweep.wait(&self.index, &self.room) != Some(Duration::ZERO) {
            return;
        }
        let _entered = self.enter();
        let next_version = self.next_version.load(Ordering::Relaxed);
        let due = sweep.due(&self.index, &self.room);
        if !due.keys.is_empty() {
            let accepted = Accepted::removing(due.keys, (next_version, 0));
            self.next_version
                .store(accepted.next_version(), Ordering::Relaxed);
            self.room.count(due.evicted);
            self.index.remove_in_parts(accepted.changes());
        }
    }

    /// A write is about to go by the queue.
    pub fn joins_queue(&self) {
        self.queued.fetch_add(1, Ordering::AcqRel);
    }

    /// It was made, or not taken in.
    pub fn left_queue(&self) {
        self.queued.fetch_sub(1, Ordering::AcqRel);
    }

    /// Makes a write, unless it has to go by the queue.
    pub fn write_at_once(&self, write: Write) -> Result<Made, Write> {
        if let Write::Put(put) = &write
            && let ([(key, value)], false) = (put.entries.as_slice(), put.reads())
            && let Some(version) = self.put_at_once(key, value, put.ttl_ms)
        {
            return Ok(Ok(Written {
                versions: vec![version],
                effects: Vec::new(),
                durability: Durability::Memory,
            }));
        }
        // Nor is a caller to wait for many others that give way, with all gates held.
        let lacks_little = || lacking(&self.index, &self.room, &write) <= AT_ONCE_BYTES_MAX as u64;
        match AT_ONCE_BYTES_MAX.checked_sub(write.bytes()) {
            Some(left) if !self.has_to_queue() && lacks_little() => {
                let _entered = self.enter();
                self.write_entered(write, left)
            }
            _ => Err(write),
        }
    }

    /// Puts a key whatever it has; its version, `None` where the put has to go by the queue, may take more memory than there is, or is refused.
    pub fn put_at_once(&self, key: &[u8], value: &[u8], ttl_ms: Option<u64>) -> Option<u64> {
        let is_small = key.len() <= KEY_BYTES_MAX && key.len() + value.len() <= AT_ONCE_BYTES_MAX;
        if !is_small || check_ttl(ttl_ms).is_err() || self.has_to_queue() {
            return None;
        }
        self.put(key, value, ttl_ms)
    }

    /// Whether writes wait that are not to be overtaken, or none is made any more.
    fn has_to_queue(&self) -> bool {
        self.queued.load(Ordering::Acquire) > 0 || self.is_closed.load(Ordering::Acquire)
    }

    /// Puts a key whatever it has; `None` where that may take more memory than there is.
    fn put(&self, key: &[u8], value: &[u8], ttl_ms: Option<u64>) -> Option<u64> {
        let content = Content {
            key,
            value,
            version: 0,
            is_list: false,
            expires_ms: expires_ms(|| self.index.clock().now_ms(), ttl_ms),
        };
        let gate = self.gates.get(thread_number() % GATES)?;
        let _entered = gate.enter();
        let bytes = entry_bytes(key.len(), value.len(), content.expires_ms);
        self.index.reserve(bytes, self.room.bytes_max).then(|| {
            self.index
                .put_reserved(content, || self.next_version.fetch_add(1, Ordering::Relaxed))
        })
    }

    /// Keeps all others from writing.
    fn enter(&self) -> [MutexGuard<'_, ()>; GATES] {
        self.gates.each_ref().map(Gate::enter)
    }

    /// Makes any write, beside no other; it comes back where it copies more than so many bytes.
    fn write_entered(&self, write: Write, copied_bytes_max: usize) -> Result<Made, Write> {
        let next_version = self.next_version.load(Ordering::Relaxed);
        let mut judge = Judge::new(&self.index, &self.room, next_version, iter::once(&write));
        judge.copied_bytes_max = copied_bytes_max;
        // Nothing was judged before it: it does not come back for space.
        if let Some(write) = judge.judge(write) {
            return Err(write);
        }
        let (mut verdicts, next_version) = judge.finish();
        self.next_version.store(next_version, Ordering::Relaxed);
        Ok(match verdicts.pop() {
            Some(Ok(accepted)) => {
                self.room.count(accepted.evicted());
                accepted.apply_to(&self.index, Near::default());
                Ok(accepted.written(Durability::Memory))
            }
            Some(Err(Refusal { error, .. })) => Err(error),
            None => Err(WriteError::Empty),
        })
    }
}
