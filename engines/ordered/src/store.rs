//! The store as its callers see it: opening, reading, putting, closing.
//!
//! Holds threads and locks together; the work is in the modules below it. Invariant: every put taken
//! in is answered, and while a store is open no other can open its folder.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use millpond_wal::{
    Deadline, Disk, Log, LogThread, Notice, Queue, QueueError, ReadOnly, RealDisk, Refused, Wake, Work as _,
    create_dir, lock, outcome_unknown, sync_folders,
};

use crate::checkpoint::keeper::{Checkpoints, Meet};
use crate::checkpoint::{self, Checkpoint, Files};
use crate::commit::Committer;
use crate::error::WriteError;
use crate::eviction::Room;
use crate::index::{Index, Versioned};
use crate::memory::Memory;
use crate::record::FORMAT;
use crate::recover::{self, Recovery};
use crate::replication::{self, Copies, Replication, Role};
use crate::scan::{Entry, Range, Scan};
use crate::write::{Busy, Done, Write, Written};
use crate::{Durability, Error, Options};

/// An ordered map of byte keys to byte values. Clones are the same store.
///
/// Reads never wait for the disk. Writes go through one log thread, which commits everything that
/// waits as one group; readers see a write once it is as durable as configured. Without a log small writes are made by their callers'
/// threads, side by side where they look at no key.
#[derive(Clone)]
pub struct Store {
    pub(crate) handle: Arc<Handle>,
}

/// What the log thread runs: the committer of a log, or memory alone.
enum Writer {
    Log(Box<Committer>, Arc<Meet>),
    Memory(Arc<Memory>),
}

pub(crate) struct Handle {
    pub index: Arc<Index>,
    /// Of a store without a log: what makes small writes at once.
    memory: Option<Arc<Memory>>,
    queue: Arc<Queue<Write>>,
    durability: Durability,
    pub room: Arc<Room>,
    /// Why the log takes no more puts, once it takes none.
    read_only: ReadOnly,
    /// Where checkpoints are asked for, where there is a log.
    pub(crate) meet: Option<Arc<Meet>>,
    /// What other servers have of it, where there is a log.
    pub(crate) replication: Option<Arc<Replication>>,
    thread: LogThread,
}

impl Store {
    /// Opens the store in `dir`, which is created if only it is missing, and recovers it from its log.
    ///
    /// # Errors
    /// The folder cannot be made or read, is open elsewhere, or its log is damaged in a way that no
    /// crash explains. A damaged log is not changed.
    pub fn open(dir: &Path, options: Options) -> Result<(Store, Recovery), Error> {
        Store::open_on(Arc::new(RealDisk), dir, options)
    }

    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: Options,
    ) -> Result<(Store, Recovery), Error> {
        let Options {
            durability,
            segment_bytes_max,
            ..
        } = options;
        if !durability.has_log() {
            return Err(Error::NoLogWanted {
                keeper: FORMAT.keeper,
                dir: dir.to_owned(),
            });
        }
        create_dir(&FORMAT, dir)?;
        let lock = lock(&FORMAT, dir)?;
        replication::aside::settle(&*disk, dir)?;
        let files = Files::list(dir)?;
        let read = recover::read(dir, &files.finished, &mut |progress| {
            tracing::info!("the ordered store {} is recovered: {progress}", dir.display());
        })?;
        let (recovered, recovery) = (read.recovered, read.recovery);
        // The process that made them may have ended before this sync; nothing is shown before it.
        sync_folders(&FORMAT, &*disk, dir)?;
        if let Some(found) = &recovery.checkpoint {
            checkpoint::sync(&found.file)?;
        }
        let opened = Log::open(
            &FORMAT,
            disk.clone(),
            dir,
            durability,
            segment_bytes_max,
            &recovered,
        );
        let mut log = opened?;
        log.sync_every(options.sync_every);
        let index = Arc::new(read.index);
        let queue = Arc::new(Queue::new(options.queue_max, options.queue_bytes_max));
        let meet = Arc::new(Meet::new(queue.clone()));
        let counts = &meet.counts;
        let bytes = recovery.checkpoint.as_ref().map_or(0, |found| found.bytes);
        counts.bytes.store(bytes, Ordering::Relaxed);
        counts.taken_ms.store(read.checkpoint_ms, Ordering::Relaxed);
        let checkpoints = Checkpoints::new(
            (disk.clone(), dir.to_owned()),
            index.clone(),
            meet.clone(),
            (log.bytes(), options.checkpoint_log_bytes),
        );
        checkpoints.clear(read.begin, &files.unfinished);
        let opened = (&mut log, recovered.next_number, recovery.checkpoint.is_some());
        let role = (options.follows, options.acknowledge, durability);
        let copies = Copies::new(disk, segment_bytes_max);
        let replication = Replication::open(dir, queue.clone(), opened, role, copies)?;
        let committer = Committer {
            index: index.clone(),
            log,
            durability,
            next_version: recovered.next_number,
            segment_bytes_max,
            room: Arc::new(Room::new(options.memory_bytes_max, options.eviction)),
            checkpoints,
            replication: replication.keep(),
            acknowledge_within: options.acknowledge_within,
            held: None,
        };
        let writer = Writer::Log(Box::new(committer), meet);
        let store = Store::start(index, writer, queue, Some(lock))?;
        Ok((store, recovery))
    }

    /// A store without a folder: its content ends with it. `options.durability` is taken as
    /// [`Durability::Memory`], whatever it says. Should the system refuse it a thread, every put is
    /// told so.
    pub fn in_memory(options: Options) -> Store {
        let index = Arc::new(Index::default());
        let room = Room::new(options.memory_bytes_max, options.eviction);
        let memory = Arc::new(Memory::new(index.clone(), Arc::new(room)));
        let queue = Arc::new(Queue::new(options.queue_max, options.queue_bytes_max));
        let started = Store::start(index.clone(), Writer::Memory(memory), queue, None);
        started.unwrap_or_else(|error| Store::refusing(index, error))
    }

    fn refusing(index: Arc<Index>, error: Error) -> Store {
        let queue = Arc::new(Queue::new(1, 0));
        queue.refuse(QueueError::Failed(Arc::new(error)));
        let handle = Handle {
            index,
            memory: None,
            queue,
            durability: Durability::Memory,
            room: Arc::default(),
            read_only: ReadOnly::default(),
            meet: None,
            replication: None,
            thread: LogThread::none(),
        };
        Store {
            handle: Arc::new(handle),
        }
    }

    fn start(
        index: Arc<Index>,
        writer: Writer,
        queue: Arc<Queue<Write>>,
        lock: Option<File>,
    ) -> Result<Store, Error> {
        let (mut meet, mut replication) = (None, None);
        let (durability, read_only, memory, room) = match &writer {
            Writer::Log(committer, met) => {
                meet = Some(met.clone());
                replication = Some(committer.replication.share());
                let read_only = committer.log.watch_read_only();
                (committer.durability, read_only, None, committer.room.clone())
            }
            Writer::Memory(memory) => {
                let room = memory.room().clone();
                (
                    Durability::Memory,
                    ReadOnly::default(),
                    Some(memory.clone()),
                    room,
                )
            }
        };
        let thread = LogThread::start("ordered-log", &queue, lock, move |queue| match writer {
            Writer::Log(committer, _) => committer.run(queue),
            Writer::Memory(memory) => memory.run(queue),
        })?;
        Ok(Store {
            handle: Arc::new(Handle {
                index,
                memory,
                queue,
                durability,
                room,
                read_only,
                meet,
                replication,
                thread,
            }),
        })
    }

    /// The value of a key and its version.
    pub fn get(&self, key: &[u8]) -> Option<Versioned> {
        self.handle.index.get(key)
    }

    /// The values of keys and their versions, all as they are at one moment; their cache misses overlap, so that many keys at once
    /// take less time than one by one.
    ///
    /// # Errors
    /// The values have more than `bytes_max` bytes together: how many.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        bytes_max: usize,
    ) -> Result<Vec<Option<Versioned>>, usize> {
        self.handle.index.get_many(keys, bytes_max)
    }

    /// Visits keys and values in ascending order, or with `scan.reverse` in descending order, at most `scan.limit` of them. Returns the
    /// cursor, the next key that matches, if there is one: put it in `scan.start` to go on, or [`Scan::end_behind`] it in `scan.end`.
    ///
    /// No lock is held while `visit` runs. Every 1,024 entries, or a MiB of large values, are one consistent view; a put that
    /// comes between two such views may show in the second only.
    pub fn scan(&self, scan: &Scan, visit: &mut dyn FnMut(&[u8], &[u8])) -> Option<Vec<u8>> {
        let visit = |entry: Entry<'_>| visit(entry.key, entry.value);
        self.handle.index.scan(&Range::of(scan)?, scan, visit)
    }

    /// The same with the kinds of values.
    pub fn scan_entries(&self, scan: &Scan, visit: &mut dyn FnMut(Entry<'_>)) -> Option<Vec<u8>> {
        self.handle.index.scan(&Range::of(scan)?, scan, visit)
    }

    /// Hands a put or a batch to the log thread; where there is no log, a small one takes effect before this returns. `done` is called
    /// once with its end; see [`Done`] for where.
    ///
    /// # Errors
    /// The queue is full: the write and `done` come back, `done` uncalled.
    pub fn write(&self, write: impl Into<Write>, done: Done) -> Result<(), Busy> {
        self.hand_over(write.into(), done, (None, Notice::Now)).map(drop)
    }

    /// The same, unless the log is predicted to have made it behind a deadline. Where the write waits for the log thread, that is returned: it
    /// learns of the write when it is woken, which the caller owes it once all that there is to write now was handed over.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn write_later(
        &self,
        write: impl Into<Write>,
        done: Done,
        deadline: Option<Deadline>,
    ) -> Result<Option<Arc<dyn Wake>>, Busy> {
        let waits = self.hand_over(write.into(), done, (deadline, Notice::Later))?;
        Ok(waits.then(|| Arc::clone(&self.handle.queue) as Arc<dyn Wake>))
    }

    /// Whether it waits for the log thread.
    fn hand_over(
        &self,
        mut write: Write,
        done: Done,
        (deadline, notice): (Option<Deadline>, Notice),
    ) -> Result<bool, Busy> {
        if let Err(error) = write.check().and_then(|()| self.handle.admits(&write)) {
            done(Err(error));
            return Ok(false);
        }
        if let Some(memory) = &self.handle.memory {
            write = match memory.write_at_once(write) {
                Ok(result) => {
                    done(result);
                    return Ok(false);
                }
                Err(write) => write,
            };
        }
        if let Some(memory) = &self.handle.memory {
            memory.joins_queue();
        }
        let Err(refused) = self.handle.queue.push_by(write, done, (deadline, notice)) else {
            return Ok(true);
        };
        if let Some(memory) = &self.handle.memory {
            memory.left_queue();
        }
        match refused {
            Refused::Full(write, done, error) => Err(Busy {
                write,
                done,
                error: Box::new(error.into()),
            }),
            Refused::Ended(done, error) => {
                done(Err(error.into()));
                Ok(false)
            }
        }
    }

    /// Puts a key whatever it holds, on this thread, where there is no log: its version, counted up from 1. The entry lasts `ttl_ms` milliseconds,
    /// for good where that is `None`. `None` where the put was not made, as it has to wait for others or is refused: [`Store::write`] does the first
    /// and says the second.
    pub fn put_at_once(&self, key: &[u8], value: &[u8], ttl_ms: Option<u64>) -> Option<u64> {
        self.handle.memory.as_ref()?.put_at_once(key, value, ttl_ms)
    }

    /// Writes and waits for the end, and for space in the queue if need be. Not for a `Done`: there it
    /// would wait for itself.
    ///
    /// # Errors
    /// The errors that a `Done` receives.
    pub fn write_wait(&self, write: impl Into<Write>) -> Result<Written, WriteError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let done = Box::new(move |result| {
            let _ = sender.send(result);
        });
        let mut offered = self.write(write, done);
        while let Err(Busy { write, done, .. }) = offered {
            self.handle.queue.wait_for_room(write.bytes());
            offered = self.write(write, done);
        }
        receiver.recv().unwrap_or_else(|_| Err(outcome_unknown().into()))
    }

    /// Number of keys, those that have expired and are not removed yet among them; about as many while others write.
    pub fn len(&self) -> usize {
        self.handle.index.len()
    }

    /// Memory that the entries take: keys, values, and 48 bytes for each entry; about as much while others write.
    pub fn entry_bytes(&self) -> u64 {
        self.handle.index.bytes()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a put has survived to when it is done.
    pub fn durability(&self) -> Durability {
        self.handle.durability
    }

    /// The failure that made the store read-only, if one did: a log that could not be synced, or cut where a write had
    /// failed. Reads go on; puts are refused until the store is opened again.
    pub fn read_only(&self) -> Option<Arc<Error>> {
        self.handle.read_only.get().cloned()
    }

    /// Writes a checkpoint now, and waits for it: what a start reads of the log before it then goes. Writers go on meanwhile. Not for a
    /// [`Done`]: there it would wait for itself.
    ///
    /// # Errors
    /// It could not be written, or there is no log; the log stays as it is.
    pub fn checkpoint(&self) -> Result<Checkpoint, Arc<Error>> {
        let Some(meet) = &self.handle.meet else {
            return Err(Arc::new(Error::GivenUp("a store without a log keeps no file")));
        };
        let closed = || Err(Arc::new(Error::GivenUp("the store is closed")));
        if self.last_sequence() == 0 && self.role() != Role::Leads {
            return Err(Arc::new(Error::GivenUp(
                "a follower without a record has nothing to keep",
            )));
        }
        meet.ask().recv().unwrap_or_else(|_| closed())
    }

    /// Ends the store for all its clones: finishes every put taken in, syncs the log, frees the
    /// folder. Later puts get [`WriteError::Closed`]; reads still work. From within a `Done` it
    /// returns at once and the end follows.
    ///
    /// # Errors
    /// The log could not be synced, or was read-only, or the log thread died.
    pub fn close(self) -> Result<(), Error> {
        self.handle.begin_close();
        self.handle.thread.stop(&self.handle.queue)
    }

    /// Refuses puts from here on, as [`Store::close`] does first, and waits for nothing.
    pub fn begin_close(&self) {
        self.handle.begin_close();
    }

    /// As [`Store::close`], until then at most. A log thread that has not ended by then, in a sync that hangs, is left to itself, and
    /// so is the folder, until the process ends; dropping the store waits for it no more.
    ///
    /// # Errors
    /// As [`Store::close`]; [`Error::NotEnded`].
    pub fn close_by(&self, until: Instant) -> Result<(), Error> {
        self.handle.begin_close();
        self.handle.thread.stop_by(&self.handle.queue, until)
    }

    /// Whether the log thread has ended by a panic: no put succeeds any more.
    pub fn has_died(&self) -> bool {
        self.handle.queue.has_died()
    }
}

impl Handle {
    fn begin_close(&self) {
        if let Some(memory) = &self.memory {
            memory.close();
        }
        self.queue.close();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A caller that needs the result calls `close`.
        let _ = self.thread.stop(&self.queue);
    }
}

#[cfg(test)]
mod tests;
