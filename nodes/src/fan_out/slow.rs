//! What becomes of copies that are slow: their keys are sent to other replicas too.
//!
//! How often is not decided here (`hedge.rs` does). Its invariants: the slow copy goes on, and what comes first is taken; the keys
//! of a copy are looked at only where there is a budget for it, and a node that may answer: there may be a million, and it is due
//! again and again.

use super::keys::Groups;
use super::{CopyId, FanOut};
use crate::{Action, Attempt, Choice, Event, NodeIndex, Routing};
use std::collections::BTreeSet;
use std::time::Instant;

impl<E> FanOut<E> {
    /// Sends the keys of slow copies to other replicas too, as far as the budget allows it, or their node stands still.
    pub fn on_timer(&mut self, routing: &mut Routing, now: Instant) {
        if self.is_complete() {
            return;
        }
        for id in self.copies.ids() {
            if let Some(node) = self.due(id, now) {
                self.hedge(id, node, routing, now);
            }
        }
    }

    /// The node of a copy that is due.
    fn due(&self, id: CopyId, now: Instant) -> Option<NodeIndex> {
        let copy = self.copies.get(id).filter(|copy| self.is_current(copy))?;
        let is_due = |attempt: &Attempt| attempt.is_due(now);
        copy.attempt.as_ref().is_some_and(is_due).then_some(copy.node)
    }

    /// Sends the keys of a slow copy to other replicas that are up.
    fn hedge(&mut self, id: CopyId, node: NodeIndex, routing: &mut Routing, now: Instant) {
        routing.replicas.overdue(node, now);
        let mut event = self.without_keys(id, node, routing, now);
        let mut groups = Groups::new();
        if !matches!(event, Event::Later(_)) {
            let others;
            (groups, others) = self.elsewhere(id, node, routing, now);
            // A node that stands still is asked only beside one that does not: what is sent is sent once, all of it.
            if !groups.is_empty() && groups.keys().all(|other| stands(*other, routing, now)) {
                event = Event::Later(None);
                if let Some(copy) = self.copies.get_mut(id) {
                    copy.others = others.into_iter().collect();
                }
            }
        }
        if self.report(id, event, routing, now) != Action::SendSecond {
            return;
        }
        if groups.is_empty() {
            self.report(id, Event::NotSent, routing, now);
            return;
        }
        let attempt = self.copies.get(id).and_then(|copy| copy.attempt.as_ref());
        if let Some(attempt) = attempt {
            routing.hedging.spread(attempt, groups.len());
        }
        for (node, keys) in groups {
            self.send(node, keys, Some(id), routing, now);
        }
    }

    /// What a copy that is due is to be told, as far as that can be said without a look at its keys.
    pub(super) fn without_keys(&self, id: CopyId, node: NodeIndex, routing: &Routing, now: Instant) -> Event {
        let stands_at = stands_at(node, routing, now);
        let is_standing = stands_at.is_some_and(|at| at <= now);
        if !routing.hedging.may_pay(is_standing) {
            return Event::Later(stands_at);
        }
        let others = self.copies.get(id).map_or(&[][..], |copy| &copy.others);
        let may_answer = |other: &NodeIndex| routing.replicas.is_up(*other) && !stands(*other, routing, now);
        match is_standing {
            _ if !others.is_empty() && !others.iter().any(may_answer) => Event::Later(None),
            true => Event::Standing,
            false => Event::Timer,
        }
    }

    /// By other replicas that are up, the keys of a copy that are open; and all other replicas of these.
    fn elsewhere(
        &self,
        id: CopyId,
        node: NodeIndex,
        routing: &mut Routing,
        now: Instant,
    ) -> (Groups, BTreeSet<NodeIndex>) {
        let pairs = self.copies.pairs(id);
        let open = pairs.filter(|(_, at)| self.keys.is_open(*at)).collect();
        let map = routing.map().clone();
        let mut others = BTreeSet::new();
        let choose = |untried: &[NodeIndex]| {
            others.extend(untried);
            match routing.replicas.choose_other(untried, Some(node), now) {
                Choice::Ready(other) => Some(other),
                Choice::Resting { .. } | Choice::None => None,
            }
        };
        let (groups, _) = self.keys.regroup(&map, open, choose);
        (groups, others)
    }
}

/// When a node that has answered nothing since a call to it was overdue is taken to stand still.
fn stands_at(node: NodeIndex, routing: &Routing, now: Instant) -> Option<Instant> {
    let silent_since = routing.replicas.silent_since(node, now)?;
    silent_since.checked_add(routing.hedging.standing_after()?)
}

/// Whether it is.
fn stands(node: NodeIndex, routing: &Routing, now: Instant) -> bool {
    stands_at(node, routing, now).is_some_and(|at| at <= now)
}
