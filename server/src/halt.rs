//! The end of threads that wait between two things they do.
//! Its invariant: whoever waits when it is said, or later, waits no longer.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Whether they are to end.
#[derive(Default)]
pub(crate) struct Halt {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl Halt {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.lock()
    }

    /// Waits that long, or until they are to end: whether they are.
    pub(crate) fn within(&self, time: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), time, |is_stopped| !*is_stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
