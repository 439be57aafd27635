//! Records made again by several threads: each has keys of its own, so that what becomes of a key is made in the log's order.
//!
//! Not how a change is made (`replay`), and not reading (`recover`). Invariants: behind [`by_several`] all records that were handed over are made,
//! or the first fault in them is known; no more than a few parts of the log are in memory.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use millpond_wal::{BrokenRun, Record, segment_path};

use crate::Error;
use crate::index::Index;
use crate::record::Logged;
use crate::replay::plain;
use crate::tree::{BROUGHT_AT_ONCE, Change};

/// More threads than this are not faster.
const THREADS_MAX: usize = 8;
/// Bytes of records that are handed over together, beside one that has more.
const PART_BYTES: usize = 256 << 10;
/// Parts that wait for a thread.
const WAITING: usize = 2;

/// Hands the records that `read` reads from the log in a folder over to as many threads as there are processors, and waits for them.
///
/// # Errors
/// Those of `read`; a record cannot be made of what its keys hold, which no sound log has.
pub(crate) fn by_several<R>(
    dir: &Path,
    index: &Index,
    read: impl FnOnce(&mut Several<'_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    by_threads(threads.min(THREADS_MAX), dir, index, read)
}

/// The same by so many.
pub(super) fn by_threads<R>(
    threads: usize,
    dir: &Path,
    index: &Index,
    read: impl FnOnce(&mut Several<'_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let first = Mutex::new(None);
    let read = thread::scope(|scope| {
        let mut workers = Vec::new();
        // A thread beside this one is no faster than this one alone.
        for number in (0..threads).filter(|_| threads > 1) {
            let (sender, parts) = sync_channel(WAITING);
            let first = &first;
            let name = format!("ordered-replay-{number}");
            let worker = thread::Builder::new().name(name);
            let started = worker.spawn_scoped(scope, move || work(index, number, &parts, first));
            // The others do it where the system has no more threads.
            if started.is_err() {
                break;
            }
            workers.push(sender);
        }
        let part = Part::of(workers.len());
        let mut several = Several {
            index,
            workers,
            part,
            first: &first,
        };
        let read = read(&mut several)?;
        // Where it stops, the fault says why.
        let _ = several.hand_over();
        Ok(read)
    });
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(Fault { place, found }) => {
            let file = segment_path(dir, place.segment);
            Err(Error::Damaged {
                file,
                offset: place.offset,
                found: found.to_string(),
            })
        }
        None => read,
    }
}

/// Where a record begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    segment: u64,
    offset: u64,
}

/// A record that cannot be made.
struct Fault {
    place: Place,
    found: BrokenRun,
}

/// The first fault of all threads.
type First = Mutex<Option<Fault>>;

fn note(first: &First, fault: Fault) {
    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
    if first.as_ref().is_none_or(|first| fault.place < first.place) {
        *first = Some(fault);
    }
}

/// The threads, and what they get next.
pub(crate) struct Several<'a> {
    index: &'a Index,
    workers: Vec<SyncSender<Arc<Part>>>,
    part: Part,
    first: &'a First,
}

impl Several<'_> {
    /// Takes a record in; whether a copy of the index may have some of it already.
    ///
    /// # Errors
    /// One of the records before it could not be made: there is no use in further ones.
    pub fn take(&mut self, record: &Record<'_>, may_be_covered: bool) -> Result<(), BrokenRun> {
        self.part.add(record, may_be_covered);
        match self.part.bodies.len() < PART_BYTES {
            true => Ok(()),
            false => self.hand_over(),
        }
    }

    pub(super) fn hand_over(&mut self) -> Result<(), BrokenRun> {
        let next = Part::of(self.workers.len());
        let part = std::mem::replace(&mut self.part, next);
        let stopped = || BrokenRun::because("a record before it could not be made again".into());
        if self.workers.is_empty() {
            return part.make(self.index, 0).map_err(|fault| {
                note(self.first, fault);
                stopped()
            });
        }
        let part = Arc::new(part);
        let mut workers = self.workers.iter();
        workers.try_for_each(|worker| worker.send(Arc::clone(&part)).map_err(|_| stopped()))
    }
}

/// Makes the changes of one thread's keys, until there are no more or a record cannot be made.
fn work(index: &Index, number: usize, parts: &Receiver<Arc<Part>>, first: &First) {
    for part in parts {
        if let Err(fault) = part.make(index, number) {
            return note(first, fault);
        }
    }
}

/// Records one behind the other.
struct Part {
    bodies: Vec<u8>,
    records: Vec<Held>,
    /// Threads that share its keys.
    shares: usize,
}

/// A record whose body lies in the part.
struct Held {
    place: Place,
    kind: u8,
    /// Where its body ends.
    end: usize,
    may_be_covered: bool,
}

impl Part {
    fn of(workers: usize) -> Part {
        Part {
            bodies: Vec::new(),
            records: Vec::new(),
            shares: workers.max(1),
        }
    }

    fn add(&mut self, record: &Record<'_>, may_be_covered: bool) {
        self.bodies.extend_from_slice(record.body);
        self.records.push(Held {
            place: Place {
                segment: record.segment,
                offset: record.offset,
            },
            kind: record.kind,
            end: self.bodies.len(),
            may_be_covered,
        });
    }

    /// Makes the changes of the keys that one thread has.
    fn make(&self, index: &Index, number: usize) -> Result<(), Fault> {
        let is_own = |key: &[u8]| self.shares == 1 || crc32c::crc32c(key) as usize % self.shares == number;
        let mut next: Vec<Change<'_>> = Vec::with_capacity(BROUGHT_AT_ONCE);
        let mut begin = 0;
        for held in &self.records {
            let body = self.bodies.get(begin..held.end).unwrap_or_default();
            begin = held.end;
            let record = Logged::sound(held.kind, body);
            if record.has_edits() || held.may_be_covered {
                index.apply_in_turn(&mut next);
                let made = record.replay(index, held.may_be_covered, is_own);
                made.map_err(|found| Fault {
                    place: held.place,
                    found,
                })?;
                continue;
            }
            let entries = record.entries().zip(record.first_version..);
            for (entry, version) in entries.filter(|(entry, _)| is_own(entry.key)) {
                next.push(plain(&entry, version));
                if next.len() == BROUGHT_AT_ONCE {
                    index.apply_in_turn(&mut next);
                }
            }
        }
        index.apply_in_turn(&mut next);
        Ok(())
    }
}
