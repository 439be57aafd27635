//! Whether a call keeps the interpreter while its part on the caller's thread runs.
//!
//! It knows no pipeline. Its invariants: a call that keeps it is in a backend alone, as far as there are instances, or is queued like any other; and
//! a call that keeps it has no more to work on than twice what short calls had.

use crate::ending::detach;
use crate::local::inside::{self, Part};
use crate::local::turns::Turns;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Calls that are expected to take no longer keep the interpreter: to let go of it and to get it back costs more than others gain.
const KEEP_MAX: Duration = Duration::from_micros(50);
/// A call without Python's backends that takes so long has calls after it let go of the interpreter.
const FAR_OVER: Duration = Duration::from_millis(1);
/// How many of them.
const LET_GO_AFTER: u32 = 64;
/// Inputs of so few bytes do not tell a long call from a short one.
const BYTES_MIN: usize = 4096;

/// What calls of late have told, and whose turn it is.
pub(super) struct Keeping {
    /// Nanoseconds that calls of late have taken on the caller's thread.
    own_ns: AtomicU64,
    /// Bytes of the inputs that short calls of late had at most.
    short_bytes: AtomicUsize,
    /// So many calls still let go of the interpreter, because one before them was long, and its inputs did not tell that.
    let_go: AtomicU32,
    turns: Turns,
    /// Where several stages wait at a time, one may wait for another's thread, which may need the interpreter.
    may_keep: bool,
}

impl Keeping {
    /// `instances`: calls that may be in a backend of Python's at a time.
    pub(super) fn new(instances: usize, may_keep: bool) -> Keeping {
        Keeping {
            own_ns: AtomicU64::new(0),
            short_bytes: AtomicUsize::new(0),
            let_go: AtomicU32::new(0),
            turns: Turns::new(instances),
            may_keep,
        }
    }

    /// Runs a call's part of this thread, with the interpreter where it should be short. Returns what interrupted a backend; or what a signal
    /// handler raised while the call waited for its turn, and then `run` was not called. The call's inputs have so many `bytes`.
    pub(super) fn run(
        &self,
        py: Python<'_>,
        bytes: usize,
        deadline: Option<Instant>,
        run: impl FnOnce() + Send,
    ) -> Option<PyErr> {
        if !self.keeps_interpreter(bytes) {
            return detach(py, || inside::caller_without_interpreter(run));
        }
        match self.turns.enter(py, deadline) {
            Ok(_turn) => inside::caller(run),
            Err(interrupt) => Some(interrupt),
        }
    }

    /// Whether calls of late were so short that the interpreter is better kept, and this one is like them.
    fn keeps_interpreter(&self, bytes: usize) -> bool {
        let own_ns = self.own_ns.load(Ordering::Relaxed);
        self.may_keep
            && own_ns > 0
            && Duration::from_nanos(own_ns) < KEEP_MAX
            && self.let_go.load(Ordering::Relaxed) == 0
            && self.is_like_short_ones(bytes)
    }

    fn is_like_short_ones(&self, bytes: usize) -> bool {
        bytes <= BYTES_MIN || bytes / 2 <= self.short_bytes.load(Ordering::Relaxed)
    }

    /// Learns what a call's part took: a moving mean, which one long call moves little, since it may have lost the interpreter or the
    /// processor. What another thread stores meanwhile may be lost.
    pub(super) fn learn(&self, part: &Part, bytes: usize) {
        let took = part.own_time();
        if took < KEEP_MAX {
            let before = self.short_bytes.load(Ordering::Relaxed);
            let most = bytes.max(before - before / 64);
            if most != before {
                self.short_bytes.store(most, Ordering::Relaxed);
            }
        } else if !self.is_like_short_ones(bytes) {
            // It has let go of the interpreter, and so will its like. It says nothing of calls with less to work on.
            return;
        }
        let let_go = self.let_go.load(Ordering::Relaxed);
        if took >= FAR_OVER && !part.ran_backend() {
            // A backend of Python's may lose the interpreter. Other stages cannot, and no other thread has it meanwhile.
            self.let_go.store(LET_GO_AFTER, Ordering::Relaxed);
        } else if let_go > 0 {
            self.let_go.store(let_go - 1, Ordering::Relaxed);
        }
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
