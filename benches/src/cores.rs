//! Threads and processes on a core of their own.
//!
//! Its invariant: only the calling thread, and what it starts afterwards, is bound.

use anyhow::{Context as _, anyhow};
use millpond_press_load::Cores;

/// The server's core, wherever a bar pins it.
pub(crate) const SERVER: usize = 0;
/// The load generator's.
pub(crate) const PRESS: usize = 1;

/// Runs `work` on a thread of its own, bound to a core, and waits for it.
pub(crate) fn on<T: Send>(core: usize, work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    let bound = || {
        let missing = format!("cannot run on core {core}; the bench needs cores {SERVER} and {PRESS}");
        let bound = Cores::of(&[core]).and_then(|cores| cores.bind());
        bound.context(missing)?;
        work()
    };
    let ended = std::thread::scope(|scope| scope.spawn(bound).join());
    ended.unwrap_or_else(|_| Err(anyhow!("a thread of the bench panicked")))
}
