//! The end of the server, told to all its threads.
//!
//! Its invariant: once told, no thread sleeps on through `Stop::sleep`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether the server is to end.
#[derive(Default)]
pub(crate) struct Stop {
    /// Beside the mutex, because loops ask once a pass.
    told: AtomicBool,
    sleepers: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    pub(crate) fn tell(&self) {
        let _sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.told.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    pub(crate) fn told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }

    /// Sleeps that long, less if the server is to end.
    pub(crate) fn sleep(&self, length: Duration) {
        let until = Instant::now() + length;
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.told() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = self.changed.wait_timeout(sleepers, left);
            sleepers = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
