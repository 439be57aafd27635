//! The requests that wait and the instances that sleep, behind one lock. It knows no
//! model. Its one invariant: while an instance sleeps uncalled, every waiting request
//! has a called instance on its way to it, unless that instance waits for callers itself, until a time.
//!
//! Calls are counted, not aimed: `submit` turns one sleeper into one call, and
//! whichever sleeper wakes takes a call, so a spurious or crossed wake-up costs nothing.
//!
//! Who is served next, who gives way and who comes too late is decided by [`State`], which receives
//! the time and never sleeps.

use super::state::{Act, State};
use super::warm_up::Errand;
use super::{BatcherOptions, Rejected, Request};
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
    /// Whether the request is still worth running.
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
pub(super) enum Next {
    /// The cut was filled.
    Serve,
    /// Warm up.
    WarmUp(Errand),
    /// The queue is empty and stopped.
    Stop,
}

pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

impl Queue {
    pub(super) fn new(options: &BatcherOptions) -> Queue {
        Queue {
            state: Mutex::new(State::new(options, Instant::now())),
            wake: Condvar::new(),
        }
    }

    /// What waits. No code that can panic runs under this lock, so its data is consistent even when it is poisoned.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts `request`, and returns the request that it evicted.
    pub(super) fn submit(&self, request: Request) -> Result<Option<Waiting>, (Rejected, Request)> {
        let now = Instant::now();
        let accepted = self.lock().submit(request, now)?;
        if accepted.call || accepted.ends_hold {
            self.wake.notify_one();
        }
        Ok(accepted.evicted)
    }

    /// As [`Queue::next`], for an instance that begins: it was counted idle from the beginning.
    pub(super) fn first(&self, instance: usize, cut: &mut Cut) -> Next {
        let state = self.sleep(self.lock(), instance);
        self.decide(state, instance, cut)
    }

    /// Sleeps until there is something to do for `instance`; a batch is put into `cut`.
    pub(super) fn next(&self, instance: usize, cut: &mut Cut) -> Next {
        self.decide(self.lock(), instance, cut)
    }

    /// What an awake instance does. It must hold the lock between taking a call and
    /// cutting: another instance would see no call outstanding and take its request along.
    fn decide<'a>(&'a self, mut state: MutexGuard<'a, State>, instance: usize, cut: &mut Cut) -> Next {
        loop {
            match state.next(instance, Instant::now(), cut) {
                Act::WarmUp(errand) => return Next::WarmUp(errand),
                Act::Serve { call } => {
                    if call {
                        self.wake.notify_one();
                    }
                    return Next::Serve;
                }
                Act::Stop => return Next::Stop,
                Act::Rest => state = self.sleep(state, instance),
                Act::Hold(until) => state = self.hold(state, instance, until),
            }
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

    /// Sleeps until then, or until there is reason to look again. It is the only sleeper then, so that a wake-up is its own.
    fn hold<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        instance: usize,
        until: Instant,
    ) -> MutexGuard<'a, State> {
        let left = until.saturating_duration_since(state.looked());
        let woken = self.wake.wait_timeout(state, left);
        let (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        match state.holds(instance) {
            true => state,
            // Another instance took what waited; this one was counted idle, or called, meanwhile.
            false => self.sleep(state, instance),
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
}
