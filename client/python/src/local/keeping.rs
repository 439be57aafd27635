//! Whether a call keeps the interpreter while its part on the caller's thread runs.
//!
//! It knows no pipeline. Its invariant: a call that keeps it is in a backend alone, as far as there are instances, or is queued like any other.

use crate::ending::detach;
use crate::local::inside;
use crate::local::turns::Turns;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Calls that are expected to take no longer keep the interpreter: to let go of it and to get it back costs more than others gain.
const KEEP_MAX: Duration = Duration::from_micros(50);
/// How long a call waits for a turn before it is queued like any other: as long as the interpreter may be lost twice.
const TURN_WAIT_MAX: Duration = Duration::from_millis(10);

/// What calls of late have told, and whose turn it is.
pub(super) struct Keeping {
    /// Nanoseconds that calls of late have taken on the caller's thread.
    own_ns: AtomicU64,
    turns: Turns,
    /// Where several stages wait at a time, one may wait for another's thread, which may need the interpreter.
    may_keep: bool,
}

impl Keeping {
    /// `instances`: calls that may be in a backend of Python's at a time.
    pub(super) fn new(instances: usize, may_keep: bool) -> Keeping {
        Keeping {
            own_ns: AtomicU64::new(0),
            turns: Turns::new(instances),
            may_keep,
        }
    }

    /// Runs a call's part of this thread, with the interpreter where it is short, and says what interrupted a backend.
    pub(super) fn run(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
        run: impl FnOnce() + Send,
    ) -> Option<PyErr> {
        if !self.keeps_interpreter() {
            return detach(py, || inside::caller_without_interpreter(run));
        }
        let mut turn = self.turns.enter();
        if turn.is_none() {
            let last = Instant::now() + TURN_WAIT_MAX;
            let until = deadline.map_or(last, |deadline| deadline.min(last));
            // Another one may be in again before this thread has the interpreter back.
            while turn.is_none() && detach(py, || self.turns.wait(until)) {
                turn = self.turns.enter();
            }
        }
        inside::caller(run)
    }

    /// Whether calls of late were so short that the interpreter is better kept.
    fn keeps_interpreter(&self) -> bool {
        let own_ns = self.own_ns.load(Ordering::Relaxed);
        self.may_keep && own_ns > 0 && Duration::from_nanos(own_ns) < KEEP_MAX
    }

    /// Learns what a call's part took: a moving mean, which one long call moves little, since it may have lost the interpreter or the
    /// processor. What another thread stores meanwhile may be lost.
    pub(super) fn learn(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos())
            .unwrap_or(u64::MAX)
            .clamp(1, 1 << 40);
        let before = self.own_ns.load(Ordering::Relaxed);
        let mean = match before {
            0 => took,
            before => before - before / 8 + took.min(before.saturating_mul(4)) / 8,
        };
        self.own_ns.store(mean.max(1), Ordering::Relaxed);
    }
}
