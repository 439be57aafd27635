//! The time of the server in nanoseconds since it started.
//!
//! Its invariant: every thread of a server reads the same clock, so its times may be compared.

use std::time::Instant;

/// The clock of one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            origin: Instant::now(),
        }
    }

    pub(crate) fn now_ns(self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}
