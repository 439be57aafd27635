//! Commands of one call that go again one by one where it is refused whole: an error of one is not its neighbours'.
//!
//! Its invariant: they go again where the call has changed nothing, and are forgotten once it has an answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The commands of the last call of a connection that several shared.
#[derive(Debug, Default)]
pub(crate) struct Again {
    bytes: Mutex<Vec<u8>>,
    len: AtomicUsize,
    /// The call was refused, and they are to go.
    is_due: AtomicBool,
}

impl Again {
    /// Keeps the commands while their call is on its way.
    pub(crate) fn keep(&self, commands: &[u8]) {
        self.put(commands.to_vec());
    }

    /// The call has an answer.
    pub(crate) fn settle(&self) {
        self.put(Vec::new());
    }

    fn put(&self, bytes: Vec<u8>) {
        self.len.store(bytes.len(), Ordering::Relaxed);
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
    }

    /// The call was refused.
    pub(crate) fn refuse(&self) {
        self.is_due.store(true, Ordering::Release);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// The commands, where they are to go again.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        if !self.is_due.swap(false, Ordering::Acquire) {
            return None;
        }
        self.len.store(0, Ordering::Relaxed);
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        Some(std::mem::take(&mut *bytes))
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}
