//! What is counted of calls, by method.
//!
//! It counts nothing but calls. Its invariant: counting a call writes to cells
//! of the counting thread alone, and what is read is the exact sum over all threads.

mod cells;
mod page;

pub use page::CallCounts;

use crate::{MethodId, ModelTime};
use cells::{CallTimes, Registry};
use millpond_metrics::{Times, bump};
use millpond_wire_schema::{Code, Status};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The parts of the time of calls that other threads answer. Those that a net thread answers itself take its turn, which has no
/// parts: they are answered when it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// From the read to the service of its thread.
    Queue,
    /// From the service to the ready answer.
    Work,
    /// From the ready answer to its last byte's being the kernel's; not of its time, which ends with the ready answer.
    Write,
}

impl Split {
    /// Their names on the page, in the order of time.
    pub const NAMES: [&str; 3] = ["queue", "work", "write"];
}

/// Which method was called, and when.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The method.
    pub method: MethodId,
    /// When the request's last byte was read.
    pub received: Instant,
    /// When the service had it; of a call that is answered at once, when the clock was last read before that.
    pub entered: Instant,
    /// The server calls itself: it warms up, or another of its processes sent on what it has checked and counts. The call is counted
    /// and logged nowhere, and sent on no further.
    pub is_internal: bool,
}

impl Arrival {
    /// From the read to the service of its thread.
    pub fn queue(&self) -> Duration {
        self.entered.saturating_duration_since(self.received)
    }
}

/// What is known of one method.
#[derive(Debug, Default)]
pub struct Totals {
    /// Calls answered with a result.
    pub answered: u64,
    /// From the read to the answer, of answered calls; calls of a turn are counted here when it ends.
    pub times: Times,
    /// The same in its parts, and what comes after.
    pub split: [Times; Split::NAMES.len()],
    errors: BTreeMap<u32, u64>,
}

impl Totals {
    /// Calls answered with an error.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// All methods' counts.
#[derive(Debug)]
pub struct Statistics {
    registry: Arc<Registry>,
    /// Whether answered calls are counted; errors always are.
    on: AtomicBool,
}

impl Statistics {
    /// Nothing counted yet, for so many methods.
    pub fn new(methods: usize) -> Statistics {
        Statistics {
            registry: Registry::new(methods),
            on: AtomicBool::new(true),
        }
    }

    /// Counts a call of another thread's whose result was ready at `ready`.
    pub(crate) fn answered(&self, arrival: &Arrival, ready: Instant, model: Option<ModelTime>) {
        if !self.is_on() {
            return;
        }
        let (queue, work) = (arrival.queue(), ready.saturating_duration_since(arrival.entered));
        self.registry.count(|cells| {
            let calls = cells.of(arrival.method);
            bump(&calls.answered, 1);
            let times: &CallTimes = calls.own_times();
            times.total.add(queue + work);
            times.split[Split::Queue as usize].add(queue);
            times.split[Split::Work as usize].add(work);
            if let Some(model) = model {
                cells.batch_wait.add(model.batch_wait);
                cells.compute.add(model.compute);
            }
        });
    }

    /// Counts a call that is answered in this turn, false if nothing is counted. [`Statistics::timed`] gets its time when the turn ends.
    pub(crate) fn answered_at_once(&self, method: MethodId) -> bool {
        let is_on = self.is_on();
        if is_on {
            self.registry.count(|cells| bump(&cells.of(method).answered, 1));
        }
        is_on
    }

    /// Counts what each of so many calls took that were answered in one turn.
    pub(crate) fn timed(&self, method: MethodId, took: Duration, calls: u32) {
        self.registry
            .count(|cells| cells.of(method).own_times().total.add_all(took, calls));
    }

    /// Counts how long an answer was only to be written.
    pub(crate) fn wrote(&self, method: MethodId, took: Duration) {
        if self.is_on() {
            self.registry.count(|cells| {
                cells.of(method).own_times().split[Split::Write as usize].add(took);
            });
        }
    }

    /// Counts a call that was answered with an error.
    pub(crate) fn failed(&self, method: MethodId, status: &Status) {
        self.registry
            .count(|cells| bump(&cells.of(method).errors[status.code as usize], 1));
    }

    /// Counts a call to a method that does not exist.
    pub(crate) fn unknown(&self) {
        self.registry.count(|cells| bump(&cells.unknown_methods, 1));
    }

    /// Counts a call that is refused because its answer would come after its deadline; it is counted as failed besides.
    pub fn too_late(&self) {
        self.registry.count(|cells| bump(&cells.too_late, 1));
    }

    /// Whether answered calls are counted.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Counts answered calls from now on, or no more.
    pub fn set_on(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// One method's figures since start.
    pub fn totals(&self, method: MethodId) -> Totals {
        let mut totals = Totals::default();
        self.registry.each(|cells| {
            let calls = cells.of(method);
            totals.answered += calls.answered.load(Ordering::Relaxed);
            if let Some(times) = calls.times() {
                totals.times.add(&times.total);
                for (sum, part) in totals.split.iter_mut().zip(&times.split) {
                    sum.add(part);
                }
            }
            for (code, count) in Code::ALL.iter().zip(&calls.errors) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    *totals.errors.entry(code.number()).or_default() += count;
                }
            }
        });
        totals
    }
}

#[cfg(test)]
mod tests;
