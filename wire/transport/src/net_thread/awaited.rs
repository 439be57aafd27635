//! When connections that wait for their peers' answers are to be looked at.
//!
//! Its invariant: however many calls to peers are made, and for how long each may wait, the clock remembers in proportion to the
//! connections that there are.

use super::Loop;
use crate::connection::Connection;
use crate::mailbox::Key;
use crate::service::Service;
use std::time::Instant;

impl<S: Service> Loop<S> {
    /// A connection waits for an answer until then.
    pub(super) fn await_answer(&mut self, until: Instant, key: Key) {
        self.timers.await_answer(until, key);
        let connections = &self.connections;
        self.timers.keep_few_awaited(connections.len(), |key| {
            let found = connections.get(key.slot).filter(|found| found.key() == key);
            found.and_then(Connection::awaits_until)
        });
    }
}
