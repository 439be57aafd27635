//! What is done for one connection, so that a panic in it ends that connection alone.
//!
//! It knows no protocol and decides nothing about connections. Its invariants: after a panic the connection is closed and counted
//! out, and nothing that it had borrowed of its thread is used again.

use super::{Buffers, Loop, Net, SCRATCH_BYTES, uncount};
use crate::RemoteAddr;
use crate::connection::Connection;
use crate::quiet::{self, limited};
use crate::session::Local;
use millpond_threads::{Panic, contain};
use std::sync::atomic::Ordering;

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers {
            read: vec![0; SCRATCH_BYTES],
            ..Buffers::default()
        }
    }
}

impl<L: Local> Loop<L> {
    /// Does something for the connection of that slot; nothing where there is none, or where it has ended by a panic.
    #[inline]
    pub(super) fn with<T>(
        &mut self,
        slot: usize,
        work: impl FnOnce(&mut Connection<L>, &L, &Net, &mut Buffers) -> T,
    ) -> Option<T> {
        let connection = self.connections.get_mut(slot)?;
        match contain(|| work(connection, &self.local, &self.net, &mut self.buffers)) {
            Ok(done) => Some(done),
            Err(panic) => {
                self.lose(slot, &panic);
                None
            }
        }
    }

    /// Ends a connection that a panic has left in an unknown state: nothing more is said on it.
    #[cold]
    fn lose(&mut self, slot: usize, panic: &Panic) {
        self.buffers = Buffers::new();
        if let Some(connection) = self.connections.get(slot) {
            self.note_panic(connection.link.peer, panic);
        }
        self.remove(slot, Connection::lost);
    }

    /// Closes a connection.
    pub(super) fn forget(&mut self, slot: usize) {
        self.remove(slot, Connection::ended);
    }

    fn remove(&mut self, slot: usize, end: impl FnOnce(Connection<L>, &Net)) {
        self.uncount(slot);
        let Some(connection) = self.connections.try_remove(slot) else {
            return;
        };
        let (key, kind, peer) = (connection.link.key, connection.link.kind, connection.link.peer);
        self.timers.set(key, connection.timer, None);
        // One that lingers was counted apart when that began.
        if connection.lingers() {
            self.net.counters.lingering.fetch_sub(1, Ordering::Relaxed);
        } else {
            uncount(&self.net.counters, &self.live, kind);
        }
        if let Err(panic) = contain(|| end(connection, &self.net)) {
            self.note_panic(peer, &panic);
        }
    }

    pub(super) fn note_panic(&self, peer: RemoteAddr, panic: &Panic) {
        let counters = &self.net.counters;
        counters.panics.fetch_add(1, Ordering::Relaxed);
        // A call that panics can be sent at any rate.
        limited!(error, counters.quiet, quiet::PANICKED, [%peer, %panic], "connection closed: serving it panicked");
    }
}
