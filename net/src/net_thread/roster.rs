//! How connections come to a net thread and leave it.
//!
//! One that lingers has sent everything, and is held open so that no reset overtakes the last answer. Its invariants: whatever
//! becomes of a connection, it is counted out once; those that linger are bounded, as a file is open for each; where the
//! idlest one gives way, silent connections, however many, keep no further one from being served.

use super::{Kind, Loop, Net, Newcomer, count, uncount};
use crate::RemoteAddr;
use crate::acceptor::beside_max;
use crate::connection::{Connection, Link};
use crate::mailbox::Key;
use crate::quiet::{self, limited};
use crate::session::{Goodbye, Local, Undecided};
use crate::tls::{Tls, TlsLayer};
use millpond_threads::{Panic, contain};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The next connection's number in this process.
static GENERATION: AtomicU64 = AtomicU64::new(1);
/// A number that no other connection of this process has.
pub(super) fn next_generation() -> u64 {
    GENERATION.fetch_add(1, Ordering::Relaxed)
}

/// How long a refused connection may take to send the request that is answered `Overloaded`.
const REFUSAL_WAIT: Duration = Duration::from_secs(5);
/// How long a connection lingers.
const LINGER: Duration = Duration::from_secs(1);

impl<L: Local> Loop<L> {
    /// Takes in a connection that was accepted.
    pub(super) fn adopt(&mut self, newcomer: Newcomer) {
        let Newcomer {
            socket, peer, kind, ..
        } = newcomer;
        let kind = self.find_place(kind);
        let counters = &self.net.counters;
        let begin = |tls: &Tls| Ok(TlsLayer::new(tls.begin()?, peer, Arc::clone(counters)));
        let layer = match contain(|| newcomer.tls.as_deref().map(begin).transpose()) {
            Ok(Ok(layer)) => layer,
            Err(panic) => {
                self.note_panic(peer, &panic);
                return uncount(counters, &self.live, kind);
            }
            Ok(Err::<_, rustls::Error>(error)) => {
                limited!(warn, counters.quiet, quiet::DROPPED, [%peer, %error], "connection dropped: TLS cannot begin");
                return uncount(counters, &self.live, kind);
            }
        };
        let entry = self.connections.vacant_entry();
        let key = Key {
            slot: entry.key(),
            generation: next_generation(),
        };
        if let Err(error) = self.poller.add(&socket, key) {
            limited!(warn, self.net.counters.quiet, quiet::DROPPED, [%peer, %error], "connection dropped: it cannot be watched");
            return uncount(&self.net.counters, &self.live, kind);
        }
        let mut link = Link::new(socket, peer, kind, key);
        link.is_loopback = newcomer.is_loopback;
        link.layer = layer.map(|layer| Box::new(layer) as _);
        // A listener that names no port of its transport has connections that speak nothing.
        let fronts = self.ports.get(newcomer.port).cloned();
        let session = Box::new(Undecided(fronts.unwrap_or_else(|| Arc::new([]))));
        let mut connection = Connection::new(link, session, self.timers.now_s());
        if kind == Kind::Refused {
            connection.wake_at = Some(self.began + REFUSAL_WAIT);
        }
        entry.insert(connection);
        tracing::trace!(%peer, connection = key.generation, "connection opened");
        self.set_timer(key.slot);
    }

    /// What a connection that has just come is for: calls, where one was over the limit and another gave way.
    fn find_place(&mut self, kind: Kind) -> Kind {
        if kind != Kind::Refused || !self.net.options.idlest_gives_way {
            return kind;
        }
        let counters = &self.net.counters;
        let idlest = self
            .connections
            .iter()
            .filter_map(|(slot, connection)| Some((connection.idle_since()?, slot)))
            .min();
        let Some((_, slot)) = idlest else {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            return kind;
        };
        uncount(counters, &self.live, kind);
        count(counters, &self.live, Kind::Served);
        self.part(slot, Goodbye::Crowded);
        Kind::Served
    }

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

    /// Closes a connection.
    pub(super) fn forget(&mut self, slot: usize) {
        self.remove(slot, Connection::ended);
    }

    pub(super) fn remove(&mut self, slot: usize, end: impl FnOnce(Connection<L>, &Net)) {
        self.uncount(slot);
        let Some(mut connection) = self.connections.try_remove(slot) else {
            return;
        };
        let (key, kind, peer) = (connection.link.key, connection.link.kind, connection.link.peer);
        self.timers.set(key, connection.timer, None);
        self.end_outward(&mut connection);
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
