//! Connections to which everything was said, and which are held so that no reset overtakes the last answer.
//!
//! They are counted apart from those that are served, and bounded as well: a file is open for each. Its invariant: where as
//! many linger as may, the one on this thread that has done so for longest makes room, or the new one does not linger.

use super::Loop;
use crate::acceptor::beside_max;
use crate::connection::Connection;
use crate::mailbox::Key;
use crate::service::Service;
use std::sync::atomic::Ordering;

impl<S: Service> Loop<S> {
    /// Begins to hold a connection.
    pub(super) fn linger(&mut self, key: Key) {
        let before = self.net.counters.lingering.fetch_add(1, Ordering::Relaxed);
        self.timers.linger(key);
        self.due_next.push(key.slot);
        if before < beside_max(self.net.options.connections_max as u64) {
            return;
        }
        while let Some(oldest) = self.timers.end_oldest_lingering() {
            if self.has(oldest) {
                return self.forget(oldest.slot);
            }
        }
    }

    /// A connection that is gone lingers no more.
    pub(super) fn uncount_lingering(&self, connection: &Connection) {
        if connection.lingers() {
            self.net.counters.lingering.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
