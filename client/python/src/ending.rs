//! The end of the interpreter, which before Python 3.14 ends each thread that asks for it again, in the midst of our frames: that would crash.
//!
//! It ends nothing itself. Its invariants: exit handlers, whatever their age, find pipelines that work; after the last of them the interpreter does
//! not end until threads have come out of Python's backends, but for a bound of time; and from then on no thread but the one that ends it comes
//! back into it from here.

use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long the end waits for backends under way.
const DRAIN: Duration = Duration::from_secs(10);
/// How often it looks whether they have come out.
const LOOK_EVERY: Duration = Duration::from_millis(2);

static ENDS: AtomicBool = AtomicBool::new(false);
/// The thread that ends the interpreter.
static ENDER: OnceLock<ThreadId> = OnceLock::new();
/// Threads that use the interpreter from here, or are about to.
static USERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Uses of this thread, one inside of the other.
    static USES: Cell<usize> = const { Cell::new(0) };
}

/// While it lives, the interpreter does not end.
pub(crate) struct Use(());

impl Use {
    /// `None` where the interpreter ends, but inside of another use.
    pub(crate) fn begin() -> Option<Use> {
        let uses = USES.get();
        if uses == 0 {
            // Before it looks: who ends the interpreter sees this, or this sees that it ends.
            USERS.fetch_add(1, Ordering::SeqCst);
            if is_over() {
                USERS.fetch_sub(1, Ordering::SeqCst);
                return None;
            }
        }
        USES.set(uses + 1);
        Some(Use(()))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let uses = USES.get() - 1;
        USES.set(uses);
        if uses == 0 {
            USERS.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Runs `run` without the interpreter. Where that ends meanwhile, this thread waits for the end of the process.
pub(crate) fn detach<T: Send>(py: Python<'_>, run: impl FnOnce() -> T + Send) -> T {
    let (given, _use) = py.detach(|| {
        let given = run();
        (given, Use::begin().unwrap_or_else(|| wait_for_end()))
    });
    given
}

/// Where the interpreter ends, this thread lets go of it and waits for the end of the process.
pub(crate) fn hold(py: Python<'_>) {
    if is_over() {
        py.detach(|| wait_for_end());
    }
}

/// Whether it ends, and this thread neither ends it nor holds that up.
fn is_over() -> bool {
    ENDS.load(Ordering::SeqCst) && USES.get() == 0 && ENDER.get() != Some(&thread::current().id())
}

fn wait_for_end() -> ! {
    loop {
        thread::park();
    }
}

/// What Python runs when a program has ended. Exit handlers that are older still run after this one, may call pipelines and may wait for
/// threads that do, so nothing ends here yet.
#[pyfunction]
pub(crate) fn end_interpreter(py: Python<'_>) -> PyResult<()> {
    // A handler that is registered while handlers run is never called. Python drops it when all others have run, the youngest last, and only
    // then begins to end threads.
    py.import("atexit")?
        .call_method1("register", (AfterHandlers(()),))?;
    Ok(())
}

/// The last of the exit handlers: it is not called, and what it does it does when Python drops it.
#[pyclass(frozen, module = "millpond._native")]
struct AfterHandlers(());

#[pymethods]
impl AfterHandlers {
    /// Python registers only what can be called.
    fn __call__(&self) {}
}

impl Drop for AfterHandlers {
    fn drop(&mut self) {
        Python::attach(|py| {
            if let Err(error) = wait_for_users(py) {
                error.write_unraisable(py, None);
            }
        });
    }
}

/// From now on threads stay out of the interpreter. Waits for those that are in it.
fn wait_for_users(py: Python<'_>) -> PyResult<()> {
    let _ = ENDER.set(thread::current().id());
    ENDS.store(true, Ordering::SeqCst);
    let until = Instant::now() + DRAIN;
    while USERS.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        py.detach(|| thread::sleep(LOOK_EVERY));
        py.check_signals()?;
    }
    Ok(())
}

/// For a child that Python forked, which has this thread alone.
pub(crate) fn forget_users() {
    USERS.store(usize::from(USES.get() > 0), Ordering::SeqCst);
}
