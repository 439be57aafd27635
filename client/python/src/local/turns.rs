//! Turns of calls that keep the interpreter: while one is in a backend that lost the interpreter, others wait for it to come out, without
//! the interpreter, and then run on their own threads. Handed to an instance's thread they would need that thread, which needs the interpreter
//! too, and so would all that come meanwhile.
//!
//! They wait in a line. The first one is called to ask for the interpreter when a call comes out; all of them at once would have it go round
//! among them. Where it gets the interpreter while the turn is taken, the next call that comes out hands its turn over, so that each
//! of them has its turn after as many switches of the interpreter as stand before it, or twice as many.
//!
//! It runs nothing. Its invariants: whoever holds the lock needs no interpreter; a turn is held, handed over or free, and no waiter sleeps beside
//! a free one; and a wait ends where nobody comes out, since what has the turn may do anything, and while half of its deadline is left.

use crate::ask::SIGNALS_EVERY;
use crate::ending::detach;
use pyo3::prelude::*;
use rustix::process::getpid;
use rustix::thread::gettid;
use std::collections::BTreeMap;
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
    /// By their numbers, in the order in which they began to wait.
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// How many have begun to wait.
    began: u64,
    /// One was called and has not been seen again.
    is_called: bool,
    /// How many have come out while others waited.
    came_out: u64,
}

/// A thread in the line, or taken out of it by what it is told.
struct Waiter {
    /// It was called, and found the turn taken.
    was_called: bool,
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

/// A call's place in the line, from its first wait to its last.
struct Place {
    /// Its number; `None` before its first wait.
    number: Option<u64>,
    until: Option<Instant>,
    was_called: bool,
    /// How many had come out when one last did, and when that was seen.
    seen: (u64, Instant),
}

/// How a wait ended.
enum Waited<'a> {
    HandedOver(Turn<'a>),
    Called,
    /// A turn was free before it waited.
    Free,
    /// The main thread looks at its signals.
    Looks,
    /// Without a turn; the call is queued.
    GaveUp,
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
        let mut place = Place {
            number: None,
            until: deadline.map(|deadline| now + deadline.saturating_duration_since(now) / 2),
            was_called: false,
            seen: (0, now),
        };
        loop {
            let is_called = match detach(py, || self.wait(&mut place)) {
                Waited::HandedOver(turn) => return Ok(Some(turn)),
                Waited::GaveUp => return Ok(None),
                Waited::Called => true,
                Waited::Free => false,
                Waited::Looks => {
                    py.check_signals()?;
                    false
                }
            };
            let turn = self.enter_now();
            if is_called {
                place.was_called = turn.is_none();
                self.answered_call();
            }
            if turn.is_some() {
                return Ok(turn);
            }
        }
    }

    fn enter_now(&self) -> Option<Turn<'_>> {
        let more = |inside| (inside < self.most).then_some(inside + 1);
        let entered = self.inside.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        entered.is_ok().then(|| Turn(self))
    }

    /// The called one has been seen: where a turn is free all the same, the next one is called.
    fn answered_call(&self) {
        let mut line = self.line();
        let is_free = self.inside.load(Ordering::SeqCst) < self.most;
        line.is_called = is_free && self.tell_first(&mut line, Told::Called);
    }

    /// Waits in the line, without the interpreter.
    fn wait(&self, place: &mut Place) -> Waited<'_> {
        let mut line = self.line();
        // Before it looks: whoever leaves after that sees that it waits.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.inside.load(Ordering::SeqCst) < self.most {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            return Waited::Free;
        }
        let waiter = Arc::new(Waiter {
            was_called: place.was_called,
            told: OnceLock::new(),
            wake: Condvar::new(),
        });
        let number = *place.number.get_or_insert_with(|| {
            line.began += 1;
            line.began
        });
        line.waiters.insert(number, Arc::clone(&waiter));
        let is_main = gettid() == getpid();
        let looks_at = is_main.then(|| Instant::now() + SIGNALS_EVERY);
        let ended = loop {
            let now = Instant::now();
            if line.came_out != place.seen.0 {
                place.seen = (line.came_out, now);
            }
            let ends_at = [Some(place.seen.1 + STILL_MAX), place.until, looks_at];
            let Some(ends_at) = ends_at.into_iter().flatten().min().filter(|at| *at > now) else {
                match looks_at.is_some_and(|at| at <= now) {
                    true => break Waited::Looks,
                    false => break Waited::GaveUp,
                }
            };
            let slept = waiter.wake.wait_timeout(line, ends_at - now);
            (line, _) = slept.unwrap_or_else(PoisonError::into_inner);
            match waiter.told.get() {
                Some(Told::Called) => return Waited::Called,
                Some(Told::HandedOver) => return Waited::HandedOver(Turn(self)),
                None => {}
            }
        };
        line.waiters.remove(&number);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        ended
    }

    /// One has come out, and its turn is free: calls the first one of the line, unless one is called already.
    fn call_first(&self, mut line: MutexGuard<'_, Line>) {
        line.came_out += 1;
        if !line.is_called {
            line.is_called = self.tell_first(&mut line, Told::Called);
        }
    }

    /// Takes the first one out of the line; whether there is one.
    fn tell_first(&self, line: &mut Line, told: Told) -> bool {
        let Some((_, first)) = line.waiters.pop_first() else {
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
            let first = line.waiters.first_key_value();
            if first.is_some_and(|(_, first)| first.was_called) {
                line.came_out += 1;
                turns.tell_first(&mut line, Told::HandedOver);
                return;
            }
            turns.inside.fetch_sub(1, Ordering::SeqCst);
            return turns.call_first(line);
        }
        turns.inside.fetch_sub(1, Ordering::SeqCst);
        // One that has begun to wait meanwhile saw that no turn was free.
        if turns.waiting.load(Ordering::SeqCst) > 0 {
            turns.call_first(turns.line());
        }
    }
}
