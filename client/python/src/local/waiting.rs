//! A call that a thread waits for, and how the thread gives it up.
//!
//! It runs nothing. Its invariant: the wait ends a moment behind the call's deadline at the latest, whatever holds a model.

use crate::ask::{Ended, Reply, SIGNALS_EVERY, Slot, To};
use crate::failure::Failure;
use millpond_pipelines::Ask;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A call that a thread waits for.
pub(super) struct Waiting {
    slot: Arc<Slot>,
    /// The call's: no model begins it once it is set.
    gone: Arc<AtomicBool>,
    until: Option<Instant>,
    /// What the call allowed.
    deadline: Option<Duration>,
}

impl Waiting {
    pub(super) fn new(ask: &Ask, deadline: Option<Duration>) -> Waiting {
        Waiting {
            slot: Arc::default(),
            gone: Arc::clone(&ask.gone),
            until: ask.deadline,
            deadline,
        }
    }

    /// What tells the thread how the call ended.
    pub(super) fn reply(&self) -> Reply {
        Reply::new(To::Thread(Arc::clone(&self.slot)))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.slot.is_filled()
    }

    pub(super) fn give_up(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Waits until the call has ended; past its deadline, or where a signal handler raises, it is given up.
    ///
    /// # Errors
    /// What a signal handler raised.
    pub(super) fn wait(&self, py: Python<'_>, pipeline: &str) -> PyResult<Ended> {
        // A queue that is looked at says more of a deadline that passed, so it goes first.
        let until = self.until.and_then(|until| until.checked_add(SIGNALS_EVERY));
        match self.slot.wait_until(py, until).inspect_err(|_| self.give_up())? {
            Some(ended) => Ok(ended),
            None => {
                self.give_up();
                Ok(Err(Failure::Late {
                    pipeline: pipeline.to_owned(),
                    deadline: self.deadline.unwrap_or_default(),
                }))
            }
        }
    }
}
