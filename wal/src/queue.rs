//! The bounded queue between those who write and the log thread.
//!
//! Knows nothing of what a write means. Invariants: a `Reply` is answered exactly once, even if it is
//! dropped; no `Done` runs while the queue's lock is held.

use millpond_threads::{LeftOut, LineLimit, contain};
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::standing::Standing;
use crate::waits::{Deadline, Waits};

/// What waits for the log.
pub trait Work: Send + 'static {
    /// What the caller learns when it was done.
    type Outcome;
    /// And when it was not.
    type Error: From<QueueError>;

    /// What it takes in memory while it waits.
    fn bytes(&self) -> usize;
}

/// Called exactly once with the end of a write, on the log thread as a rule.
pub type Done<W> = Box<dyn FnOnce(Result<<W as Work>::Outcome, <W as Work>::Error>) + Send + 'static>;

/// Why a write was not taken in, or not answered by those who take it out.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// As many wait for the log as may.
    #[error("{max} writes wait for the log already; try again later, or raise queue_max")]
    Full {
        /// How many may.
        max: usize,
    },

    /// Those that wait for the log hold too much for this one.
    #[error(
        "writes that wait for the log hold {waiting} bytes already, this one has {bytes}, and {max} are allowed; try again later, write less at once, or raise queue_bytes_max"
    )]
    BytesFull {
        /// Bytes that wait.
        waiting: usize,
        /// Bytes of this one.
        bytes: usize,
        /// How many may wait.
        max: usize,
    },

    /// Writes wait for the log, have done so for long, and were refused: until the queue has drained it is shorter.
    #[error(
        "more is written than the log takes: writes that wait hold {waiting} bytes already, this one has {bytes}, and {max} are allowed until it has drained; try again later, or write less"
    )]
    Stands {
        /// Bytes that wait.
        waiting: usize,
        /// Bytes of this one.
        bytes: usize,
        /// How many may wait.
        max: usize,
    },

    /// By what the log has taken so far, the write would be answered behind its deadline.
    #[error(
        "the predicted wait for the log is {wait_us} us, the deadline is in {left_us} us; allow more time (_deadline_ms), or write less"
    )]
    TooLate {
        /// Microseconds until it would be answered.
        wait_us: u64,
        /// Microseconds until the deadline.
        left_us: u64,
    },

    /// The log is closed or closing.
    #[error("refused: the log is closed")]
    Closed,

    /// There is no log thread, or none any more; nothing was written.
    #[error(transparent)]
    Failed(Arc<Error>),

    /// The log thread died over it: it may have been written.
    #[error("the outcome is unknown: {0}")]
    OutcomeUnknown(Arc<Error>),
}

/// A `Done` that cannot be forgotten: dropped unanswered, it reports that the log thread died over it.
pub struct Reply<W: Work> {
    done: Option<Done<W>>,
    /// Bounds the log's lines about panics in callbacks.
    panics: Arc<LineLimit>,
}

impl<W: Work> Reply<W> {
    /// Answers.
    pub fn send(mut self, result: Result<W::Outcome, W::Error>) {
        self.answer(result);
    }

    fn answer(&mut self, result: Result<W::Outcome, W::Error>) {
        // One caller's panic must not take the log thread from all the others.
        if let Some(done) = self.done.take()
            && let Err(panic) = contain(|| done(result))
            && let Some(LeftOut(left_out)) = self.panics.admits()
        {
            tracing::error!(%panic, left_out, "the receiver of a write's answer panicked");
        }
    }
}

impl<W: Work> Drop for Reply<W> {
    fn drop(&mut self) {
        // Its group may have come as far as the disk.
        if self.done.is_some() {
            self.answer(Err(outcome_unknown().into()));
        }
    }
}

/// For a write that the log thread had not begun with.
pub(crate) fn log_thread_died() -> QueueError {
    QueueError::Failed(Arc::new(Error::LogThreadDied))
}

/// For a write that the log thread died over.
pub fn outcome_unknown() -> QueueError {
    QueueError::OutcomeUnknown(Arc::new(Error::LogThreadDied))
}

/// A write that was taken in.
pub struct Pending<W: Work> {
    /// What is to be written.
    pub work: W,
    /// [`Work::bytes`], counted once.
    pub bytes: usize,
    /// Who waits for its end.
    pub reply: Reply<W>,
}

/// Why a write was not taken in; its `Done` is uncalled.
pub enum Refused<W: Work> {
    /// There is no room: everything comes back.
    Full(W, Done<W>, QueueError),
    /// None is taken in any more.
    Ended(Done<W>, QueueError),
}

/// Those who write, in order.
pub struct Queue<W: Work> {
    state: Mutex<State<W>>,
    /// Signalled when there is something to take, or the end has come.
    ready: Condvar,
    /// Signalled when something was taken, or the end has come.
    space: Condvar,
    /// Signalled by a nudge alone, or when the end has come.
    nudged: Condvar,
    works_max: usize,
    bytes_max: usize,
    /// Of all replies.
    panics: Arc<LineLimit>,
}

struct State<W: Work> {
    waiting: VecDeque<Pending<W>>,
    bytes: usize,
    /// Whether it is longer than serves anybody.
    standing: Standing,
    /// What groups take.
    waits: Waits,
    /// The error of later writes, once the queue has ended.
    end: Option<QueueError>,
    /// Whether whoever takes is to come back without a write.
    is_nudged: bool,
    /// The log thread sleeps and has not been woken yet.
    is_awaited: bool,
}

/// When whoever takes writes learns of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// At once.
    Now,
    /// By the next [`Wake::wake`], which whoever hands the write over owes it, or with the next write that does not wait.
    Later,
}

/// Whoever takes writes out of a queue, for those that hand several over before it is to learn of them: it then takes them as one
/// group, and does not take the processor from them after the first.
pub trait Wake: Send + Sync {
    /// Has it look for writes.
    fn wake(&self);
}

impl<W: Work> Wake for Queue<W> {
    fn wake(&self) {
        let state = self.lock();
        if !state.waiting.is_empty() {
            self.notify(state);
        }
    }
}

impl<W: Work> State<W> {
    /// Asked by whoever takes, which waits if so.
    fn is_idle(&mut self) -> bool {
        self.is_awaited = self.is_idle_now();
        self.is_awaited
    }

    fn is_idle_now(&self) -> bool {
        self.waiting.is_empty() && self.end.is_none() && !self.is_nudged
    }

    /// What keeps a write of that size out that would come too late.
    fn why_too_late(&self, bytes: usize, deadline: Deadline) -> Option<QueueError> {
        let wait = self.waits.wait(deadline.now, self.bytes, bytes);
        let left = deadline.left();
        let micros = |long: Duration| u64::try_from(long.as_micros()).unwrap_or(u64::MAX);
        (wait > left).then(|| QueueError::TooLate {
            wait_us: micros(wait),
            left_us: micros(left),
        })
    }
}

impl<W: Work> Queue<W> {
    /// Bounded in writes and in their bytes; one always finds an empty queue open.
    pub fn new(works_max: usize, bytes_max: usize) -> Queue<W> {
        Queue {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                bytes: 0,
                standing: Standing::default(),
                waits: Waits::default(),
                end: None,
                is_nudged: false,
                is_awaited: false,
            }),
            ready: Condvar::new(),
            space: Condvar::new(),
            nudged: Condvar::new(),
            works_max: works_max.max(1),
            bytes_max,
            panics: Arc::default(),
        }
    }

    /// Takes a write in.
    ///
    /// # Errors
    /// It was not taken in, and `done` not called.
    pub fn push(&self, work: W, done: Done<W>) -> Result<(), Refused<W>> {
        self.push_by(work, done, (None, Notice::Now))
    }

    /// The same, unless it is predicted to be answered behind a deadline; and when whoever takes it learns of it.
    ///
    /// # Errors
    /// As [`Queue::push`].
    pub fn push_by(
        &self,
        work: W,
        done: Done<W>,
        (deadline, notice): (Option<Deadline>, Notice),
    ) -> Result<(), Refused<W>> {
        let bytes = work.bytes();
        let mut state = self.lock();
        if let Some(end) = state.end.clone() {
            drop(state);
            return Err(Refused::Ended(done, end));
        }
        let full = self.why_no_room(&state, bytes);
        // One that would come too late says how short its deadline is, not that the queue is too long for others.
        let late = || state.why_too_late(bytes, deadline?).map(|error| (error, false));
        if let Some((error, counts)) = full.map(|error| (error, true)).or_else(late) {
            if counts {
                state.standing.came(true);
            }
            drop(state);
            return Err(Refused::Full(work, done, error));
        }
        state.standing.came(false);
        self.take_in(state, (work, bytes, done), notice);
        Ok(())
    }

    /// Takes in what a keeper has to do itself, however full it is. The caller sees to it that there is little of it.
    ///
    /// # Errors
    /// None is taken in any more, and `done` was not called.
    pub fn push_beyond(&self, work: W, done: Done<W>) -> Result<(), Refused<W>> {
        let bytes = work.bytes();
        let state = self.lock();
        match state.end.clone() {
            Some(end) => {
                drop(state);
                Err(Refused::Ended(done, end))
            }
            None => {
                self.take_in(state, (work, bytes, done), Notice::Now);
                Ok(())
            }
        }
    }

    fn take_in(
        &self,
        mut state: MutexGuard<'_, State<W>>,
        (work, bytes, done): (W, usize, Done<W>),
        notice: Notice,
    ) {
        state.bytes += bytes;
        state.waiting.push_back(Pending {
            work,
            bytes,
            reply: Reply {
                done: Some(done),
                panics: Arc::clone(&self.panics),
            },
        });
        if notice == Notice::Now {
            self.notify(state);
        }
    }

    /// Wakes whoever takes, where it waits and was not woken yet: a call of the system else for nothing.
    fn notify(&self, mut state: MutexGuard<'_, State<W>>) {
        let is_awaited = mem::take(&mut state.is_awaited);
        drop(state);
        if is_awaited {
            self.ready.notify_one();
        }
    }

    /// Waits until a write of this size could be taken in, or the end has come.
    pub fn wait_for_room(&self, bytes: usize) {
        let state = self.lock();
        let full = |state: &mut State<W>| state.end.is_none() && self.why_no_room(state, bytes).is_some();
        drop(self.space.wait_while(state, full));
    }

    /// Waits for writes and takes what is there, up to `bytes_max` but at least one. `None`: closed and empty.
    pub fn take(&self, bytes_max: usize) -> Option<Vec<Pending<W>>> {
        let mut state = self.lock();
        state.waits.end(Instant::now());
        let state = self
            .ready
            .wait_while(state, State::is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        self.take_from(state, bytes_max)
    }

    /// As [`Queue::take`], but where nothing came for so long it takes nothing.
    pub fn take_within(&self, bytes_max: usize, longest: Duration) -> Option<Vec<Pending<W>>> {
        let mut state = self.lock();
        state.waits.end(Instant::now());
        let waited = self.ready.wait_timeout_while(state, longest, State::is_idle);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        match waited.timed_out() && state.is_idle_now() {
            true => Some(Vec::new()),
            false => self.take_from(state, bytes_max),
        }
    }

    fn take_from(&self, mut state: MutexGuard<'_, State<W>>, bytes_max: usize) -> Option<Vec<Pending<W>>> {
        let mut bytes = 0;
        let fits = |pending: &&Pending<W>| {
            let first = bytes == 0;
            bytes += pending.bytes;
            first || bytes <= bytes_max
        };
        let count = state.waiting.iter().take_while(fits).count();
        let group: Vec<Pending<W>> = state.waiting.drain(..count).collect();
        let taken = group.iter().map(|pending| pending.bytes).sum::<usize>();
        state.bytes -= taken;
        let (left, is_nudged) = (state.bytes, state.is_nudged);
        if !group.is_empty() {
            state.standing.took(left, bytes_max);
            state.waits.begin(Instant::now(), taken, bytes_max);
        }
        drop(state);
        self.space.notify_all();
        (is_nudged || !group.is_empty()).then_some(group)
    }

    /// Has whoever takes writes come back, with none if there are none: there is something else to do.
    pub fn nudge(&self) {
        self.lock().is_nudged = true;
        self.ready.notify_all();
        self.nudged.notify_all();
    }

    /// For whoever takes: waits for a [`Queue::nudge`], which it takes back, for so long at most; no write that comes ends it. Whether the
    /// queue has ended.
    pub fn wait_for_nudge(&self, longest: Duration) -> bool {
        let waits = |state: &mut State<W>| !state.is_nudged && state.end.is_none();
        let waited = self.nudged.wait_timeout_while(self.lock(), longest, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_nudged = false;
        state.end.is_some()
    }

    /// For whoever takes: what the last group took says nothing of the next ones.
    pub fn pass_over(&self) {
        self.lock().waits.pass_over();
    }

    /// Whether there was a [`Queue::nudge`] since the last call.
    pub(crate) fn take_nudge(&self) -> bool {
        std::mem::take(&mut self.lock().is_nudged)
    }

    /// None is taken in from here on; those waiting are still to be taken out.
    pub fn close(&self) {
        self.refuse(QueueError::Closed);
    }

    /// The log thread is gone: callers that wait receive an error. After a close no caller waits.
    pub fn abandon(&self) {
        self.refuse(log_thread_died());
        let unanswered = mem::take(&mut self.lock().waiting);
        // The lock was given back with the statement before. Nobody had begun to write these.
        for pending in unanswered {
            pending.reply.send(Err(log_thread_died().into()));
        }
    }

    /// Ends the queue: every later write gets this error. The first end stays.
    pub fn refuse(&self, told: QueueError) {
        self.lock().end.get_or_insert(told);
        self.ready.notify_all();
        self.space.notify_all();
        self.nudged.notify_all();
    }

    /// Whether the log thread ended before it was stopped.
    pub fn has_died(&self) -> bool {
        let end = self.lock().end.clone();
        matches!(end, Some(QueueError::Failed(error)) if matches!(*error, Error::LogThreadDied))
    }

    /// What keeps a write of that size out, if anything does.
    fn why_no_room(&self, state: &State<W>, bytes: usize) -> Option<QueueError> {
        if state.waiting.is_empty() {
            return None;
        }
        if state.waiting.len() >= self.works_max {
            return Some(QueueError::Full { max: self.works_max });
        }
        let (waiting, max) = (state.bytes, self.bytes_max);
        if bytes > max.saturating_sub(waiting) {
            return Some(QueueError::BytesFull { waiting, bytes, max });
        }
        let max = state.standing.bytes_max()?;
        (bytes > max.saturating_sub(waiting)).then_some(QueueError::Stands { waiting, bytes, max })
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
