//! Records made again by several threads: each has keys of its own, so that what becomes of a key is made in the log's order.
//!
//! Not how a change is made (`replay`), and not reading (`recover`). Invariants: behind [`by_several`] all records that were handed over are made,
//! or the first fault in them is known; no more than a few parts of the log are in memory.

use std::num::NonZero;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};

use millpond_wal::{BrokenRun, Record, segment_path};

use crate::Error;
use crate::index::Index;
use crate::record::Logged;
use crate::replay::plain;
use crate::tree::{BROUGHT_AT_ONCE, Change};

/// More threads than this are not faster.
const THREADS_MAX: usize = 8;
/// Records, and their bytes, that are handed over together, beside one that has more.
const PART_RECORDS: usize = 1024;
const PART_BYTES: usize = 256 << 10;
/// Parts that wait for a thread.
const WAITING: usize = 2;
/// Keys that differ in so many bytes at their ends alone are one thread's: neighbours, which come one behind the other in many logs, lie in one leaf,
/// and threads would wait for each other at it.
const NEIGHBOURS_BYTES: usize = 2;

/// Hands the records that `read` reads from the log in a folder over to as many threads as there are processors, and waits for them.
///
/// # Errors
/// Those of `read`; before them, that a record cannot be made of what its keys hold, which no sound log has.
pub(crate) fn by_several<R>(
    dir: &Path,
    index: &Index,
    read: impl FnOnce(&mut Several<'_, '_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    by_threads(threads.min(THREADS_MAX), dir, index, read)
}

/// The same by so many.
pub(super) fn by_threads<R>(
    threads: usize,
    dir: &Path,
    index: &Index,
    read: impl FnOnce(&mut Several<'_, '_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let first = Mutex::new(None);
    let read = thread::scope(|scope| {
        let mut several = Several {
            threads,
            scope,
            workers: Vec::new(),
            index,
            part: Part::default(),
            first: &first,
        };
        let read = read(&mut several);
        // Where that stops, the fault says why.
        let _ = several.hand_over();
        read
    });
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(Fault { place, found }) => Err(Error::Damaged {
            file: segment_path(dir, place.segment),
            offset: place.offset,
            found,
        }),
        None => read,
    }
}

/// Where a record begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    segment: u64,
    offset: u64,
}

/// A record that cannot be made, and why.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Fault {
    place: Place,
    found: String,
}

/// The first fault of all threads.
type First = Mutex<Option<Fault>>;

fn note(first: &First, fault: Fault) {
    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
    if first.as_ref().is_none_or(|first| fault < *first) {
        *first = Some(fault);
    }
}

/// The threads, which begin with the first part that is full, and what they get next.
pub(crate) struct Several<'scope, 'env> {
    threads: usize,
    scope: &'scope Scope<'scope, 'env>,
    workers: Vec<SyncSender<Arc<Part>>>,
    index: &'env Index,
    part: Part,
    first: &'env First,
}

impl Several<'_, '_> {
    /// Takes a record in; whether a copy of the index may have some of it already.
    ///
    /// # Errors
    /// One of the records before it could not be made: there is no use in further ones.
    pub fn take(&mut self, record: &Record<'_>, may_be_covered: bool) -> Result<(), BrokenRun> {
        self.part.add(record, may_be_covered);
        if self.part.records.len() < PART_RECORDS && self.part.bodies.len() < PART_BYTES {
            return Ok(());
        }
        self.start();
        self.hand_over()
    }

    /// Starts the threads, unless they were; fewer where the system has no more, and none where one would be alone.
    pub(super) fn start(&mut self) {
        let threads = std::mem::replace(&mut self.threads, 0);
        for number in (0..threads).filter(|_| threads > 1) {
            let (sender, parts) = sync_channel(WAITING);
            let (index, first) = (self.index, self.first);
            let name = format!("ordered-replay-{number}");
            let worker = thread::Builder::new().name(name);
            let started = worker.spawn_scoped(self.scope, move || work(index, number, &parts, first));
            if started.is_err() {
                break;
            }
            self.workers.push(sender);
        }
    }

    pub(super) fn hand_over(&mut self) -> Result<(), BrokenRun> {
        let mut part = std::mem::take(&mut self.part);
        part.shares = self.workers.len();
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
#[derive(Default)]
struct Part {
    bodies: Vec<u8>,
    records: Vec<Held>,
    /// Threads that share its keys; 0 where one makes all of them.
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

    /// Whether a thread makes the changes of a key.
    fn is_of(&self, key: &[u8], number: usize) -> bool {
        let Some(shares) = NonZero::new(self.shares) else {
            return true;
        };
        let alike = key.len().saturating_sub(NEIGHBOURS_BYTES);
        crc32c::crc32c(key.get(..alike).unwrap_or_default()) as usize % shares == number
    }

    /// Makes the changes of the keys that one thread has.
    fn make(&self, index: &Index, number: usize) -> Result<(), Fault> {
        let mut next: Vec<Change<'_>> = Vec::with_capacity(BROUGHT_AT_ONCE);
        let mut begin = 0;
        for held in &self.records {
            let body = self.bodies.get(begin..held.end).unwrap_or_default();
            begin = held.end;
            let record = Logged::sound(held.kind, body);
            if record.has_edits() || held.may_be_covered {
                index.apply_in_turn(&mut next);
                let made = record.replay(index, held.may_be_covered, |key| self.is_of(key, number));
                made.map_err(|found| Fault {
                    place: held.place,
                    found: found.to_string(),
                })?;
                continue;
            }
            let entries = record.entries().zip(record.first_version..);
            for (entry, version) in entries.filter(|(entry, _)| self.is_of(entry.key, number)) {
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
