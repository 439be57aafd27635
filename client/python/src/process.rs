//! Values that belong to one process.
//!
//! A fork copies the memory of the client's thread but not the thread, and its locks as they stood: taking one in
//! the child may wait for ever. The invariant: in any other process than its own a value can be neither reached nor
//! dropped; the child leaks it.

use crate::ending::forget_users;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// This process's number, once it was asked for; 0 again in a child, by Python's own hook of forks.
static PID: AtomicU32 = AtomicU32::new(0);

/// The process's number, without a call of the system for each look.
pub(crate) fn id() -> u32 {
    match PID.load(Ordering::Relaxed) {
        0 => {
            let pid = process::id();
            PID.store(pid, Ordering::Relaxed);
            pid
        }
        pid => pid,
    }
}

/// What Python runs in a child that it forked. The descriptors that the child must close: while they are open there, the workers of the parent do not
/// learn that it is gone.
#[pyo3::pyfunction]
pub(crate) fn forget_process() -> Vec<i32> {
    PID.store(0, Ordering::Relaxed);
    forget_users();
    millpond_backends_worker::inherited()
}

/// Ends this process once the server at the other end of standard input is gone, even while Python holds the interpreter; the
/// number of the descriptor that a forked process must close.
#[pyo3::pyfunction]
pub(crate) fn end_with_server() -> std::io::Result<i32> {
    millpond_backends_worker::end_with_server()
}

/// A value that only the process which made it may touch.
pub(crate) struct OfProcess<T> {
    /// `None` never but while it is dropped.
    value: Option<T>,
    /// The process that made it.
    pid: u32,
}

impl<T> OfProcess<T> {
    /// Belongs to this process.
    pub(crate) fn new(value: T) -> OfProcess<T> {
        OfProcess {
            value: Some(value),
            pid: id(),
        }
    }

    /// The value, in its own process; the process it belongs to, in another.
    pub(crate) fn get(&self) -> Result<&T, u32> {
        match &self.value {
            Some(value) if self.pid == id() => Ok(value),
            _ => Err(self.pid),
        }
    }

    /// Takes the value out, if this is its process; `of` has none afterwards.
    pub(crate) fn taken(of: &mut OfProcess<T>) -> Option<T> {
        match of.pid == id() {
            true => of.value.take(),
            false => None,
        }
    }

    /// The value, if this is its process.
    pub(crate) fn into_inner(mut self) -> Option<T> {
        if self.pid == id() { self.value.take() } else { None }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.pid != id() {
            std::mem::forget(self.value.take());
        }
    }
}
