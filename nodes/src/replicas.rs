//! Which replica of a bucket is asked: the node with the fewest calls outstanding, ties by turns; a node that failed is left out
//! until its backoff ends, and is then tried with one call. A node that lets a call wait for too long and answers no other meanwhile
//! is asked where none is up that answers; of those that answer, a node whose lease has ended where no other one is up.
//!
//! It sends nothing: the caller says what was sent, answered and failed. Its state is of one map, by that map's [`NodeIndex`];
//! calls that began on an older map report to that map's state. The invariant: a node in backoff is chosen only where every
//! replica is in backoff.

use crate::{BucketMap, Node, NodeIndex};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long a node that failed is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryOptions {
    /// After the first failure; it doubles with each failed trial.
    pub first: Duration,
    /// After any failure.
    pub most: Duration,
}

impl Default for RetryOptions {
    /// 100 ms, doubling up to 10 s.
    fn default() -> RetryOptions {
        RetryOptions {
            first: Duration::from_millis(100),
            most: Duration::from_secs(10),
        }
    }
}

/// A choice among replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// A node that is thought to be up, or is due for a trial.
    Ready(NodeIndex),
    /// All replicas failed lately; this one's backoff ends first. The caller may try it, or answer an error at once.
    Resting {
        /// The node.
        node: NodeIndex,
        /// When its backoff ends.
        until: Instant,
    },
    /// There was nothing to choose from.
    None,
}

impl Choice {
    /// The node, of whatever state; [`NodeIndex`] 0 where there was nothing to choose from.
    pub fn node(self) -> NodeIndex {
        match self {
            Choice::Ready(node) | Choice::Resting { node, .. } => node,
            Choice::None => NodeIndex(0),
        }
    }
}

/// A call that was sent to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    node: NodeIndex,
    sent_at: Instant,
    /// Whether it tries a node whose backoff has ended.
    is_trial: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Calls sent to it that were neither answered nor failed.
    outstanding: u32,
    /// Failures since its last answer, to double the backoff by; 0: it is thought to be up.
    failures: u32,
    /// When its backoff ends.
    retry_at: Option<Instant>,
    /// A call is trying it after its backoff.
    on_trial: bool,
    /// It was registered where nodes register, and is no more. It may answer all the same, so calls do not change this.
    has_left: bool,
    /// Since then a call to it is overdue and it has answered none: it may stand still.
    silent_since: Option<Instant>,
    /// Its overdue calls were cancelled; until then it counts as silent all the same.
    silent_until: Option<Instant>,
}

/// By what one of two nodes that are up is chosen; the lesser one is: whether it is silent, whether its lease has ended, since
/// when it is silent, its calls. Of two that are silent the one that is so for longer is less likely to answer.
type Rank = (bool, bool, Option<Reverse<Instant>>, u32);

impl State {
    fn rank(&self, now: Instant) -> Rank {
        let silent = self.silent(now).map(Reverse);
        (silent.is_some(), self.has_left, silent, self.outstanding)
    }

    /// Since when it is silent. Where no call is left whose answer would say that it runs, only for so long as is remembered.
    fn silent(&self, now: Instant) -> Option<Instant> {
        let counts = self.outstanding > 0 || self.silent_until.is_some_and(|until| until > now);
        self.silent_since.filter(|_| counts)
    }
}

/// What is known of the nodes of one map.
#[derive(Debug)]
pub struct Replicas {
    states: Vec<State>,
    options: RetryOptions,
    /// Where the next choice begins to look, so that ties go round.
    turn: usize,
    /// The caller itself, where it is a node: nothing is nearer.
    preferred: Option<NodeIndex>,
}

impl Replicas {
    /// All nodes of a map, thought to be up.
    pub fn new(map: &BucketMap) -> Replicas {
        Replicas::with(map, RetryOptions::default())
    }

    /// The same with a backoff of the caller's.
    pub fn with(map: &BucketMap, options: RetryOptions) -> Replicas {
        Replicas {
            states: vec![State::default(); map.nodes().len()],
            options,
            turn: 0,
            preferred: None,
        }
    }

    /// The state for the map that follows `map`: nodes that are in both under the same name and addresses stay failed, and
    /// those of the same name stay without a lease. Nothing is outstanding, as calls of the old map report to the old state.
    pub fn succeeded_by(&self, map: &BucketMap, next: &BucketMap) -> Replicas {
        let state_of = |node: &Node| {
            let index = map.find(&node.name)?;
            let old = self.states.get(index.get())?;
            let is_there = map.node(index) == Some(node);
            Some(State {
                failures: if is_there { old.failures } else { 0 },
                retry_at: old.retry_at.filter(|_| is_there),
                has_left: old.has_left,
                ..State::default()
            })
        };
        Replicas {
            states: next
                .nodes()
                .iter()
                .map(|node| state_of(node).unwrap_or_default())
                .collect(),
            options: self.options,
            turn: self.turn,
            preferred: None,
        }
    }

    /// That node is chosen wherever it is a replica and is thought to be up: the caller's own.
    pub fn prefer(&mut self, node: Option<NodeIndex>) {
        self.preferred = node;
    }

    /// Chooses among the replicas of a bucket.
    pub fn choose(&mut self, replicas: &[NodeIndex], now: Instant) -> Choice {
        self.choose_other(replicas, None, now)
    }

    /// Chooses among them for a second copy of a call: not the node that has the first.
    pub fn choose_other(&mut self, replicas: &[NodeIndex], first: Option<NodeIndex>, now: Instant) -> Choice {
        let count = replicas.len();
        let mut up: Option<(Rank, NodeIndex)> = None;
        let mut resting: Option<(Instant, NodeIndex)> = None;
        let mut trial = None;
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        let in_turn = (0..count).filter_map(|step| replicas.get((turn % count + step) % count));
        for &node in in_turn.filter(|node| Some(**node) != first) {
            let state = self.states.get(node.get()).copied().unwrap_or_default();
            match state.retry_at {
                None if Some(node) == self.preferred => return Choice::Ready(node),
                None => {
                    if up.is_none_or(|(least, _)| state.rank(now) < least) {
                        up = Some((state.rank(now), node));
                    }
                }
                // A trial comes first, or a node that is back would wait for the others to fail. One call tries it; others
                // meanwhile go elsewhere.
                Some(at) if at <= now && !state.on_trial && first.is_none() => match state.has_left {
                    false => return Choice::Ready(node),
                    true => trial = trial.or(Some(node)),
                },
                Some(at) => {
                    if resting.is_none_or(|(earliest, _)| at < earliest) {
                        resting = Some((at, node));
                    }
                }
            }
        }
        match (up.map(|(_, node)| node).or(trial), resting) {
            (Some(node), _) => Choice::Ready(node),
            (None, Some((until, node))) => Choice::Resting { node, until },
            (None, None) => Choice::None,
        }
    }

    /// A call was sent to a node. Who may cancel the call keeps what this returns, for [`Replicas::abandoned`].
    pub fn sent(&mut self, node: NodeIndex, now: Instant) -> Asked {
        let mut is_trial = false;
        if let Some(state) = self.states.get_mut(node.get()) {
            if state.silent(now).is_none() {
                // What was remembered is too old to be held against it when this call is overdue.
                (state.silent_since, state.silent_until) = (None, None);
            }
            state.outstanding = state.outstanding.saturating_add(1);
            is_trial = !state.on_trial && state.retry_at.is_some_and(|at| at <= now);
            state.on_trial |= is_trial;
        }
        Asked {
            node,
            sent_at: now,
            is_trial,
        }
    }

    /// A node answered a call, however late: it is up.
    pub fn answered(&mut self, node: NodeIndex) {
        if let Some(state) = self.states.get_mut(node.get()) {
            let outstanding = state.outstanding.saturating_sub(1);
            *state = State {
                outstanding,
                has_left: state.has_left,
                ..State::default()
            };
        }
    }

    /// A call to a node failed as calls to a node that is gone do: no connection, a connection that closed, no answer in time.
    /// An error that the node answered is an answer.
    pub fn failed(&mut self, node: NodeIndex, now: Instant) {
        if let Some(state) = self.states.get_mut(node.get()) {
            state.outstanding = state.outstanding.saturating_sub(1);
        }
        self.lost(node, now);
    }

    /// A call to a node ended without saying anything of the node: it was cancelled.
    /// Only the call that tries a node ends its trial: another one may have been under way since before the node failed.
    ///
    /// A node that is silent then is remembered as such for ten times as long as the call had waited, but not for less than a
    /// node rests that failed once, nor for more than ten times that: calls that are given up early would each ask it again.
    pub fn abandoned(&mut self, asked: Asked, now: Instant) {
        let least = self.options.first;
        let waited = now.saturating_duration_since(asked.sent_at);
        let remember = waited.saturating_mul(10);
        let remember = remember.max(least).min(least.saturating_mul(10));
        if let Some(state) = self.states.get_mut(asked.node.get()) {
            state.outstanding = state.outstanding.saturating_sub(1);
            state.on_trial &= !asked.is_trial;
            if state.outstanding == 0 && state.silent_since.is_some() {
                let until = now.checked_add(remember).unwrap_or(now);
                // Further calls that are cancelled before they are overdue say nothing of it.
                state.silent_until.get_or_insert(until);
            }
        }
    }

    /// A call that was to be sent to a node was not.
    pub(crate) fn not_sent(&mut self, asked: Asked) {
        self.abandoned(asked, asked.sent_at);
    }

    /// A call to a node takes longer than calls do. Others are chosen in its place until it answers any call.
    pub fn overdue(&mut self, node: NodeIndex, now: Instant) {
        if let Some(state) = self.states.get_mut(node.get()) {
            state.silent_since.get_or_insert(now);
            state.silent_until = None;
        }
    }

    /// Since when a call to a node is overdue and it has answered none.
    pub fn silent_since(&self, node: NodeIndex, now: Instant) -> Option<Instant> {
        self.states.get(node.get())?.silent(now)
    }

    /// A node is thought to be gone, by a sign other than the end of a call.
    pub fn lost(&mut self, node: NodeIndex, now: Instant) {
        let options = self.options;
        let Some(state) = self.states.get_mut(node.get()) else {
            return;
        };
        // Calls that were under way when the node failed fail too; they say nothing new.
        if state.retry_at.is_some_and(|at| at > now) {
            return;
        }
        let doubled = 2_u32.saturating_pow(state.failures);
        let wait = options.first.saturating_mul(doubled).min(options.most);
        state.failures = state.failures.saturating_add(1);
        state.retry_at = Some(now.checked_add(wait).unwrap_or(now));
        state.on_trial = false;
    }

    /// Which nodes have no lease any more. One that has come back is thought to be up.
    pub fn leases_ended(&mut self, map: &BucketMap, ended: &BTreeSet<String>) {
        for (state, node) in self.states.iter_mut().zip(map.nodes()) {
            let has_left = ended.contains(&node.name);
            if state.has_left && !has_left {
                *state = State {
                    outstanding: state.outstanding,
                    ..State::default()
                };
            }
            state.has_left = has_left;
        }
    }

    /// Whether a node is thought to be up, silent or not.
    pub(crate) fn is_up(&self, node: NodeIndex) -> bool {
        let state = self.states.get(node.get());
        state.is_some_and(|state| state.retry_at.is_none())
    }

    /// Whether a call that asks `other` already may ask it in place of the node that was chosen: both are up, and it has no more
    /// calls. Fewer nodes are asked then.
    pub(crate) fn may_join(&self, chosen: NodeIndex, other: NodeIndex, now: Instant) -> bool {
        if Some(chosen) == self.preferred {
            return false;
        }
        let state_of = |node: NodeIndex| self.states.get(node.get()).copied().unwrap_or_default();
        let (chosen, other) = (state_of(chosen), state_of(other));
        let are_up = chosen.retry_at.is_none() && other.retry_at.is_none();
        are_up && other.rank(now) <= chosen.rank(now)
    }

    /// Calls sent to a node that have not ended.
    pub fn outstanding(&self, node: NodeIndex) -> u32 {
        self.states.get(node.get()).map_or(0, |state| state.outstanding)
    }
}

#[cfg(test)]
mod tests;
