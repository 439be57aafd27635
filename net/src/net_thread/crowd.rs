//! A place for a connection over the limit, where the listener's idlest one gives way.
//!
//! It opens and serves nothing. Its invariant: however many silent connections hold the limit, the next one is served; only
//! calls that are being worked on keep it out.

use super::{Kind, Loop, count, uncount};
use crate::session::{Goodbye, Local};
use std::sync::atomic::Ordering;

impl<L: Local> Loop<L> {
    /// What a connection that has just come is for: calls, where one was over the limit and another gave way.
    pub(super) fn find_place(&mut self, kind: Kind) -> Kind {
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
}
