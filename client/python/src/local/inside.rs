//! What runs on this thread: a caller, who gets what interrupts a backend there; and backends, whose pipelines would wait for themselves.
//!
//! It sees this thread alone: a backend that has another thread call its pipeline, and waits for that, is not seen. Its invariant:
//! a thread is inside a pipeline exactly while one of its Python backends runs there.

use pyo3::PyErr;
use std::cell::{Cell, RefCell};

thread_local! {
    /// Calls of pipelines that run on this thread, one inside of the other.
    static CALLERS: Cell<usize> = const { Cell::new(0) };
    /// What the innermost of them is to raise.
    static INTERRUPT: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    static INSIDE: RefCell<Vec<(u64, String)>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, this thread runs a backend of a pipeline.
pub(super) struct Inside(());

impl Inside {
    pub(super) fn enter(owner: u64, backend: &str) -> Inside {
        INSIDE.with_borrow_mut(|inside| inside.push((owner, backend.to_owned())));
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(Vec::pop);
    }
}

/// The backend of that pipeline which this thread runs, if it does.
pub(super) fn of(owner: u64) -> Option<String> {
    INSIDE.with_borrow(|inside| {
        let mut inside = inside.iter().rev();
        inside
            .find(|(found, _)| *found == owner)
            .map(|(_, backend)| backend.clone())
    })
}

/// Runs `call` for a caller of this thread, and says what interrupted a backend meanwhile: Ctrl-C, for one.
pub(super) fn caller(call: impl FnOnce()) -> Option<PyErr> {
    CALLERS.set(CALLERS.get() + 1);
    let outer = INTERRUPT.take();
    call();
    CALLERS.set(CALLERS.get() - 1);
    INTERRUPT.replace(outer)
}

/// Has this thread's caller raise it; nothing happens where there is none.
pub(super) fn interrupt(error: PyErr) {
    if CALLERS.get() > 0 {
        INTERRUPT.set(Some(error));
    }
}
