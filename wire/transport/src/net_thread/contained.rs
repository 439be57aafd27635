//! What is done for one connection, so that a panic in it ends that connection alone.
//!
//! It knows no protocol and decides nothing about connections. Its invariants: after a panic the connection is closed and counted
//! out, and nothing that it had borrowed of its thread is used again.

use super::{Loop, Net, Room, SCRATCH_BYTES, uncount};
use crate::connection::Connection;
use crate::peer::Peer;
use crate::quiet::{Cause, LeftOut};
use crate::service::Service;
use millpond_threads::{Panic, contain};
use std::sync::atomic::Ordering;

impl Room {
    pub(crate) fn new() -> Room {
        Room {
            read: vec![0; SCRATCH_BYTES],
            out: Vec::new(),
            timed: Vec::new(),
            message: Vec::new(),
            plain: Vec::new(),
        }
    }
}

impl<S: Service> Loop<S> {
    /// Does something for the connection of that slot; nothing where there is none, or where it has ended by a panic.
    #[inline]
    pub(super) fn with<T>(
        &mut self,
        slot: usize,
        work: impl FnOnce(&mut Connection, &Net<S>, &mut Room) -> T,
    ) -> Option<T> {
        let connection = self.connections.get_mut(slot)?;
        match contain(|| work(connection, &self.net, &mut self.room)) {
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
        self.room = Room::new();
        self.uncount(slot);
        let Some(connection) = self.connections.try_remove(slot) else {
            return;
        };
        let peer = connection.peer;
        self.note_panic(peer, panic);
        self.uncount_lingering(&connection);
        if !connection.lingers() {
            uncount(&self.net.counters, &self.live, connection.kind);
        }
        if let Err(panic) = contain(|| connection.lost(&self.net)) {
            self.note_panic(peer, &panic);
        }
    }

    /// Closes a connection; one that lingers was counted apart when that began.
    pub(super) fn forget(&mut self, slot: usize) {
        self.uncount(slot);
        let Some(connection) = self.connections.try_remove(slot) else {
            return;
        };
        let peer = connection.peer;
        self.uncount_lingering(&connection);
        if !connection.lingers() {
            uncount(&self.net.counters, &self.live, connection.kind);
        }
        if let Err(panic) = contain(|| connection.ended(&self.net)) {
            self.note_panic(peer, &panic);
        }
    }

    pub(super) fn note_panic(&self, peer: Peer, panic: &Panic) {
        let counters = &self.net.counters;
        counters.panics.fetch_add(1, Ordering::Relaxed);
        // A call that panics can be sent at any rate.
        if let Some(LeftOut(left_out)) = counters.quiet.admits(Cause::Panicked) {
            tracing::error!(%peer, %panic, left_out, "connection closed: serving it panicked");
        }
    }
}
