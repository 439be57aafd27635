//! Turns of calls that keep the interpreter: while one is in a backend that lost the interpreter, others wait for it to come out, without
//! the interpreter, and then run on their own threads. Handed to an instance's thread they would need that thread, which needs the interpreter
//! too, and so would all that come meanwhile.
//!
//! It runs nothing. Its invariants: whoever holds the lock needs no interpreter; and a wait is bounded, since what has the turn may do anything.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Who is in a backend, and who waits.
pub(super) struct Turns {
    /// Calls that may be inside at a time: instances of the pipeline's backends.
    most: usize,
    inside: AtomicUsize,
    waiting: AtomicUsize,
    /// How often one came out while others waited.
    left: Mutex<u64>,
    leaves: Condvar,
}

/// A call that is inside, until this is dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    pub(super) fn new(most: usize) -> Turns {
        Turns {
            most,
            inside: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            left: Mutex::new(0),
            leaves: Condvar::new(),
        }
    }

    /// A turn, if there is one at once.
    pub(super) fn enter(&self) -> Option<Turn<'_>> {
        let more = |inside| (inside < self.most).then_some(inside + 1);
        let entered = self.inside.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        entered.is_ok().then(|| Turn(self))
    }

    /// Waits until one has come out, and says whether that was before `until`; to be called without the interpreter. Whoever is inside by then
    /// is no reason to wait on: it has the interpreter, or this thread would not get it.
    pub(super) fn wait(&self, until: Instant) -> bool {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        // Before it looks: whoever leaves after that sees that it waits.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let seen = *left;
        let is_full = self.inside.load(Ordering::SeqCst) >= self.most;
        let waits = |left: &mut u64| is_full && *left == seen;
        let most = until.saturating_duration_since(Instant::now());
        let waited = self.leaves.wait_timeout_while(left, most, waits);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let (_left, ended) = waited.unwrap_or_else(PoisonError::into_inner);
        !ended.timed_out() && Instant::now() < until
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
        if self.0.waiting.load(Ordering::SeqCst) > 0 {
            let left = self.0.left.lock();
            *left.unwrap_or_else(PoisonError::into_inner) += 1;
            self.0.leaves.notify_one();
        }
    }
}
