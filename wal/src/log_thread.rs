//! The thread that writes a log, and how its end is waited for.
//!
//! Not its work. Invariant: every caller that waits for the end returns once the thread has ended, and one that is on the thread
//! itself never waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant;

use millpond_threads::ends_by;

use crate::error::Error;
use crate::queue::{Queue, Work};

/// The thread, from its start to its end.
pub struct LogThread {
    id: Option<ThreadId>,
    /// Taken by the first caller that joins; held while joining, so that every caller waits for the end.
    join: Mutex<Option<JoinHandle<Result<(), Error>>>>,
}

impl LogThread {
    /// Runs `work` until the queue is closed and empty. Should it panic, those who wait in the queue receive an error. `held`, such as
    /// the folder's lock, is given up only when nothing writes any more.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub fn start<W: Work>(
        name: &str,
        queue: &Arc<Queue<W>>,
        held: impl Send + 'static,
        work: impl FnOnce(&Queue<W>) -> Result<(), Error> + Send + 'static,
    ) -> Result<LogThread, Error> {
        let taken = Arc::clone(queue);
        let run = move || {
            // A panic ends the process if the program is set up so; otherwise callers that write receive an error.
            let ended = catch_unwind(AssertUnwindSafe(|| work(&taken)));
            taken.abandon();
            // The folder is free for others only now that nothing writes to it.
            drop(held);
            ended.unwrap_or(Err(Error::LogThreadDied))
        };
        let join = thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)
            .map_err(Error::Thread)?;
        Ok(LogThread {
            id: Some(join.thread().id()),
            join: Mutex::new(Some(join)),
        })
    }

    /// Stands for a thread that could not be started.
    pub fn none() -> LogThread {
        LogThread {
            id: None,
            join: Mutex::new(None),
        }
    }

    /// Closes the queue and waits for the thread's end, unless it is the caller's own.
    ///
    /// # Errors
    /// What the work returned, to the first caller.
    pub fn stop<W: Work>(&self, queue: &Queue<W>) -> Result<(), Error> {
        queue.close();
        if self.id == Some(thread::current().id()) {
            return Ok(());
        }
        let mut join = self.join.lock().unwrap_or_else(PoisonError::into_inner);
        match join.take() {
            Some(join) => join.join().unwrap_or(Err(Error::LogThreadDied)),
            None => Ok(()),
        }
    }

    /// As [`LogThread::stop`], until then at most: a thread that has not ended by then is left to itself.
    ///
    /// # Errors
    /// As [`LogThread::stop`]; [`Error::NotEnded`].
    pub fn stop_by<W: Work>(&self, queue: &Queue<W>, until: Instant) -> Result<(), Error> {
        queue.close();
        let is_over = || match self.join.try_lock() {
            Ok(join) => join.as_ref().is_none_or(JoinHandle::is_finished),
            // Somebody who waits without an end holds it.
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Poisoned(_)) => true,
        };
        if ends_by(until, is_over) {
            return self.stop(queue);
        }
        if let Ok(mut join) = self.join.try_lock() {
            *join = None;
        }
        Err(Error::NotEnded)
    }
}
