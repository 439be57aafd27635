//! The requests that wait and the instances that sleep, behind one lock. It knows no
//! model. Its one invariant: while a place is free and uncalled, every waiting request
//! has a called instance on its way to it, unless an instance waits with it for others, until a time.
//!
//! A thread that sleeps has no place: a caller that runs its own request may have it meanwhile, and calls an instance when it gives
//! it back where others wait.
//!
//! Calls are counted, not aimed: `submit` turns one sleeper into one call, and
//! whichever sleeper wakes takes a call, so a spurious or crossed wake-up costs nothing.
//!
//! Who is served next, who gives way and who comes too late is decided by [`State`], which receives
//! the time and never sleeps.

use super::state::places::{Lent, Seat, Visit, Wake};
use super::state::{Accepted, Act, State};
use super::warm_up::Errand;
use super::{BatcherOptions, Rejected, Request};
use millpond_backends_interface::Instance;
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
    /// When the first of what was cut last could be answered: callers may be back since then.
    pub answered_from: Option<Instant>,
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

/// What became of a request whose caller would run it.
pub(super) enum Visited {
    Lent(Lent),
    /// It waits, and this one gave way to it.
    Queued(Option<Waiting>),
}

pub(super) struct Queue {
    state: Mutex<State>,
    /// Those that sleep without a place.
    wake: Condvar,
    /// The one that has a place and waits for callers, or for a batch to fill.
    held: Condvar,
}

impl Queue {
    pub(super) fn new(options: &BatcherOptions) -> Queue {
        Queue {
            state: Mutex::new(State::new(options, Instant::now())),
            wake: Condvar::new(),
            held: Condvar::new(),
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
        Ok(self.accepted(accepted))
    }

    /// As [`Queue::submit`], for a request that waited for the end of its thread's turn.
    pub(super) fn hand_over(&self, request: Request) -> Result<Option<Waiting>, (Rejected, Request)> {
        let now = Instant::now();
        let accepted = self.lock().hand_over(request, now)?;
        Ok(self.accepted(accepted))
    }

    /// As [`Queue::submit`], or gives the caller a place to run it at.
    pub(super) fn visit(&self, request: Request) -> Result<Visited, (Rejected, Request)> {
        let now = Instant::now();
        let visit = self.lock().visit(request, now)?;
        Ok(match visit {
            Visit::Lent(lent) => Visited::Lent(lent),
            Visit::Queued(accepted) => Visited::Queued(self.accepted(accepted)),
        })
    }

    /// Takes a place back that [`Queue::visit`] gave.
    pub(super) fn give_back(&self, place: usize, instance: Option<Box<dyn Instance>>, learns: bool) {
        let now = Instant::now();
        let wake = self.lock().give_back(place, instance, learns, now);
        match wake {
            Wake::Nobody => {}
            Wake::Sleeper => self.wake.notify_one(),
            Wake::Holder => self.held.notify_one(),
            Wake::All => self.wake_all(),
        }
    }

    fn accepted(&self, accepted: Accepted) -> Option<Waiting> {
        if accepted.call {
            self.wake.notify_one();
        }
        if accepted.ends_hold {
            self.held.notify_one();
        }
        accepted.evicted
    }

    /// As [`Queue::next`], for a thread that begins: it was counted idle from the beginning. Returns its seat as well.
    pub(super) fn first(&self, thread: usize, cut: &mut Cut) -> (Seat, Next) {
        let (state, mut seat) = self.sleep(self.lock(), thread);
        let next = self.decide(state, &mut seat, cut);
        (seat, next)
    }

    /// Sleeps until there is something to do for the instance of this seat; a batch is put into `cut`.
    pub(super) fn next(&self, seat: &mut Seat, cut: &mut Cut) -> Next {
        self.decide(self.lock(), seat, cut)
    }

    /// What an awake instance does. It must hold the lock between taking a call and
    /// cutting: another instance would see no call outstanding and take its request along.
    fn decide<'a>(&'a self, mut state: MutexGuard<'a, State>, seat: &mut Seat, cut: &mut Cut) -> Next {
        loop {
            match state.next(*seat, Instant::now(), cut) {
                Act::WarmUp(errand) => return Next::WarmUp(errand),
                Act::Serve { releases } => {
                    // It sleeps among the others from now on, unless it was called at once.
                    if releases {
                        self.held.notify_one();
                    }
                    return Next::Serve;
                }
                Act::Stop => return Next::Stop,
                Act::Rest => (state, *seat) = self.sleep(state, seat.thread),
                Act::Hold(until) => (state, *seat) = self.hold(state, *seat, until),
            }
        }
    }

    /// Sleeps, counted idle and without a place, until called, sent on an errand, or told to stop.
    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State>, thread: usize) -> (MutexGuard<'a, State>, Seat) {
        loop {
            let otherwise_needed = state.stopping || !state.errands[thread].is_empty();
            if otherwise_needed && state.idle > 0 {
                state.idle -= 1;
                // This thread may have got the wake-up of a call; pass it on to a sleeper.
                if state.called > 0 {
                    self.wake.notify_one();
                }
                break;
            }
            if state.called > 0 {
                state.called -= 1;
                break;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let place = state.take_place();
        (state, Seat { thread, place })
    }

    /// Sleeps until then, or until there is reason to look again.
    fn hold<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        seat: Seat,
        until: Instant,
    ) -> (MutexGuard<'a, State>, Seat) {
        let left = until.saturating_duration_since(state.looked());
        let woken = self.held.wait_timeout(state, left);
        let (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        match state.holds(seat) {
            true => (state, seat),
            // Another instance took what waited; this one was counted idle, or called, meanwhile.
            false => self.sleep(state, seat.thread),
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
        self.wake_all();
        Ok(())
    }

    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.wake_all();
    }

    fn wake_all(&self) {
        self.wake.notify_all();
        self.held.notify_all();
    }
}
