//! Each request burns processor time on the thread that serves its connection.
//!
//! Its invariant: time in which the thread does not run does not count, so a busy machine makes no work smaller.

use super::Behaviour;
use crate::connections::{Connections, Id};
use crate::quantity::ns;
use rustix::time::{ClockId, clock_gettime};
use std::hint::spin_loop;
use std::time::Duration;

/// Spins between two looks at the clock, which is a call of the system.
const SPINS: u32 = 16;

/// The processor time that the calling thread has used.
fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Uses that much processor time of the calling thread.
pub(super) fn burn(work_ns: u64) {
    let until_ns = thread_cpu_ns() + work_ns;
    while thread_cpu_ns() < until_ns {
        (0..SPINS).for_each(|_| spin_loop());
    }
}

pub(crate) struct Work(pub(crate) Duration);

impl Behaviour for Work {
    fn arrived(&mut self, id: Id, requests: &[u8], _at_ns: u64, connections: &mut Connections) {
        for request in requests.chunks_exact(connections.request_bytes()) {
            if connections.stop().is_told() || !connections.is_open(id) {
                return;
            }
            burn(ns(self.0));
            connections.send(id, request);
            connections.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_burnt_is_processor_time_of_this_thread() {
        let before_ns = thread_cpu_ns();
        burn(300_000);
        assert!(thread_cpu_ns() - before_ns >= 300_000);
    }
}
