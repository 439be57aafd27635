//! Turns of calls that keep the interpreter: while one is in a backend that lost the interpreter, others wait for it to come out, without
//! the interpreter, and then run on their own threads. Handed to an instance's thread they would need that thread, which needs the interpreter
//! too, and so would all that come meanwhile.
//!
//! Of those that wait, one at a time is called to ask for the interpreter; all at once they would have it go round among them. Where the
//! called one gets it while the turn is taken, the next call that comes out hands its turn over, so that nobody waits for ever.
//!
//! It runs nothing. Its invariants: whoever holds the lock needs no interpreter; a turn is held or handed over, and never lost; and a wait
//! ends where nobody comes out, since what has the turn may do anything.

use crate::ending::detach;
use pyo3::prelude::*;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a call waits while nobody comes out, before it is queued like any other: as long as the interpreter may be lost twice.
const STILL_MAX: Duration = Duration::from_millis(10);

/// Who is in a backend, and who waits.
pub(super) struct Turns {
    /// Calls that may be inside at a time: instances of the pipeline's backends.
    most: usize,
    /// Calls that are inside, and turns that were handed over.
    inside: AtomicUsize,
    /// Threads that wait; written with the lock held.
    waiting: AtomicUsize,
    line: Mutex<Line>,
    leaves: Condvar,
}

#[derive(Default)]
struct Line {
    /// Turns that were handed over, for as many of those that wait.
    handed_over: usize,
    /// One of those that wait is to ask for the interpreter.
    calls: bool,
    /// Since one was called, it has not been seen again.
    is_called: bool,
    /// The called one had the interpreter while no turn was left.
    is_wanted: bool,
    /// How many have come out while others waited.
    left: u64,
}

/// A call that is inside, until this is dropped.
pub(super) struct Turn<'a>(&'a Turns);

/// How a wait ended.
enum Waited<'a> {
    /// With a turn.
    HandedOver(Turn<'a>),
    /// It may ask for one when it has the interpreter.
    Called,
    /// Without; the call is queued.
    InVain,
}

impl Turns {
    pub(super) fn new(most: usize) -> Turns {
        Turns {
            most,
            inside: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            line: Mutex::default(),
            leaves: Condvar::new(),
        }
    }

    /// A turn: at once if there is one, or when others have come out; `None` where none of them does, or not before `deadline`.
    pub(super) fn enter(&self, py: Python<'_>, deadline: Option<Instant>) -> Option<Turn<'_>> {
        let mut turn = self.enter_now();
        let mut was_called = false;
        while turn.is_none() {
            match detach(py, || self.wait(deadline, was_called)) {
                Waited::HandedOver(turn) => return Some(turn),
                Waited::InVain => return None,
                Waited::Called => (turn, was_called) = (self.enter_now(), true),
            }
        }
        if was_called {
            self.line().is_called = false;
        }
        turn
    }

    fn enter_now(&self) -> Option<Turn<'_>> {
        let more = |inside| (inside < self.most).then_some(inside + 1);
        let entered = self.inside.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        entered.is_ok().then(|| Turn(self))
    }

    /// To be called without the interpreter; `wants` says that it had it and found no turn left.
    fn wait(&self, deadline: Option<Instant>, wants: bool) -> Waited<'_> {
        let mut line = self.line();
        if wants {
            (line.is_called, line.is_wanted) = (false, true);
        }
        // Before it looks: whoever leaves after that sees that it waits.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waited = loop {
            if line.handed_over > 0 {
                line.handed_over -= 1;
                break Waited::HandedOver(Turn(self));
            }
            if mem::take(&mut line.calls) || self.inside.load(Ordering::SeqCst) < self.most {
                break Waited::Called;
            }
            let (seen, now) = (line.left, Instant::now());
            let left = deadline.map_or(STILL_MAX, |deadline| deadline.saturating_duration_since(now));
            if left.is_zero() {
                break Waited::InVain;
            }
            let slept = self.leaves.wait_timeout(line, left.min(STILL_MAX));
            let (awake, ended) = slept.unwrap_or_else(PoisonError::into_inner);
            line = awake;
            if ended.timed_out() && line.left == seen {
                break Waited::InVain;
            }
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    /// One has come out: calls one of those that wait, unless one is called already.
    fn call_one(&self, mut line: MutexGuard<'_, Line>) {
        line.left += 1;
        let others = self.waiting.load(Ordering::SeqCst) > line.handed_over;
        if others && !line.is_called {
            (line.calls, line.is_called) = (true, true);
            drop(line);
            self.leaves.notify_one();
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let turns = self.0;
        if turns.waiting.load(Ordering::SeqCst) == 0 {
            turns.inside.fetch_sub(1, Ordering::SeqCst);
            // One that has begun to wait meanwhile saw that nobody had left.
            if turns.waiting.load(Ordering::SeqCst) == 0 {
                return;
            }
            return turns.call_one(turns.line());
        }
        let mut line = turns.line();
        let others = turns.waiting.load(Ordering::SeqCst) > line.handed_over;
        if others && mem::take(&mut line.is_wanted) {
            line.handed_over += 1;
            line.left += 1;
            drop(line);
            return turns.leaves.notify_one();
        }
        turns.inside.fetch_sub(1, Ordering::SeqCst);
        turns.call_one(line);
    }
}
