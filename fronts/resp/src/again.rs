//! Commands of one call that go again in smaller ones where it is refused whole: an error of one is not its neighbours'.
//!
//! Its invariant: they go again where the call has changed nothing, and are forgotten once it has an answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The commands of the last call of a connection that several shared.
#[derive(Debug, Default)]
pub(crate) struct Again {
    bytes: Mutex<Vec<u8>>,
    /// How many they are.
    count: AtomicUsize,
    /// The call was refused, and they are to go.
    is_due: AtomicBool,
}

impl Again {
    /// Keeps the commands while their call is on its way.
    pub(crate) fn keep(&self, commands: Vec<u8>, count: usize) {
        self.count.store(count, Ordering::Relaxed);
        self.put(commands);
    }

    /// The call has an answer.
    pub(crate) fn settle(&self) {
        self.put(Vec::new());
    }

    fn put(&self, bytes: Vec<u8>) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
    }

    /// The call was refused.
    pub(crate) fn refuse(&self) {
        self.is_due.store(true, Ordering::Release);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// The commands and how many they are, where they are to go again.
    pub(crate) fn take(&self) -> Option<(Vec<u8>, usize)> {
        if !self.is_due.swap(false, Ordering::Acquire) {
            return None;
        }
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        Some((std::mem::take(&mut *bytes), self.count.load(Ordering::Relaxed)))
    }
}
