//! An upsert that a node refused because it goes by another map: it is split and sent again by the map that is in use a little later.
//! Its invariant: nothing of it is under way while it waits, and it waits no longer than its deadline allows.

use super::{Sending, Shared, locked};
use crate::spread::upsert::shares;
use millpond_calls::Outbound;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How long it waits before it is split anew, where a node goes by another map: this server and the node look at theirs at once, and
/// a file that reaches them one after the other is looked at once a second.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(1000)];

impl Sending {
    /// Waits for another map, where a node refused it that may go by one; whether it does.
    pub(super) fn pause(&mut self, shared: &Shared, outbound: &Outbound, now: Instant) -> bool {
        let until = PAUSES.get(self.pauses).map(|pause| now + *pause);
        let until = until.filter(|until| *until < self.begun.beside.deadline);
        let Some(until) = until.filter(|_| self.begun.may_go_by_another_map()) else {
            return false;
        };
        self.pauses += 1;
        self.is_paused = true;
        if let Some(timer) = self.give_up_timer.take() {
            outbound.cancel(&timer);
        }
        self.begun.nodes.look_at_map();
        let call = Arc::clone(shared);
        let again = move |outbound: &Outbound, now| {
            let mut sending = locked(&call);
            if sending.detached.is_some() {
                sending.split_anew(&call, outbound, now);
            }
        };
        self.timers.push(outbound.at(until, Box::new(again)));
        true
    }

    /// Sends it by the map that is in use now.
    fn split_anew(&mut self, shared: &Shared, outbound: &Outbound, now: Instant) {
        self.is_paused = false;
        let nodes = Arc::clone(&self.begun.nodes);
        let route = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.route(&nodes)
        };
        match route {
            Ok(route) => {
                self.begun.shares = shares::split(&route, &self.begun.content);
                self.begun.route = route;
                self.attempt += 1;
                nodes.fresh.split_anew();
                self.give_up_later(shared, outbound, now);
                self.send_all(shared, outbound, now);
            }
            Err(status) => self.fail(&status, outbound),
        }
    }
}
