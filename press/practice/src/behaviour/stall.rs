//! Plain echo that now and then does nothing at all.
//!
//! Its invariant: nothing is echoed inside a stall, and stalls are counted from the first byte that the server read.

use super::Behaviour;
use crate::connections::{Connections, Id};
use crate::kind::Stall;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// When the server read its first byte.
pub(crate) type FirstByte = OnceLock<u64>;

pub(crate) struct Stalled {
    pub(crate) stall: Stall,
    pub(crate) first_byte_ns: Arc<FirstByte>,
}

/// How long the stall still lasts that strikes `since_first_ns` after the first byte; 0 outside of one.
fn left_ns(stall: Stall, since_first_ns: u64) -> u64 {
    let into_ns = since_first_ns % stall.every_ns;
    if since_first_ns < stall.every_ns {
        return 0;
    }
    stall.length_ns.saturating_sub(into_ns)
}

impl Behaviour for Stalled {
    /// A stall in which nothing comes is seen by nobody: it is enough to sleep out its rest when something does.
    fn arrived(&mut self, id: Id, requests: &[u8], at_ns: u64, connections: &mut Connections) {
        let first_ns = *self.first_byte_ns.get_or_init(|| at_ns);
        let since_ns = connections.now_ns().saturating_sub(first_ns);
        let left_ns = left_ns(self.stall, since_ns);
        if left_ns > 0 {
            connections.stop().sleep(Duration::from_nanos(left_ns));
        }
        connections.send(id, requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_come_every_period_after_the_first_byte() {
        let stall = Stall {
            every_ns: 100,
            length_ns: 10,
        };
        let check =
            |since_ns: u64, expected: u64| assert_eq!(left_ns(stall, since_ns), expected, "{since_ns}");
        check(0, 0);
        check(5, 0);
        check(99, 0);
        check(100, 10);
        check(104, 6);
        check(110, 0);
        check(199, 0);
        check(1_009, 1);
    }
}
