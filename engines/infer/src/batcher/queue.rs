//! The requests that wait and the instances that sleep, behind one lock. It knows no
//! model. Its one invariant: while an instance sleeps uncalled, every waiting request
//! has a called instance on its way to it.
//!
//! Calls are counted, not aimed: `submit` turns one sleeper into one call, and
//! whichever sleeper wakes takes a call, so a spurious or crossed wake-up costs nothing.

use super::stats::Load;
use super::warm_up::Errand;
use super::{Rejected, Request};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// An accepted request.
#[derive(Debug)]
pub(super) struct Waiting {
    pub request: Request,
    /// When it was accepted; its queue time starts here.
    pub submitted: Instant,
}

/// Why an accepted request is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    DeadlinePassed,
    ClientGone,
}

impl Waiting {
    /// Whether running it is still worth anything.
    pub(super) fn dropped(&self, now: Instant) -> Option<Dropped> {
        if self.request.gone.load(Ordering::Acquire) {
            Some(Dropped::ClientGone)
        } else if self.request.deadline.is_some_and(|deadline| deadline <= now) {
            Some(Dropped::DeadlinePassed)
        } else {
            None
        }
    }
}

/// What one cut took from the queue. Kept by the instance and filled again, so that
/// cutting allocates nothing once it is warm.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// To be run together, first come first; rows within the limit unless it is a single request.
    pub batch: Vec<Waiting>,
    /// To be answered without a run.
    pub dropped: Vec<(Waiting, Dropped)>,
}

/// What an instance does next.
pub(super) enum Turn {
    /// The cut was filled.
    Serve,
    /// Warm up.
    WarmUp(Errand),
    /// Nothing is left and nothing will come.
    Stop,
}

struct State {
    waiting: VecDeque<Waiting>,
    /// Instances asleep, or about to be for the first time, that no request has called.
    idle: usize,
    /// Instances called that have not woken yet.
    called: usize,
    /// One mailbox an instance: warming up must reach each of them.
    errands: Vec<VecDeque<Errand>>,
    stopping: bool,
    /// Calls since the start, for the statistics.
    calls: u64,
}

pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    queue_max: usize,
}

impl Queue {
    pub(super) fn new(instances: usize, queue_max: usize) -> Queue {
        let mut errands = Vec::new();
        errands.resize_with(instances, VecDeque::new);
        let state = State {
            waiting: VecDeque::new(),
            idle: instances,
            called: 0,
            errands,
            stopping: false,
            calls: 0,
        };
        Queue {
            state: Mutex::new(state),
            wake: Condvar::new(),
            queue_max,
        }
    }

    /// No code that can panic runs under this lock, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn submit(&self, request: Request) -> Result<(), (Rejected, Request)> {
        let submitted = Instant::now();
        let mut state = self.lock();
        if state.stopping {
            return Err((Rejected::Stopping, request));
        }
        let call = state.idle > 0;
        // A request that a called instance is about to fetch does not wait for a run.
        let queued = state.waiting.len().saturating_sub(state.called);
        if !call && queued >= self.queue_max {
            return Err((
                Rejected::QueueFull {
                    queued,
                    queue_max: self.queue_max,
                },
                request,
            ));
        }
        state.waiting.push_back(Waiting { request, submitted });
        if call {
            state.idle -= 1;
            state.called += 1;
            state.calls += 1;
        }
        drop(state);
        if call {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// The first turn of an instance, which was counted idle from the beginning.
    pub(super) fn first(&self, instance: usize, batch_size_max: usize, cut: &mut Cut) -> Turn {
        let state = self.sleep(self.lock(), instance);
        self.turn(state, instance, batch_size_max, cut)
    }

    /// Sleeps until there is something to do for `instance`; a batch is put into `cut`.
    pub(super) fn next(&self, instance: usize, batch_size_max: usize, cut: &mut Cut) -> Turn {
        self.turn(self.lock(), instance, batch_size_max, cut)
    }

    /// What an awake instance does. It must not let go of the lock between taking a call and
    /// cutting: another instance would see no call outstanding and take its request along.
    fn turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        instance: usize,
        batch_size_max: usize,
        cut: &mut Cut,
    ) -> Turn {
        loop {
            if let Some(errand) = state.errands[instance].pop_front() {
                return Turn::WarmUp(errand);
            }
            state.cut(batch_size_max, cut);
            if !cut.batch.is_empty() || !cut.dropped.is_empty() {
                return Turn::Serve;
            }
            if state.stopping {
                return Turn::Stop;
            }
            state.idle += 1;
            state = self.sleep(state, instance);
        }
    }

    /// Sleeps, counted idle, until called, sent on an errand, or told to stop.
    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State>, instance: usize) -> MutexGuard<'a, State> {
        loop {
            let otherwise_needed = state.stopping || !state.errands[instance].is_empty();
            if otherwise_needed && state.idle > 0 {
                state.idle -= 1;
                // This thread may have got the wake-up of a call; pass it on to a sleeper.
                if state.called > 0 {
                    self.wake.notify_one();
                }
                return state;
            }
            if state.called > 0 {
                state.called -= 1;
                return state;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Leaves one errand an instance.
    pub(super) fn send_errands(&self, errands: Vec<Errand>) -> Result<(), Rejected> {
        let mut state = self.lock();
        if state.stopping {
            return Err(Rejected::Stopping);
        }
        for (mailbox, errand) in state.errands.iter_mut().zip(errands) {
            mailbox.push_back(errand);
        }
        drop(state);
        self.wake.notify_all();
        Ok(())
    }

    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.wake.notify_all();
    }

    pub(super) fn load(&self) -> Load {
        let state = self.lock();
        Load {
            queued: state.waiting.len(),
            busy: state.errands.len().saturating_sub(state.idle),
            wakes: state.calls,
        }
    }
}

impl State {
    /// Takes requests from the front while their rows fit; the first always fits. One is left
    /// for each instance that was called and has not come yet, so that they run side by side.
    fn cut(&mut self, batch_size_max: usize, cut: &mut Cut) {
        if self.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut rows = 0usize;
        while let Some(front) = self.waiting.front() {
            let dropped = front.dropped(now);
            let with_front = rows.saturating_add(front.request.rows);
            let enough = with_front > batch_size_max || self.waiting.len() <= self.called;
            if dropped.is_none() && !cut.batch.is_empty() && enough {
                return;
            }
            let Some(waiting) = self.waiting.pop_front() else {
                return;
            };
            match dropped {
                Some(reason) => cut.dropped.push((waiting, reason)),
                None => {
                    rows = with_front;
                    cut.batch.push(waiting);
                }
            }
        }
    }
}
