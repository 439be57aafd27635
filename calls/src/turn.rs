//! What a net thread keeps from the beginning of a turn to its end: the state that serves its calls, and what it has answered.
//!
//! The answers of a turn leave together, so they are timed together. Its invariant: between two turns it holds nothing.

use crate::{Calls, MethodId, Statistics};
use arc_swap::Guard;
use std::cell::{Ref, RefCell};
use std::sync::Arc;
use std::time::Instant;

/// The state, the calls and the answers of a turn.
pub struct Turn<S> {
    /// Loaded for the first call of the turn that needs it.
    state: RefCell<Option<Guard<Arc<S>>>>,
    /// Calls that were answered at once.
    answered: RefCell<Vec<(MethodId, u32)>>,
    /// Answers of other threads that have left: their methods, and since when they were ready.
    written: RefCell<Vec<(MethodId, Instant)>>,
}

impl<S> Default for Turn<S> {
    fn default() -> Turn<S> {
        Turn {
            state: RefCell::default(),
            answered: RefCell::default(),
            written: RefCell::default(),
        }
    }
}

impl<S> Turn<S> {
    /// What serves all calls of this turn; nothing before the process is ready.
    #[inline]
    pub(crate) fn state(&self, calls: &Calls<S>) -> Option<Ref<'_, S>> {
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

    /// The turn is over: each of its calls took all of it.
    pub fn end(&self, began: Instant, calls: &Calls<S>) {
        *self.state.borrow_mut() = None;
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
