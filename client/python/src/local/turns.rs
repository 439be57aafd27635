//! Turns of calls that keep the interpreter: while one is in a backend that lost the interpreter, others wait for it to come out, without
//! the interpreter, and then run on their own threads. Handed to an instance's thread they would need that thread, which needs the interpreter
//! too, and so would all that come meanwhile.
//!
//! They wait in a line. The first one is called to ask for the interpreter when a call comes out; all of them at once would have it go round
//! among them. Where it gets the interpreter while the turn is taken, the next call that comes out hands its turn over, so that each
//! of them has its turn after as many switches of the interpreter as stand before it.
//!
//! It runs nothing. Its invariants: whoever holds the lock needs no interpreter; a turn is held or handed over, and never lost; and a wait
//! ends where nobody comes out, since what has the turn may do anything, and while half of its deadline is left.

use crate::ask::SIGNALS_EVERY;
use crate::ending::detach;
use pyo3::prelude::*;
use rustix::process::getpid;
use rustix::thread::gettid;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a call waits while nobody comes out, before it is queued like any other.
const STILL_MAX: Duration = Duration::from_millis(100);

/// Who is in a backend, and who waits.
pub(super) struct Turns {
    /// Calls that may be inside at a time: instances of the pipeline's backends.
    most: usize,
    /// Calls that are inside, and turns that were handed over.
    inside: AtomicUsize,
    /// Length of the line; written with the lock held.
    waiting: AtomicUsize,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    waiters: VecDeque<Arc<Waiter>>,
    /// One was called and has not been seen again.
    is_called: bool,
    /// How many have come out while others waited.
    left: u64,
}

/// A thread in the line, or taken out of it by what it is told.
struct Waiter {
    /// It had the interpreter while no turn was left.
    wants: bool,
    /// Written with the lock held.
    told: OnceLock<Told>,
    wake: Condvar,
}

#[derive(Clone, Copy)]
enum Told {
    /// It may ask for a turn when it has the interpreter.
    Called,
    /// A turn is its own.
    HandedOver,
}

/// How a wait ended.
enum Waited<'a> {
    HandedOver(Turn<'a>),
    /// Called, or a turn was left before it waited.
    Called,
    /// The main thread looks at its signals.
    Looks,
    /// Without a turn; the call is queued.
    InVain,
}

/// A call that is inside, until this is dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    pub(super) fn new(most: usize) -> Turns {
        Turns {
            most,
            inside: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            line: Mutex::default(),
        }
    }

    /// A turn: at once if there is one, or when others have come out; `None` where none of them does, or half of the time until
    /// `deadline` has passed: the rest is the queue's.
    ///
    /// # Errors
    /// What a signal handler raised.
    pub(super) fn enter(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Option<Turn<'_>>> {
        if let Some(turn) = self.enter_now() {
            return Ok(Some(turn));
        }
        let now = Instant::now();
        let until = deadline.map(|deadline| now + deadline.saturating_duration_since(now) / 2);
        let (mut first, mut wants) = (false, false);
        loop {
            let waited = detach(py, || self.wait(until, first, wants));
            first = true;
            match waited {
                Waited::HandedOver(turn) => return Ok(Some(turn)),
                Waited::InVain => return Ok(None),
                Waited::Looks => py.check_signals()?,
                Waited::Called => wants = true,
            }
            if let Some(turn) = self.enter_now() {
                if wants {
                    self.line().is_called = false;
                }
                return Ok(Some(turn));
            }
        }
    }

    fn enter_now(&self) -> Option<Turn<'_>> {
        let more = |inside| (inside < self.most).then_some(inside + 1);
        let entered = self.inside.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        entered.is_ok().then(|| Turn(self))
    }

    /// Waits in the line, at its head if it is `first`; `wants` says that it was called once and found no turn left. To be called without the
    /// interpreter.
    fn wait(&self, until: Option<Instant>, first: bool, wants: bool) -> Waited<'_> {
        let mut line = self.line();
        if wants {
            line.is_called = false;
        }
        // Before it looks: whoever leaves after that sees that it waits.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.inside.load(Ordering::SeqCst) < self.most {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            return Waited::Called;
        }
        let waiter = Arc::new(Waiter {
            wants,
            told: OnceLock::new(),
            wake: Condvar::new(),
        });
        match first {
            true => line.waiters.push_front(Arc::clone(&waiter)),
            false => line.waiters.push_back(Arc::clone(&waiter)),
        }
        let is_main = gettid() == getpid();
        let slice = if is_main { SIGNALS_EVERY } else { STILL_MAX };
        loop {
            let (seen, now) = (line.left, Instant::now());
            let left = until.map_or(slice, |until| until.saturating_duration_since(now));
            let slept = waiter.wake.wait_timeout(line, left.min(slice));
            (line, _) = slept.unwrap_or_else(PoisonError::into_inner);
            let is_past = || until.is_some_and(|until| Instant::now() >= until);
            let ended = match waiter.told.get() {
                Some(Told::Called) => return Waited::Called,
                Some(Told::HandedOver) => return Waited::HandedOver(Turn(self)),
                None if is_past() => Waited::InVain,
                None if now.elapsed() < slice => continue,
                None if is_main => Waited::Looks,
                None if line.left == seen => Waited::InVain,
                None => continue,
            };
            line.waiters.retain(|other| !Arc::ptr_eq(other, &waiter));
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            return ended;
        }
    }

    /// One has come out: calls the first one of the line, unless one is called already.
    fn call_one(&self, mut line: MutexGuard<'_, Line>) {
        line.left += 1;
        if !line.is_called && self.tell_first(&mut line, Told::Called) {
            line.is_called = true;
        }
    }

    /// Takes the first one out of the line; whether there is one.
    fn tell_first(&self, line: &mut Line, told: Told) -> bool {
        let Some(first) = line.waiters.pop_front() else {
            return false;
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let _ = first.told.set(told);
        first.wake.notify_one();
        true
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let turns = self.0;
        if turns.waiting.load(Ordering::SeqCst) > 0 {
            let mut line = turns.line();
            if line.waiters.front().is_some_and(|first| first.wants) {
                line.left += 1;
                turns.tell_first(&mut line, Told::HandedOver);
                return;
            }
            turns.inside.fetch_sub(1, Ordering::SeqCst);
            return turns.call_one(line);
        }
        turns.inside.fetch_sub(1, Ordering::SeqCst);
        // One that has begun to wait meanwhile saw that nobody had left.
        if turns.waiting.load(Ordering::SeqCst) > 0 {
            turns.call_one(turns.line());
        }
    }
}
