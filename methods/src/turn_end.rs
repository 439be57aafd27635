//! What a net thread's turn leaves for its end: requests of models that it runs itself, and log threads that were not told yet of
//! what was handed over to them.
//!
//! Its invariant: a log thread that has something to write is woken before the net thread waits for anything.

use crate::Served;
use millpond_engines_batcher::Sweep;
use millpond_engines_ordered::Wake;
use std::sync::Arc;

/// See the module.
#[derive(Default)]
pub struct TurnEnd {
    pub(crate) sweep: Sweep,
    /// Each once.
    log_threads: Vec<Arc<dyn Wake>>,
}

/// Has a log thread woken, if there is one to be, when the turn of a call ends that has handed something over to it: the writes of all
/// connections are one group then.
pub(crate) fn wake(call: &Served<'_>, log_thread: Option<Arc<dyn Wake>>) {
    let Some(log_thread) = log_thread else { return };
    match call.turn_end() {
        Some(mut turn_end) => turn_end.wakes(log_thread),
        None => log_thread.wake(),
    }
}

impl TurnEnd {
    fn wakes(&mut self, log_thread: Arc<dyn Wake>) {
        let is_known = |known: &Arc<dyn Wake>| Arc::ptr_eq(known, &log_thread);
        if !self.log_threads.iter().any(is_known) {
            self.log_threads.push(log_thread);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sweep.is_empty() && self.log_threads.is_empty()
    }

    pub(crate) fn run(&mut self) {
        // They write while models run here.
        for log_thread in self.log_threads.drain(..) {
            log_thread.wake();
        }
        if !self.sweep.is_empty() {
            self.sweep.run();
        }
    }
}
