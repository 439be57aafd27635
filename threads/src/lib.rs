//! Threads of a server: what a panic on one of them ends, how often the log is told of such a thing, and how long the end of a
//! thread is waited for.
//!
//! Work whose panic ends that work alone (a connection's turn, a model's run, a caller's callback) runs in [`contain`], which gives
//! the panic to somebody who knows what it was about, and logs it within a [`LineLimit`]. A program that calls [`abort_on_panic`] is ended by
//! every other panic at once: a thread that died quietly would leave a server that neither serves nor stops. A program
//! that does not keeps its own panic hook; its threads then end alone, and a server in it says that it is not ready.
//! Nothing here knows what the threads do. Its invariant: with the hook, a panic is either contained or the end of the process.
//!
//! ```
//! let done = millpond_threads::contain(|| "done");
//! assert!(done.is_ok_and(|done| done == "done"));
//! let panic = millpond_threads::contain(|| { if true { panic!("no {}", "luck") } }).err();
//! assert!(panic.is_some_and(|panic| panic.to_string().starts_with("no luck")));
//! ```

mod line_limit;

pub use line_limit::{LeftOut, LineLimit};

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the end of a thread is looked for.
const LOOK: Duration = Duration::from_millis(1);

thread_local! {
    /// How many [`contain`]s the thread is in.
    static CONTAINED: Cell<u32> = const { Cell::new(0) };
    /// Where the panic was that a `contain` of this thread is about to catch.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic: what it said, and where it was, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic {
    /// What it said.
    pub message: String,
    /// FILE:LINE:COLUMN; only [`abort_on_panic`]'s hook knows it.
    pub place: Option<String>,
}

impl fmt::Display for Panic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)?;
        match &self.place {
            Some(place) => write!(out, " ({place})"),
            None => Ok(()),
        }
    }
}

/// Counts a thread out of a `contain`, however that ends.
struct Inside;

impl Inside {
    fn enter() -> Inside {
        CONTAINED.set(CONTAINED.get() + 1);
        // Of a panic that was caught by other means.
        PLACE.set(None);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CONTAINED.set(CONTAINED.get() - 1);
    }
}

/// Does some work; a panic in it ends the work alone, and is the caller's to log.
///
/// What the work borrows may be left half changed by a panic: the caller throws it away or makes it whole.
///
/// # Errors
/// The panic.
#[inline]
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    let inside = Inside::enter();
    let result = catch_unwind(AssertUnwindSafe(work));
    drop(inside);
    result.map_err(|payload| Panic {
        message: text_of(&*payload),
        place: PLACE.take(),
    })
}

/// Ends the process by every panic that no [`contain`] is around: `tell` says so, and has a moment for it.
pub fn abort_on_panic(tell: impl Fn(&str, &Panic) + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |info| {
        let panic = Panic {
            message: text_of(info.payload()),
            place: place_of(info),
        };
        if is_to_be_caught(&panic) {
            return;
        }
        let thread = std::thread::current();
        tell(thread.name().unwrap_or("unnamed"), &panic);
        std::process::abort();
    }));
}

/// Whether a [`contain`] will catch it, which is told the place. A second one before that has begun in the first one's
/// unwinding, and the language ends the process.
fn is_to_be_caught(panic: &Panic) -> bool {
    // A thread that is ending has no such cells any more, and is in no `contain`.
    CONTAINED.try_with(Cell::get).is_ok_and(|depth| depth > 0)
        && PLACE.try_with(|place| match place.try_borrow_mut() {
            Ok(mut place) if place.is_none() => {
                *place = Some(panic.place.clone().unwrap_or_default());
                true
            }
            _ => false,
        }) == Ok(true)
}

fn place_of(info: &PanicHookInfo<'_>) -> Option<String> {
    info.location().map(ToString::to_string)
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

/// Waits for the end of a thread until then, and for one that has ended not at all.
///
/// # Errors
/// The handle, of a thread that runs on: dropping it leaves the thread to itself.
pub fn join_by<T>(thread: JoinHandle<T>, until: Instant) -> Result<std::thread::Result<T>, JoinHandle<T>> {
    match ends_by(until, || thread.is_finished()) {
        true => Ok(thread.join()),
        false => Err(thread),
    }
}

/// Waits until then for something to be over; whether it is.
pub fn ends_by(until: Instant, mut is_over: impl FnMut() -> bool) -> bool {
    loop {
        if is_over() {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(LOOK.min(left));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::process::Command;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_thread_that_runs_on_is_not_waited_for() {
        let (end, ended) = sync_channel::<()>(1);
        let thread = std::thread::spawn(move || ended.recv().is_ok());
        let thread = join_by(thread, Instant::now() + Duration::from_millis(5)).unwrap_err();
        end.send(()).unwrap();
        let joined = join_by(thread, Instant::now() + Duration::from_secs(60));
        assert!(joined.unwrap().unwrap());
    }

    #[test]
    fn one_thread_may_contain_within_another_containment() {
        let outer = contain(|| {
            assert!(contain(|| panic!("inner")).is_err());
            assert_eq!(CONTAINED.get(), 1);
            7
        });
        assert_eq!((outer, CONTAINED.get()), (Ok(7), 0));
    }

    /// Set in the process of [`panics_of_two_kinds`].
    const ALONE: &str = "MILLPOND_THREADS_TEST_ALONE";

    /// What the test below runs as a process of its own, because a hook is the process's.
    #[test]
    fn panics_of_two_kinds() {
        if std::env::var_os(ALONE).is_none() {
            return;
        }
        abort_on_panic(|thread, panic| eprintln!("told: {thread}: {panic}"));
        let panic = contain(|| panic!("caught")).unwrap_err();
        eprintln!("contained: {panic}");
        let panic = contain(|| panic!("caught again")).unwrap_err();
        assert!(panic.place.unwrap().contains("lib.rs"));
        let other = std::thread::Builder::new().name("other".into());
        let _ = other.spawn(|| panic!("not caught")).unwrap().join();
        eprintln!("lived on");
    }

    #[test]
    fn with_the_hook_a_panic_is_contained_or_ends_the_process() {
        let this = std::env::current_exe().unwrap();
        let mut test = Command::new(this);
        test.args(["tests::panics_of_two_kinds", "--exact", "--nocapture"]);
        test.env(ALONE, "1");
        let done = test.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(said.contains("contained: caught (threads/src/lib.rs:"), "{said}");
        assert!(
            said.contains("told: other: not caught (threads/src/lib.rs:"),
            "{said}"
        );
        assert!(
            !said.contains("told: tests") && !said.contains("lived on"),
            "{said}"
        );
        use std::os::unix::process::ExitStatusExt as _;
        assert!(done.status.signal().is_some(), "{}", done.status);
    }
}
