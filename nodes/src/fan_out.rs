//! One lookup over several nodes: which node is sent which keys, what happens when a node is slow, fails or answers from another
//! version, and which keys are left without an answer.
//!
//! A state machine driven by events. It opens no socket, reads no clock, and sees no rows: positions say where the caller places
//! them. A copy is a set of keys sent to one node. The replicas of its keys differ, so that a copy which failed or is slow is
//! split again over the nodes that have the rest. The invariants: every key ends once, answered or missing; a key is missing only
//! after each of its replicas failed; what is taken is all of one version.

mod copies;
mod keys;
mod slow;

use crate::{Action, Attempt, Choice, Error, Event, NodeIndex, Routing, Sent};
use copies::{Copies, SentCopy};
use keys::Keys;
use std::collections::VecDeque;
use std::time::Instant;

/// How often a call begins anew with another version, because nodes serve different ones.
const RESTARTS_MAX: u32 = 3;

/// A copy by its place in its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyId(u32);

/// A copy that is to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToSend {
    /// Which one; its keys are [`FanOut::keys`].
    pub copy: CopyId,
    /// Where to.
    pub node: NodeIndex,
    /// The version to ask for; `None` where no version is known yet. An answer from another one is an error of the node.
    pub at_version: Option<u64>,
    /// Another copy of its keys is slow, and still under way.
    pub is_hedge: bool,
}

/// How a copy ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<E> {
    /// The node answered rows.
    Rows {
        /// Of this version.
        version: u64,
        /// It serves this one.
        active: u64,
    },
    /// The node does not have the version that it was asked for.
    VersionGone(E),
    /// The node answered an error that another replica may not have.
    Refused(E),
    /// There was no connection, it closed, there was no answer in time, or the answer was none.
    Lost(E),
}

/// What the caller does with a copy's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Verdict {
    /// All that was taken before is of another version: drop it first.
    pub reset: bool,
    /// Take the rows of this copy, at its positions.
    pub take: bool,
}

/// Keys that no replica answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing<E> {
    /// The node that was asked last.
    pub node: NodeIndex,
    /// Their positions in the call, ascending.
    pub positions: Vec<u32>,
    /// That node's error; `None` where it answered from another version than it was asked for.
    pub error: Option<E>,
}

/// A call under way. Its copies may end after it is complete: they are still to be reported, or a node that has stopped would
/// look idle, and be chosen again.
#[derive(Debug)]
pub struct FanOut<E> {
    table: String,
    keys: Keys,
    copies: Copies,
    to_send: VecDeque<CopyId>,
    /// The version that rows are taken from.
    version: Option<u64>,
    /// The caller named the version, so that no other will do.
    is_fixed: bool,
    /// How often the call began anew. Copies from before say nothing of its keys.
    restarts: u32,
    /// A node did not have the version, since the call last began anew.
    was_gone: bool,
    missing: Vec<Missing<E>>,
}

impl<E> FanOut<E> {
    /// Splits a call of a table over the nodes. The version is the caller's, or the one that [`crate::Pins`] says.
    ///
    /// # Errors
    /// The call has more keys than can be counted.
    pub fn new(
        table: &str,
        keys: &[u64],
        at_version: Option<u64>,
        routing: &mut Routing,
        now: Instant,
    ) -> Result<FanOut<E>, Error> {
        let map = routing.map().clone();
        let mut split = std::mem::take(&mut routing.split);
        let mut asked = vec![false; map.nodes().len()];
        let is_asked = |asked: &[bool], node: NodeIndex| asked.get(node.get()) == Some(&true);
        let done = split.split(&map, keys, |nodes| {
            let chosen = routing.replicas.choose(nodes, now).node();
            // Ties go to a node that has keys of this call: a frame costs more than a few keys.
            let may_join = |node: &&NodeIndex| {
                is_asked(&asked, **node) && routing.replicas.may_join(chosen, **node, now)
            };
            let node = match is_asked(&asked, chosen) {
                true => chosen,
                false => nodes.iter().find(may_join).copied().unwrap_or(chosen),
            };
            if let Some(is_asked) = asked.get_mut(node.get()) {
                *is_asked = true;
            }
            node
        });
        let mut fan_out = FanOut {
            table: table.to_owned(),
            keys: Keys::new(keys.len()),
            copies: Copies::default(),
            to_send: VecDeque::new(),
            version: at_version.or_else(|| routing.pins.pin(table)),
            is_fixed: at_version.is_some(),
            restarts: 0,
            was_gone: false,
            missing: Vec::new(),
        };
        if done.is_ok() {
            for group in split.groups() {
                let keys = group.keys.iter().copied().zip(group.positions.iter().copied());
                fan_out.send(group.node, keys, None, routing, now);
            }
        }
        routing.split = split;
        done.map(|()| fan_out)
    }

    /// The next copy to send; ask until there is none, after [`FanOut::new`] and after each event.
    pub fn next_send(&mut self) -> Option<ToSend> {
        let copy = self.to_send.pop_front()?;
        let sent = self.copies.get(copy)?;
        Some(ToSend {
            copy,
            node: sent.node,
            at_version: sent.at_version,
            is_hedge: sent.second_of.is_some(),
        })
    }

    /// The keys of a copy.
    pub fn keys(&self, copy: CopyId) -> &[u64] {
        self.copies.keys(copy)
    }

    /// Where in the call the keys of a copy stand, in their order.
    pub fn positions(&self, copy: CopyId) -> &[u32] {
        self.copies.positions(copy)
    }

    /// The node of a copy.
    pub fn node(&self, copy: CopyId) -> Option<NodeIndex> {
        self.copies.get(copy).map(|copy| copy.node)
    }

    /// The version of what was taken, or will be; `None` where that is not known yet.
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// Whether every key is answered or missing.
    pub fn is_complete(&self) -> bool {
        self.keys.open() == 0
    }

    /// Whether a copy has not ended.
    pub fn is_outstanding(&self) -> bool {
        self.copies.iter().any(|copy| !copy.has_ended)
    }

    /// The keys without an answer, once the call is complete.
    pub fn missing(&self) -> &[Missing<E>] {
        &self.missing
    }

    /// When [`FanOut::on_timer`] is due, if at all; it changes with events.
    pub fn timer_at(&self) -> Option<Instant> {
        if self.is_complete() {
            return None;
        }
        let current = self.copies.iter().filter(|copy| self.is_current(copy));
        let attempts = current.filter_map(|copy| copy.attempt.as_ref());
        attempts.filter_map(Attempt::timer_at).min()
    }

    /// A copy ended.
    pub fn on(&mut self, id: CopyId, outcome: Outcome<E>, routing: &mut Routing, now: Instant) -> Verdict {
        let Some(copy) = self.copies.get_mut(id).filter(|copy| !copy.has_ended) else {
            return Verdict::default();
        };
        copy.has_ended = true;
        let (node, asked, is_current) = (copy.node, copy.at_version, copy.restarts == self.restarts);
        let table = &self.table;
        match &outcome {
            Outcome::Lost(_) => {
                routing.replicas.failed(node, now);
                routing.pins.lost(node);
            }
            Outcome::Rows { version, active } => {
                routing.replicas.answered(node);
                routing.pins.said(table, node, *version, *active);
            }
            Outcome::VersionGone(_) => {
                routing.replicas.answered(node);
                if let Some(version) = asked {
                    routing.pins.gone(table, node, version);
                }
            }
            Outcome::Refused(_) => routing.replicas.answered(node),
        }
        if !is_current || self.is_complete() {
            return Verdict::default();
        }
        match outcome {
            Outcome::Rows { version, .. } if asked.is_some_and(|asked| asked != version) => {
                self.failed(id, None, routing, now)
            }
            Outcome::Rows { version, .. } => self.answered(id, version, routing, now),
            Outcome::VersionGone(error) => {
                self.was_gone = true;
                self.failed(id, Some(error), routing, now)
            }
            Outcome::Refused(error) | Outcome::Lost(error) => self.failed(id, Some(error), routing, now),
        }
    }

    /// The caller waits no longer: keys that are not answered are missing, by `error` of the node that has them. Copies that are
    /// under way stay so: they end when they are answered or fail.
    pub fn expire(&mut self, routing: &mut Routing, mut error: impl FnMut(NodeIndex) -> E) {
        for id in self.copies.ids() {
            let waits = self.copies.get(id).filter(|copy| self.is_current(copy));
            let Some(node) = waits.map(|copy| copy.node) else {
                continue;
            };
            let positions = self.keys.missed(self.copies.positions(id));
            if !positions.is_empty() {
                self.miss(node, positions, Some(error(node)));
            }
        }
        self.unqueue(routing);
    }

    /// Nobody will report the copies that are under way.
    pub fn abandon(self, routing: &mut Routing, now: Instant) {
        for copy in self.copies.iter().filter(|copy| !copy.has_ended) {
            routing.replicas.abandoned(copy.asked, now);
        }
    }

    fn is_current(&self, copy: &SentCopy) -> bool {
        !copy.has_ended && copy.restarts == self.restarts
    }

    /// Tells the hedging of a copy what happened to it.
    fn report(&mut self, id: CopyId, event: Event, routing: &mut Routing, now: Instant) -> Action {
        let attempt = self.copies.get_mut(id).and_then(|copy| copy.attempt.as_mut());
        attempt.map_or(Action::Wait, |attempt| routing.hedging.on(attempt, event, now))
    }

    fn answered(&mut self, id: CopyId, version: u64, routing: &mut Routing, now: Instant) -> Verdict {
        match self.version {
            // The first answer of a call that asked for no version. A node that serves a later one may hold this one.
            Some(chosen) if version > chosen => {
                self.ask_again(id, routing, now);
                return Verdict::default();
            }
            Some(chosen) if version < chosen && self.restarts >= RESTARTS_MAX => {
                return self.failed(id, None, routing, now);
            }
            Some(chosen) if version < chosen => {
                self.restart(Some(version), Some(id), routing, now);
                return Verdict {
                    reset: true,
                    take: true,
                };
            }
            _ => self.version = Some(version),
        }
        self.keys.answered(self.copies.positions(id));
        match self.copies.get(id).and_then(|copy| copy.second_of) {
            None => drop(self.report(id, Event::Answered(Sent::First), routing, now)),
            Some(first) if self.keys.are_closed(self.copies.positions(first)) => {
                self.report(first, Event::Answered(Sent::Second), routing, now);
            }
            Some(_) => {}
        }
        Verdict {
            reset: false,
            take: true,
        }
    }

    /// A copy failed: its keys go to replicas that were not asked yet, unless another copy of them is under way.
    fn failed(&mut self, id: CopyId, error: Option<E>, routing: &mut Routing, now: Instant) -> Verdict {
        let Some((node, second_of)) = self.copies.get(id).map(|copy| (copy.node, copy.second_of)) else {
            return Verdict::default();
        };
        match second_of {
            None => drop(self.report(id, Event::Failed(Sent::First), routing, now)),
            Some(first) if self.copies.seconds_have_ended(first) => {
                self.report(first, Event::Failed(Sent::Second), routing, now);
            }
            Some(_) => {}
        }
        let waiting = self.release(id);
        let map = routing.map().clone();
        let choose = |untried: &[NodeIndex]| match routing.replicas.choose(untried, now) {
            Choice::None => None,
            choice => Some(choice.node()),
        };
        let (groups, left) = self.keys.regroup(&map, waiting, choose);
        let next = routing.pins.pin(&self.table);
        let other_version = self.was_gone && !self.is_fixed && next != self.version;
        if !left.is_empty() && other_version && self.restarts < RESTARTS_MAX {
            self.restart(next, None, routing, now);
            return Verdict {
                reset: true,
                take: false,
            };
        }
        for (node, keys) in groups {
            self.send(node, keys, None, routing, now);
        }
        if !left.is_empty() {
            let positions = self.keys.missed(&left);
            self.miss(node, positions, error);
        }
        Verdict::default()
    }

    /// A copy has ended; the keys of it that nobody has now.
    fn release(&mut self, id: CopyId) -> Vec<(u64, u32)> {
        self.keys.release(self.copies.positions(id));
        let pairs = self.copies.pairs(id);
        pairs.filter(|(_, at)| self.keys.is_waiting(*at)).collect()
    }

    /// What was not sent yet will not be.
    fn unqueue(&mut self, routing: &mut Routing) {
        for id in self.to_send.drain(..) {
            if let Some(copy) = self.copies.get_mut(id) {
                copy.has_ended = true;
                routing.replicas.not_sent(copy.asked);
            }
        }
    }

    fn miss(&mut self, node: NodeIndex, positions: Vec<u32>, error: Option<E>) {
        self.missing.push(Missing {
            node,
            positions,
            error,
        });
    }

    /// Asks the node of a copy once more, for the version of the call.
    fn ask_again(&mut self, id: CopyId, routing: &mut Routing, now: Instant) {
        let Some(node) = self.copies.get(id).map(|copy| copy.node) else {
            return;
        };
        let keys = self.release(id);
        if !keys.is_empty() {
            self.send(node, keys, None, routing, now);
        }
    }

    /// Begins anew with another version, but for the keys of a copy that has it.
    fn restart(
        &mut self,
        version: Option<u64>,
        answered: Option<CopyId>,
        routing: &mut Routing,
        now: Instant,
    ) {
        self.unqueue(routing);
        self.restarts += 1;
        self.version = version;
        self.was_gone = false;
        self.missing.clear();
        self.keys.reopen();
        if let Some(id) = answered {
            self.keys.answered(self.copies.positions(id));
        }
        let all = self.copies.first(self.keys.len());
        let open: Vec<_> = all.filter(|(_, at)| self.keys.is_open(*at)).collect();
        let map = routing.map().clone();
        let choose = |nodes: &[NodeIndex]| Some(routing.replicas.choose(nodes, now).node());
        for (node, keys) in self.keys.regroup(&map, open, choose).0 {
            self.send(node, keys, None, routing, now);
        }
    }

    /// Queues a copy. It counts as sent from here on, so that the next choice sees it.
    fn send(
        &mut self,
        node: NodeIndex,
        keys: impl IntoIterator<Item = (u64, u32)>,
        second_of: Option<CopyId>,
        routing: &mut Routing,
        now: Instant,
    ) {
        let copy = SentCopy {
            node,
            asked: routing.replicas.sent(node, now),
            at_version: self.version,
            restarts: self.restarts,
            has_ended: false,
            attempt: second_of.is_none().then(|| routing.hedging.begin(now)),
            others: Vec::new(),
            second_of,
            range: (0, 0),
        };
        let id = self.copies.push(copy, keys);
        let map = routing.map();
        self.keys.sent(map, node, self.copies.pairs(id));
        self.to_send.push_back(id);
    }
}

#[cfg(test)]
mod tests;
