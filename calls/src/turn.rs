//! What a net thread keeps from the beginning of a turn to its end: the state that serves its calls, and what it has answered.
//!
//! The answers of a turn leave together, so they are timed together; those of calls that waited for its end leave after that, and
//! have their own times. Its invariant: between two turns it holds nothing.

use crate::{Backing, Calls, MethodId, Statistics};
use arc_swap::Guard;
use std::cell::{Ref, RefCell, RefMut};
use std::sync::Arc;
use std::time::Instant;

/// The state, the calls and the answers of a turn.
pub struct Turn<S: Backing> {
    /// Loaded for the first call of the turn that needs it.
    state: RefCell<Option<Guard<Arc<S::State>>>>,
    /// Calls that wait for its end.
    batch: RefCell<S::Batch>,
    /// Calls that were answered at once.
    answered: RefCell<Vec<(MethodId, u32)>>,
    /// Answers of other threads that have left: their methods, and since when they were ready.
    written: RefCell<Vec<(MethodId, Instant)>>,
}

impl<S: Backing> Default for Turn<S> {
    fn default() -> Turn<S> {
        Turn {
            state: RefCell::default(),
            batch: RefCell::default(),
            answered: RefCell::default(),
            written: RefCell::default(),
        }
    }
}

impl<S: Backing> Turn<S> {
    /// What serves all calls of this turn; nothing before the process is ready.
    #[inline]
    pub(crate) fn state(&self, calls: &Calls<S>) -> Option<Ref<'_, S::State>> {
        if self.state.borrow().is_none() {
            *self.state.borrow_mut() = Some(calls.state()?);
        }
        Ref::filter_map(self.state.borrow(), |state| state.as_ref().map(|state| &***state)).ok()
    }

    /// A call was answered; it is counted, unless nothing is.
    #[inline]
    pub(crate) fn answered(&self, method: MethodId, statistics: &Statistics) {
        if !statistics.answered_at_once(method) {
            return;
        }
        let mut answered = self.answered.borrow_mut();
        match answered.iter_mut().find(|(of, _)| *of == method) {
            Some((_, calls)) => *calls += 1,
            None => answered.push((method, 1)),
        }
    }

    /// An answer of that method, which was ready then, has left.
    pub fn written(&self, method: MethodId, since: Instant) {
        self.written.borrow_mut().push((method, since));
    }

    pub(crate) fn batch(&self) -> RefMut<'_, S::Batch> {
        self.batch.borrow_mut()
    }

    /// Whether calls wait for its end.
    pub fn has_batch(&self) -> bool {
        S::waits(&self.batch.borrow())
    }

    /// Every connection had its turn: calls that wait are served. What was answered before them was sent before them, so it is timed
    /// first.
    pub fn serve_batch(&self, began: Instant, calls: &Calls<S>) {
        self.time(began, calls);
        S::serve(&mut self.batch.borrow_mut());
    }

    /// The turn is over: each of its calls took all of it.
    pub fn end(&self, began: Instant, calls: &Calls<S>) {
        *self.state.borrow_mut() = None;
        self.time(began, calls);
    }

    fn time(&self, began: Instant, calls: &Calls<S>) {
        let (mut answered, mut written) = (self.answered.borrow_mut(), self.written.borrow_mut());
        if answered.is_empty() && written.is_empty() {
            return;
        }
        let (now, statistics) = (Instant::now(), &calls.statistics);
        for (method, calls) in answered.drain(..) {
            statistics.timed(method, now.saturating_duration_since(began), calls);
        }
        for (method, since) in written.drain(..) {
            statistics.wrote(method, now.saturating_duration_since(since));
        }
    }
}
