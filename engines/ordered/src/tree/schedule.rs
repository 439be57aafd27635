//! Where another thread may come in between.
//!
//! In a build that serves these are the standard library's locks, and nothing. Under `--cfg shuttle` (`make shuttle`) shuttle decides at each of
//! these points which thread goes on. Invariant: a lock that shuttle does not know is held over no point.

#[cfg(not(shuttle))]
pub(super) use std::sync::{Mutex, MutexGuard};

#[cfg(shuttle)]
pub(super) use shuttle::sync::{Mutex, MutexGuard};

/// Before a word is read or written that others write or read.
#[inline(always)]
pub(super) fn point() {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}

/// Waits a little for who has a lock, longer each time.
pub(super) fn pause(turns: &mut u32) {
    *turns += 1;
    if cfg!(shuttle) {
        point();
    } else if turns.is_multiple_of(64) {
        // It may have lost the processor to this very thread.
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}
