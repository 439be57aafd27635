//! The processor time of the calling thread, and a way to spend it. It says nothing of other threads.
//! Invariant: time that the thread spends off its processor does not count.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// What the calling thread has used so far.
pub(crate) fn now() -> Duration {
    // A clock that every Linux has; should its time be none, none was used.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Uses that much processor time, or a little more.
pub(crate) fn spend(time: Duration) {
    let until = now().saturating_add(time);
    while now() < until {
        std::hint::spin_loop();
    }
}
