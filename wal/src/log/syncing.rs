//! A thread that syncs a log's segment, so that the log thread writes on meanwhile.
//!
//! When that is due is not decided here (`pace`). Invariants: one sync goes on at a time, and one that fails ends writing before anybody
//! hears that it has ended.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};

use super::{Log, OpenSegment, ReadOnly, read_only_by};
use crate::disk::LogFile;
use crate::error::Error;

/// A file to sync.
struct Job {
    file: Arc<dyn LogFile>,
    path: PathBuf,
}

/// The thread, and the sync that goes on.
#[derive(Default)]
pub(crate) struct Syncing {
    thread: Option<Thread>,
    is_under_way: bool,
}

struct Thread {
    jobs: Option<SyncSender<Job>>,
    /// One for each job that has ended, whatever became of it.
    ended: Receiver<()>,
    join: Option<JoinHandle<()>>,
}

impl Thread {
    fn start(read_only: ReadOnly) -> Result<Thread, Error> {
        let (jobs, to_do) = sync_channel::<Job>(1);
        let (tell, ended) = sync_channel(1);
        let work = move || {
            for Job { file, path } in to_do {
                if let Err(source) = file.sync() {
                    read_only_by(&read_only, path, format!("cannot sync the segment: {source}"));
                }
                drop(file);
                if tell.send(()).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("log-sync".into());
        Ok(Thread {
            jobs: Some(jobs),
            ended,
            join: Some(thread.spawn(work).map_err(Error::Thread)?),
        })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(join) = self.join.take() {
            // A panic was the thread's own.
            let _ = join.join();
        }
    }
}

impl Syncing {
    /// Begins to sync a segment; false where there can be no thread for it. None may be under way.
    fn begin(&mut self, segment: &OpenSegment, read_only: &ReadOnly) -> bool {
        if self.thread.is_none() {
            self.thread = Thread::start(read_only.clone()).ok();
        }
        let job = Job {
            file: Arc::clone(&segment.file),
            path: segment.path.clone(),
        };
        let jobs = self.thread.as_ref().and_then(|thread| thread.jobs.as_ref());
        self.is_under_way = jobs.is_some_and(|jobs| jobs.send(job).is_ok());
        self.is_under_way
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Whether a sync that went on has ended; waits for that if asked to. An error is the end of its thread, by a panic.
    fn has_ended(&mut self, waits: bool) -> Result<bool, RecvError> {
        let Some(thread) = self.thread.as_ref().filter(|_| self.is_under_way) else {
            return Ok(false);
        };
        let ended = match waits {
            true => thread.ended.recv(),
            false => match thread.ended.try_recv() {
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => Err(RecvError),
                Ok(()) => Ok(()),
            },
        };
        self.is_under_way = false;
        ended.map(|()| true)
    }
}

impl Log {
    /// Begins to sync what was written; here, where no thread can be had for it.
    pub(super) fn begin_sync(&mut self) {
        self.pace.begin();
        self.sync_from = self.written_bytes;
        if !self.syncing.begin(&self.segment, &self.read_only) {
            // The next write learns of a failure, and so does the close.
            let _ = self.sync_segment();
        }
    }

    /// Takes note of a sync that has ended.
    pub(super) fn hear_of_sync(&mut self) {
        let ended = self.syncing.has_ended(false);
        self.note_end(ended);
    }

    fn note_end(&mut self, ended: Result<bool, RecvError>) {
        match ended {
            Ok(false) => {}
            Ok(true) => self.pace.ended(),
            Err(_) => {
                self.turn_read_only("cannot sync the segment: the thread that syncs it has died".into());
            }
        }
    }

    /// Waits for the end of the sync that goes on, if one does. Whoever syncs here does so first: of two syncs of a file that go on together,
    /// the system tells only one of a page that it could not write.
    pub fn wait_for_sync(&mut self) {
        let ended = self.syncing.has_ended(true);
        self.note_end(ended);
    }
}
