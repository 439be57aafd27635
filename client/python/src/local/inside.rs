//! What runs on this thread: a caller, who gets what interrupts a backend there; and backends, whose pipelines would wait for themselves.
//!
//! It sees this thread alone: a backend that has another thread call its pipeline, and waits for that, is not seen. Its invariant:
//! a thread is inside a pipeline exactly while one of its Python backends runs there.

use pyo3::PyErr;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

thread_local! {
    /// Calls of pipelines that run on this thread, one inside of the other.
    static CALLERS: Cell<usize> = const { Cell::new(0) };
    /// What the innermost of them is to raise.
    static INTERRUPT: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// How long backends have waited for the interpreter here; `None` where the caller holds it.
    static WAITED: Cell<Option<Duration>> = const { Cell::new(None) };
    /// How often a backend was entered here.
    static ENTERED: Cell<u64> = const { Cell::new(0) };
    static INSIDE: RefCell<Vec<(u64, String)>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, this thread runs a backend of a pipeline.
pub(super) struct Inside(());

impl Inside {
    pub(super) fn enter(owner: u64, backend: &str) -> Inside {
        ENTERED.set(ENTERED.get().wrapping_add(1));
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

/// As [`caller`], for one who has let go of the interpreter: [`Part::own_time`] leaves out what backends wait for it.
pub(super) fn caller_without_interpreter(call: impl FnOnce()) -> Option<PyErr> {
    let outer = WAITED.replace(Some(Duration::ZERO));
    let interrupt = caller(call);
    WAITED.set(outer);
    interrupt
}

/// A call's part on this thread, from its beginning.
pub(super) struct Part {
    began: Instant,
    entered: u64,
}

impl Part {
    pub(super) fn begin() -> Part {
        Part {
            began: Instant::now(),
            entered: ENTERED.get(),
        }
    }

    /// What it has taken but for the waits for the interpreter.
    pub(super) fn own_time(&self) -> Duration {
        let took = self.began.elapsed();
        took.saturating_sub(WAITED.get().unwrap_or_default())
    }

    /// Whether one of Python's backends has run in it.
    pub(super) fn ran_backend(&self) -> bool {
        ENTERED.get() != self.entered
    }
}

/// Has `wait` get the interpreter, and counts how long that takes: until it calls what it is given.
pub(super) fn waiting<T>(wait: impl FnOnce(&dyn Fn()) -> T) -> T {
    let Some(before) = WAITED.get() else {
        return wait(&|| ());
    };
    let began = Instant::now();
    wait(&|| WAITED.set(Some(before + began.elapsed())))
}

/// Has this thread's caller raise it; nothing happens where there is none.
pub(super) fn interrupt(error: PyErr) {
    if CALLERS.get() > 0 {
        INTERRUPT.set(Some(error));
    }
}
