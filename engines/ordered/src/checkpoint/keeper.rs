//! When checkpoints are written, and what the log thread and the one that writes them say to each other.
//!
//! Invariants: one is written at a time; the log thread never waits for it, but at its own end; a failure is said once and tried again
//! later.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millpond_wal::{Disk, Log, Queue};

use super::Checkpoint;
use super::bytes::Head;
use super::hold::Holds;
use super::write::{Job, remove_before};
use crate::Error;
use crate::index::Index;
use crate::write::Write;

/// How long after a failure it is tried again, twice as long each time.
const AGAIN: Duration = Duration::from_secs(10);
const AGAIN_MAX: Duration = Duration::from_secs(640);
/// Added to the thread's nice value: a tenth of the weight of others.
const NICE: i32 = 10;
const STOPPED: &str = "the store is closed";
const HELD: &str = "the store's last writes are held back until a follower has them; ask again then";

/// Whether a checkpoint was refused only until a follower has the store's last writes.
pub(crate) fn is_held_back(error: &Error) -> bool {
    matches!(error, Error::GivenUp(HELD))
}

/// What somebody who asked for a checkpoint learns.
type Outcome = Result<Checkpoint, Arc<Error>>;

/// Where the log ends, and is durable up to.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub last_sequence: u64,
    pub next_version: u64,
}

/// Where the two threads meet.
pub(crate) struct Meet {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the log thread has something to look at.
    is_awaited: AtomicBool,
    queue: Arc<Queue<Write>>,
    pub counts: Counts,
    /// What followers copy.
    pub holds: Holds,
}

#[derive(Default)]
struct State {
    end: Ask,
    /// Who asked for a checkpoint that has not begun.
    asked: Vec<SyncSender<Outcome>>,
    written: Option<Result<Checkpoint, Error>>,
    is_stopped: bool,
}

/// The question where the log ends.
#[derive(Default)]
enum Ask {
    #[default]
    None,
    Asked,
    Answered(Result<End, Arc<Error>>),
}

/// For metrics.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Bytes of the log that a start would read.
    pub log_bytes: AtomicU64,
    /// Of the last checkpoint; 0 where there is none.
    pub bytes: AtomicU64,
    pub took_ms: AtomicU64,
    /// By the store's clock.
    pub taken_ms: AtomicU64,
    pub is_failing: AtomicBool,
    /// Whether what has expired, or is beyond the limit, could not be removed the last time.
    pub is_sweep_failing: AtomicBool,
}

impl Counts {
    /// Notes how the removal of what has expired or is beyond the limit ended, or that nothing of it is left. The log has a line where that
    /// is another end than before; after a failure it is not tried for a second.
    pub fn swept(&self, failure: Option<&Error>) {
        // The log thread alone writes it, behind each group.
        let was_failing = self.is_sweep_failing.load(Ordering::Relaxed);
        if was_failing != failure.is_some() {
            self.is_sweep_failing.store(failure.is_some(), Ordering::Relaxed);
        }
        match failure {
            Some(error) if !was_failing => {
                tracing::error!(%error, "an ordered store cannot remove what has expired or is beyond its limit: its log cannot be written; it takes memory until it can");
            }
            None if was_failing => {
                tracing::info!(
                    "nothing keeps an ordered store from removing what has expired or is beyond its limit any more"
                );
            }
            _ => {}
        }
    }
}

impl Meet {
    pub fn new(queue: Arc<Queue<Write>>) -> Meet {
        Meet {
            state: Mutex::default(),
            changed: Condvar::new(),
            is_awaited: AtomicBool::new(false),
            queue,
            counts: Counts::default(),
            holds: Holds::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the log thread look.
    fn call(&self) {
        self.is_awaited.store(true, Ordering::Release);
        self.queue.nudge();
    }

    /// Asks for a checkpoint that begins from now on.
    pub fn ask(&self) -> Receiver<Outcome> {
        let (sender, receiver) = sync_channel(1);
        let mut state = self.lock();
        if state.is_stopped {
            let _ = sender.send(Err(stopped()));
        } else {
            state.asked.push(sender);
        }
        drop(state);
        self.call();
        receiver
    }

    /// Whether writing may go on.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.lock().is_stopped {
            true => Err(Error::GivenUp(STOPPED)),
            false => Ok(()),
        }
    }

    /// Waits so long, unless the store is closed meanwhile.
    pub(super) fn pause(&self, long: Duration) -> Result<(), Error> {
        let waits = |state: &mut State| !state.is_stopped;
        let waited = self.changed.wait_timeout_while(self.lock(), long, waits);
        drop(waited);
        self.check()
    }

    /// Waits for the log thread to say where the log ends.
    pub(super) fn ask_end(&self) -> Result<End, Error> {
        self.lock().end = Ask::Asked;
        self.call();
        let waits = |state: &mut State| matches!(state.end, Ask::Asked) && !state.is_stopped;
        let waited = self.changed.wait_while(self.lock(), waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut state.end) {
            Ask::Answered(Ok(end)) => Ok(end),
            Ask::Answered(Err(_)) => Err(Error::GivenUp("the log failed")),
            Ask::None | Ask::Asked => Err(Error::GivenUp(STOPPED)),
        }
    }

    fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        let asked = std::mem::take(&mut state.asked);
        drop(state);
        self.changed.notify_all();
        for sender in asked {
            let _ = sender.send(Err(stopped()));
        }
    }
}

fn stopped() -> Arc<Error> {
    Arc::new(Error::GivenUp(STOPPED))
}

/// The log thread's part.
pub(crate) struct Checkpoints {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    index: Arc<Index>,
    meet: Arc<Meet>,
    /// Bytes of the log after which one is due.
    log_bytes_max: u64,
    /// Bytes of the log that are not of this process.
    found_bytes: u64,
    /// [`Log::written_bytes`] when the last one began.
    began_at: u64,
    running: Option<Running>,
    /// Not before then.
    again_at: Option<Instant>,
    /// How long it is waited behind the next failure.
    pause: Duration,
}

struct Running {
    thread: JoinHandle<()>,
    sequence: u64,
    written_bytes: u64,
    asked: Vec<SyncSender<Outcome>>,
}

impl Checkpoints {
    pub fn counts(&self) -> &Counts {
        &self.meet.counts
    }

    /// `found_bytes` are those of the log behind the last checkpoint.
    pub fn new(
        (disk, dir): (Arc<dyn Disk>, PathBuf),
        index: Arc<Index>,
        meet: Arc<Meet>,
        (found_bytes, log_bytes_max): (u64, u64),
    ) -> Checkpoints {
        meet.counts.log_bytes.store(found_bytes, Ordering::Relaxed);
        Checkpoints {
            disk,
            dir,
            index,
            meet,
            log_bytes_max,
            found_bytes,
            began_at: 0,
            running: None,
            again_at: None,
            pause: AGAIN,
        }
    }

    /// Removes what the last process has left: unfinished checkpoints, and what the one of this sequence stands for.
    pub fn clear(&self, sequence: u64, unfinished: &[PathBuf]) {
        for file in unfinished {
            if let Err(error) = self.disk.remove(file) {
                tracing::warn!(%error, file = %file.display(), "an unfinished checkpoint cannot be removed");
            }
        }
        if let Err(error) = remove_before(&*self.disk, &self.dir, sequence) {
            tracing::warn!(%error, "files that a checkpoint of an ordered store stands for stay until the next one");
        }
    }

    /// Where it writes them.
    pub fn place(&self) -> (Arc<dyn Disk>, PathBuf) {
        (Arc::clone(&self.disk), self.dir.clone())
    }

    /// Whether one is being written.
    pub fn is_writing(&self) -> bool {
        self.running.is_some()
    }

    /// Another store's checkpoint and the log behind it have taken the place of all that there was.
    pub fn replaced(&mut self, log_bytes: u64, bytes: u64, taken_ms: u64) {
        (self.found_bytes, self.began_at) = (log_bytes, 0);
        let counts = &self.meet.counts;
        counts.log_bytes.store(log_bytes, Ordering::Relaxed);
        counts.bytes.store(bytes, Ordering::Relaxed);
        counts.taken_ms.store(taken_ms, Ordering::Relaxed);
    }

    /// Whether there is a checkpoint.
    pub fn has_one(&self) -> bool {
        self.meet.counts.bytes.load(Ordering::Relaxed) > 0
    }

    /// Between two groups: answers, ends and, where one may be, begins what is to be. `next_version` is that of the next entry written.
    pub fn attend(&mut self, log: &mut Log, next_version: u64, may_begin: bool) {
        let mut is_asked = false;
        if self.meet.is_awaited.swap(false, Ordering::Acquire) {
            self.answer(log, next_version);
            is_asked = !self.meet.lock().asked.is_empty();
        }
        if !may_begin {
            return self.refuse_asked();
        }
        // Behind the end of one: it may just have taken the log's place.
        let log_bytes = self.found_bytes + log.written_bytes() - self.began_at;
        self.meet.counts.log_bytes.store(log_bytes, Ordering::Relaxed);
        let last_bytes = self.meet.counts.bytes.load(Ordering::Relaxed);
        let is_due = log_bytes >= self.log_bytes_max.max(last_bytes);
        let may = || self.again_at.is_none_or(|again| Instant::now() >= again);
        if self.running.is_none() && (is_asked || is_due && log.read_only().is_none() && may()) {
            self.begin(log, next_version);
        }
    }

    /// Who asks while none may begin asks again.
    fn refuse_asked(&self) {
        let asked = std::mem::take(&mut self.meet.lock().asked);
        for sender in asked {
            let _ = sender.send(Err(Arc::new(Error::GivenUp(HELD))));
        }
    }

    fn answer(&mut self, log: &mut Log, next_version: u64) {
        let mut state = self.meet.lock();
        if matches!(state.end, Ask::Asked) {
            drop(state);
            let end = log.sync().map(|()| End {
                last_sequence: log.next_sequence() - 1,
                next_version,
            });
            state = self.meet.lock();
            state.end = Ask::Answered(end);
            self.meet.changed.notify_all();
        }
        let written = state.written.take();
        drop(state);
        if let Some(written) = written
            && let Some(running) = self.running.take()
        {
            self.end(written, running, log);
        }
    }

    /// Ends the log's segment, and has what is before the next one written.
    fn begin(&mut self, log: &mut Log, next_version: u64) {
        let asked = std::mem::take(&mut self.meet.lock().asked);
        let (written_bytes, sequence) = (log.written_bytes(), log.next_sequence());
        let ended = log.end_segment(next_version);
        let started = ended.and_then(|()| {
            let Some(history) = log.history() else {
                return Err(Arc::new(Error::GivenUp("the log has no history")));
            };
            let job = Job {
                disk: self.disk.clone(),
                dir: self.dir.clone(),
                index: self.index.clone(),
                head: Head {
                    sequence,
                    first_version: next_version,
                    history,
                },
                meet: self.meet.clone(),
            };
            start(job).map_err(Arc::new)
        });
        match started {
            Ok(thread) => {
                self.running = Some(Running {
                    thread,
                    sequence,
                    written_bytes,
                    asked,
                });
            }
            Err(error) => self.failed(&error, asked),
        }
    }

    fn end(&mut self, written: Result<Checkpoint, Error>, running: Running, log: &mut Log) {
        let _ = running.thread.join();
        let checkpoint = match written {
            Ok(checkpoint) => checkpoint,
            Err(error) => return self.failed(&Arc::new(error), running.asked),
        };
        log.leave(running.sequence);
        (self.found_bytes, self.began_at) = (0, running.written_bytes);
        (self.again_at, self.pause) = (None, AGAIN);
        let counts = &self.meet.counts;
        for (count, value) in [
            (&counts.bytes, checkpoint.bytes),
            (&counts.took_ms, checkpoint.took.as_millis() as u64),
            (&counts.taken_ms, self.index.clock().now_ms()),
        ] {
            count.store(value, Ordering::Relaxed);
        }
        let was_failing = counts.is_failing.swap(false, Ordering::Relaxed);
        tracing::info!(
            file = %checkpoint.file.display(),
            entries = checkpoint.entries,
            bytes = checkpoint.bytes,
            took_ms = checkpoint.took.as_millis() as u64,
            was_failing,
            "an ordered store has written a checkpoint"
        );
        for sender in running.asked {
            let _ = sender.send(Ok(checkpoint.clone()));
        }
        self.look_again();
    }

    fn failed(&mut self, error: &Arc<Error>, asked: Vec<SyncSender<Outcome>>) {
        self.again_at = Some(Instant::now() + self.pause);
        // Who asks again and again puts off none that is due by itself for longer.
        if asked.is_empty() {
            self.pause = (self.pause * 2).min(AGAIN_MAX);
        }
        if !self.meet.counts.is_failing.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "an ordered store cannot write a checkpoint; its log grows, and it is tried again");
        }
        for sender in asked {
            let _ = sender.send(Err(error.clone()));
        }
        self.look_again();
    }

    /// Somebody may have asked for another meanwhile.
    fn look_again(&self) {
        if !self.meet.lock().asked.is_empty() {
            self.meet.call();
        }
    }
}

/// Has it written by a thread of its own, which says when it has ended.
fn start(job: Job) -> Result<JoinHandle<()>, Error> {
    let run = move || {
        give_way();
        // A panic ends the process if the program is set up so.
        let written = catch_unwind(AssertUnwindSafe(|| job.run()));
        let written = written.unwrap_or(Err(Error::GivenUp("its thread panicked")));
        job.meet.lock().written = Some(written);
        job.meet.call();
    };
    thread::Builder::new()
        .name("ordered-checkpt".into())
        .spawn(run)
        .map_err(Error::Thread)
}

/// Gives this thread a tenth of what others have of a processor that they want too: who waits for a checkpoint waits long anyway.
fn give_way() {
    // Of the thread alone, on Linux. Without it callers wait longer.
    let _ = rustix::process::nice(NICE);
}

impl Checkpoints {
    /// Has the one that is being written given up.
    pub fn stop(&self) {
        self.meet.stop();
    }
}

impl Drop for Checkpoints {
    /// Waits for the thread: nobody else may have the folder while it writes.
    fn drop(&mut self) {
        self.stop();
        let Some(running) = self.running.take() else {
            return;
        };
        let _ = running.thread.join();
        let written = self.meet.lock().written.take();
        let outcome: Outcome = written.unwrap_or(Err(Error::GivenUp(STOPPED))).map_err(Arc::new);
        for sender in running.asked {
            let _ = sender.send(outcome.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn only_a_checkpoint_that_nobody_asked_for_is_put_off_for_longer_once_it_fails() {
        let meet = Arc::new(Meet::new(Arc::new(Queue::new(1, 1))));
        let place = (Arc::new(millpond_wal::RealDisk) as Arc<dyn Disk>, PathBuf::new());
        let mut checkpoints = Checkpoints::new(place, Arc::default(), meet, (0, 1));
        let error = Arc::new(Error::GivenUp("the disk is full"));
        for _ in 0..5 {
            let (sender, receiver) = sync_channel(1);
            checkpoints.failed(&error, vec![sender]);
            assert!(receiver.recv().is_ok_and(|outcome| outcome.is_err()));
        }
        assert_eq!(checkpoints.pause, AGAIN);
        checkpoints.failed(&error, Vec::new());
        assert_eq!(checkpoints.pause, AGAIN * 2);
    }
}
