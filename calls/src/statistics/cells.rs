//! What each thread has counted, in cells that it alone writes; merged when somebody reads.
//!
//! Its invariant: counting takes no lock and shares no cache line that another thread writes; nothing that a thread counted
//! is lost when it ends, and its cells go to the next thread.

use super::Split;
use crate::MethodId;
use millpond_metrics::Histogram;
use millpond_wire_schema::Code;
use std::cell::RefCell;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// One thread's counts of one method.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) answered: AtomicU64,
    pub(super) errors: [AtomicU64; Code::ALL.len()],
    /// Made with the first answered call.
    times: OnceLock<Box<CallTimes>>,
}

/// Where the time of answered calls went.
#[derive(Debug, Default)]
pub(super) struct CallTimes {
    /// From the read to the answer.
    pub(super) total: Histogram,
    pub(super) split: [Histogram; Split::NAMES.len()],
}

impl Calls {
    pub(super) fn times(&self) -> Option<&CallTimes> {
        self.times.get().map(Box::as_ref)
    }

    /// The times, for their thread to add to.
    pub(super) fn own_times(&self) -> &CallTimes {
        self.times.get_or_init(Box::default)
    }
}

/// One thread's counts. Each field is written by that thread alone.
#[derive(Debug)]
pub(super) struct Cells {
    calls: Vec<Calls>,
    /// Of calls to models: from the batcher's taking them to the start of their run, and the run.
    pub(super) batch_wait: Box<Histogram>,
    pub(super) compute: Box<Histogram>,
    pub(super) unknown_methods: AtomicU64,
    /// Refused because the predicted wait was longer than the deadline allowed.
    pub(super) too_late: AtomicU64,
}

impl Cells {
    fn new(methods: usize) -> Cells {
        Cells {
            calls: std::iter::repeat_with(Calls::default).take(methods).collect(),
            batch_wait: Box::default(),
            compute: Box::default(),
            unknown_methods: AtomicU64::new(0),
            too_late: AtomicU64::new(0),
        }
    }

    pub(super) fn of(&self, method: MethodId) -> &Calls {
        &self.calls[method.index()]
    }
}

/// All threads' cells of one server.
#[derive(Debug)]
pub(super) struct Registry {
    methods: usize,
    cells: Mutex<Vec<Arc<Cells>>>,
}

thread_local! {
    /// This thread's cells, for each server that it has counted for: one, but in tests.
    static OWN: RefCell<Vec<(Weak<Registry>, Arc<Cells>)>> = const { RefCell::new(Vec::new()) };
}

impl Registry {
    pub(super) fn new(methods: usize) -> Arc<Registry> {
        Arc::new(Registry {
            methods,
            cells: Mutex::default(),
        })
    }

    /// Gives this thread its own cells to count in. Nothing is counted while the thread ends.
    pub(super) fn count(self: &Arc<Self>, count: impl FnOnce(&Cells)) {
        let _ = OWN.try_with(|own| {
            let mut own = own.borrow_mut();
            // A weak reference keeps the address from being used again, so equal addresses are the same server.
            let mine = |(registry, _): &(Weak<Registry>, _)| registry.as_ptr() == Arc::as_ptr(self);
            let at = own.iter().position(mine).unwrap_or_else(|| {
                own.retain(|(registry, _)| registry.strong_count() > 0);
                own.push((Arc::downgrade(self), self.cells_for_one()));
                own.len() - 1
            });
            count(&own[at].1);
        });
    }

    /// Cells that no thread holds: those of one that has ended, or new ones.
    fn cells_for_one(&self) -> Arc<Cells> {
        let mut all = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        // `get_mut` sees everything that the last holder wrote.
        let free = all.iter_mut().position(|cells| Arc::get_mut(cells).is_some());
        let at = free.unwrap_or_else(|| {
            all.push(Arc::new(Cells::new(self.methods)));
            all.len() - 1
        });
        Arc::clone(&all[at])
    }

    /// Shows every thread's cells.
    pub(super) fn each(&self, mut show: impl FnMut(&Cells)) {
        let all = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|cells| show(cells));
    }
}
