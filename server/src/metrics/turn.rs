//! What a turn of one net thread has answered, timed when the turn is over: its answers leave together.
//!
//! Its invariant: between two turns it holds nothing.

use super::Metrics;
use crate::methods::{Method, Methods};
use std::cell::RefCell;
use std::time::Instant;

/// The calls and the answers of a turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn {
    /// Calls that were answered at once.
    answered: RefCell<Vec<(Method, u32)>>,
    /// Answers of other threads that have left: their marks, and since when they were ready.
    written: RefCell<Vec<(u16, Instant)>>,
}

impl Turn {
    /// A call was answered.
    #[inline]
    pub(crate) fn answered(&self, method: Method) {
        let mut answered = self.answered.borrow_mut();
        match answered.iter_mut().find(|(of, _)| *of == method) {
            Some((_, calls)) => *calls += 1,
            None => answered.push((method, 1)),
        }
    }

    /// An answer of that mark, which was ready then, has left.
    pub(crate) fn written(&self, mark: u16, since: Instant) {
        self.written.borrow_mut().push((mark, since));
    }

    /// The turn is over: each of its calls took all of it.
    pub(crate) fn end(&self, began: Instant, methods: &Methods, metrics: &Metrics) {
        let (mut answered, mut written) = (self.answered.borrow_mut(), self.written.borrow_mut());
        if answered.is_empty() && written.is_empty() {
            return;
        }
        let now = Instant::now();
        for (method, calls) in answered.drain(..) {
            metrics.timed(method, now.saturating_duration_since(began), calls);
        }
        for (mark, since) in written.drain(..) {
            if let Some(method) = methods.marked(mark) {
                metrics.wrote(method, now.saturating_duration_since(since));
            }
        }
    }
}
