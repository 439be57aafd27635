//! The connections that this thread's sessions ask for: opened, written and closed at the end of a turn.
//!
//! Its invariant: what is asked for in a turn is done in it; a connection that cannot be opened ends at once, and what its
//! session asks for then is done too.

use super::{Kind, Loop};
use crate::RemoteAddr;
use crate::connection::{Connection, Link, Phase};
use crate::mailbox::Key;
use crate::outward::{self, Outward, Remote};
use crate::session::{Local, Session};
use crate::tls::{TlsLayer, TlsTo};
use millpond_threads::contain;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

impl<L: Local> Loop<L> {
    /// Does what the sessions ask for, until they ask for nothing more.
    pub(super) fn reach_out(&mut self) {
        let mut asked = std::mem::take(&mut self.asked);
        loop {
            if let Err(panic) = contain(|| self.local.outward(&mut asked)) {
                self.note_panic(RemoteAddr(None), &panic);
            }
            if asked.is_empty() {
                break;
            }
            for one in asked.drain(..) {
                match one {
                    Outward::Open {
                        number,
                        to,
                        tls,
                        session,
                    } => self.open_outward(number, (&to, tls.as_ref()), session),
                    Outward::Send { number, bytes } => self.send_outward(number, &bytes),
                    Outward::Close { number } => {
                        if let Some(key) = self.outward.get(&number) {
                            self.forget(key.slot);
                        }
                    }
                }
            }
        }
        self.asked = asked;
    }

    /// Sends what came by the mailbox since the thread was set awake.
    pub(super) fn send_mail(&mut self) {
        // Connections that want another turn wait for it; those that have answers now only send.
        std::mem::swap(&mut self.due, &mut self.due_next);
        self.take_mail();
        std::mem::swap(&mut self.due, &mut self.due_next);
        let now_s = self.timers.now_s();
        for at in 0..self.due.len() {
            let slot = self.due[at];
            let after = self.with(slot, |found, _, net, buffers| found.send(net, buffers, now_s));
            if let Some(after) = after {
                self.follow(slot, after);
            }
        }
        self.due.clear();
    }

    fn open_outward(
        &mut self,
        number: u64,
        (to, tls): (&Remote, Option<&TlsTo>),
        mut session: Box<dyn Session<L>>,
    ) {
        let peer = match to {
            Remote::Inet(address) => RemoteAddr(Some(*address)),
            Remote::Unix(_) => RemoteAddr(None),
        };
        let refused = |local: &L, session: &mut Box<dyn Session<L>>, error: io::Error| {
            contain(|| session.ended(local, Some(error)))
        };
        let counters = &self.net.counters;
        let begin = |tls: &TlsTo| Ok(Box::new(TlsLayer::new(tls.begin()?, peer, Arc::clone(counters))) as _);
        let layer = tls
            .map(begin)
            .transpose()
            .map_err(io::Error::other::<rustls::Error>);
        let begun = layer.and_then(|layer| Ok((layer, outward::begin(to)?)));
        let (layer, socket) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                if let Err(panic) = refused(&self.local, &mut session, error) {
                    self.note_panic(peer, &panic);
                }
                return;
            }
        };
        let entry = self.connections.vacant_entry();
        let key = Key {
            slot: entry.key(),
            generation: super::roster::next_generation(),
        };
        if let Err(error) = self.poller.add(&socket, key) {
            if let Err(panic) = refused(&self.local, &mut session, error) {
                self.note_panic(peer, &panic);
            }
            return;
        }
        let mut link = Link::new(socket, peer, Kind::Opened(number), key);
        link.layer = layer;
        link.begin_connecting();
        entry.insert(Connection::new(link, session, self.timers.now_s()));
        self.outward.insert(number, key);
    }

    fn send_outward(&mut self, number: u64, bytes: &[u8]) {
        let Some(&Key { slot, .. }) = self.outward.get(&number) else {
            return;
        };
        let is_to_leave = self.with(slot, |found, _, net, buffers| found.put(bytes, net, buffers));
        if is_to_leave == Some(true) {
            let now_s = self.timers.now_s();
            let after = self.with(slot, |found, _, net, buffers| found.send(net, buffers, now_s));
            if let Some(after) = after {
                self.follow(slot, after);
            }
        } else {
            self.recount(slot);
        }
    }

    /// A connection has ended: where this side opened it, its session hears so.
    pub(super) fn end_outward(&mut self, connection: &mut Connection<L>) {
        let Kind::Opened(number) = connection.link.kind else {
            return;
        };
        self.outward.remove(&number);
        if connection.link.phase == Phase::Broken && connection.link.is_connecting {
            connection.link.error.get_or_insert(Errno::CONNABORTED);
        }
        let peer = connection.link.peer;
        if let Err(panic) = contain(|| connection.end_session(&self.local)) {
            self.note_panic(peer, &panic);
        }
    }
}
