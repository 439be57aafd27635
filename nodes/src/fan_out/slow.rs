//! What becomes of copies that are slow: their keys are sent to other replicas too.
//!
//! How often is not decided here (`hedge.rs` does). Its invariant: the slow copy goes on, and what comes first is taken.

use super::keys::Groups;
use super::{CopyId, FanOut};
use crate::{Action, Attempt, Choice, Event, NodeIndex, Routing};
use std::time::Instant;

/// Where the keys of a slow copy may go.
struct Elsewhere {
    groups: Groups,
    /// One of these nodes lets a call wait too.
    any_silent: bool,
    /// Keys are left whose other replica stands still.
    any_standing: bool,
}

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
        let stands = stands(node, routing, now);
        routing.replicas.overdue(node, now);
        let elsewhere = self.elsewhere(id, node, routing, now);
        let event = match &elsewhere {
            found if found.groups.is_empty() && found.any_standing => Event::Later,
            found if stands && !found.groups.is_empty() && !found.any_silent => Event::Standing,
            _ => Event::Timer,
        };
        if self.report(id, event, routing, now) != Action::SendSecond {
            return;
        }
        if elsewhere.groups.is_empty() {
            self.report(id, Event::NotSent, routing, now);
            return;
        }
        if event == Event::Timer {
            routing.hedging.spread(elsewhere.groups.len());
        }
        for (node, keys) in elsewhere.groups {
            self.send(node, keys, Some(id), routing, now);
        }
    }

    /// By other replicas, the keys of a copy that are open.
    fn elsewhere(&self, id: CopyId, node: NodeIndex, routing: &mut Routing, now: Instant) -> Elsewhere {
        let pairs = self.copies.pairs(id);
        let open = pairs.filter(|(_, at)| self.keys.is_open(*at)).collect();
        let map = routing.map().clone();
        let (mut any_silent, mut any_standing) = (false, false);
        let choose = |untried: &[NodeIndex]| match routing.replicas.choose_other(untried, Some(node), now) {
            Choice::Ready(other) if stands(other, routing, now) => {
                any_standing = true;
                None
            }
            Choice::Ready(other) => {
                any_silent |= routing.replicas.silent_since(other, now).is_some();
                Some(other)
            }
            Choice::Resting { .. } | Choice::None => None,
        };
        let (groups, _) = self.keys.regroup(&map, open, choose);
        Elsewhere {
            groups,
            any_silent,
            any_standing,
        }
    }
}

/// Whether a node has answered nothing for as long as a copy has to itself, after a call to it was overdue.
fn stands(node: NodeIndex, routing: &Routing, now: Instant) -> bool {
    let silent = routing.replicas.silent_since(node, now);
    let silent = silent.map(|since| now.saturating_duration_since(since));
    silent.is_some_and(|silent| routing.hedging.delay().is_some_and(|delay| silent >= delay))
}
