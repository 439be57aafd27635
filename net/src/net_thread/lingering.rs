//! Connections that have sent everything, held open so that no reset overtakes the last answer.
//!
//! They are counted apart from served ones, and bounded as well: a file is open for each. Its invariant: at the limit, the one
//! that lingers on this thread for longest is closed, which may be the new one.

use super::Loop;
use crate::acceptor::beside_max;
use crate::connection::Connection;
use crate::mailbox::Key;
use crate::session::Local;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a closing connection is drained, so that a reset does not overtake the last answer.
const LINGER: Duration = Duration::from_secs(1);

impl<L: Local> Loop<L> {
    /// Begins to hold a connection.
    pub(super) fn linger(&mut self, key: Key) {
        let before = self.net.counters.lingering.fetch_add(1, Ordering::Relaxed);
        if let Some(found) = self.connections.get_mut(key.slot) {
            found.wake_at = Some(self.began + LINGER);
        }
        self.set_timer(key.slot);
        self.due_next.push(key.slot);
        if before < beside_max(self.net.options.connections_max as u64) {
            return;
        }
        let connections = &self.connections;
        let oldest = self
            .timers
            .first(|key| connections.get(key.slot).is_some_and(Connection::lingers));
        if let Some(oldest) = oldest {
            self.forget(oldest.slot);
        }
    }
}
