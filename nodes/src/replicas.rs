//! Which replica of a bucket is asked: the node with the fewest calls outstanding, ties by turns; a node that failed is left out
//! until its backoff ends, and is then tried with one call. A node whose lease has ended is asked where no other one is up.
//!
//! It sends nothing: the caller says what was sent, answered and failed. Its state is of one map, by that map's [`NodeIndex`];
//! calls that began on an older map report to that map's state. The invariant: a node in backoff is chosen only where every
//! replica is in backoff.

use crate::{BucketMap, Node, NodeIndex};
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
        let mut up: Option<(bool, u32, NodeIndex)> = None;
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
                    // Those without a lease come behind all others.
                    let rank = (state.has_left, state.outstanding);
                    if up.is_none_or(|(left, fewest, _)| rank < (left, fewest)) {
                        up = Some((state.has_left, state.outstanding, node));
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
        match (up.map(|(.., node)| node).or(trial), resting) {
            (Some(node), _) => Choice::Ready(node),
            (None, Some((until, node))) => Choice::Resting { node, until },
            (None, None) => Choice::None,
        }
    }

    /// A call was sent to a node. Who may cancel the call keeps what this returns, for [`Replicas::abandoned`].
    pub fn sent(&mut self, node: NodeIndex, now: Instant) -> Asked {
        let mut is_trial = false;
        if let Some(state) = self.states.get_mut(node.get()) {
            state.outstanding = state.outstanding.saturating_add(1);
            is_trial = !state.on_trial && state.retry_at.is_some_and(|at| at <= now);
            state.on_trial |= is_trial;
        }
        Asked { node, is_trial }
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
    pub fn abandoned(&mut self, asked: Asked) {
        if let Some(state) = self.states.get_mut(asked.node.get()) {
            state.outstanding = state.outstanding.saturating_sub(1);
            state.on_trial &= !asked.is_trial;
        }
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

    /// Whether a call that asks `other` already may ask it in place of the node that was chosen: both are up, and it has no more
    /// calls. Fewer nodes are asked then.
    pub(crate) fn may_join(&self, chosen: NodeIndex, other: NodeIndex) -> bool {
        if Some(chosen) == self.preferred {
            return false;
        }
        let state_of = |node: NodeIndex| self.states.get(node.get()).copied().unwrap_or_default();
        let (chosen, other) = (state_of(chosen), state_of(other));
        let are_up = chosen.retry_at.is_none() && other.retry_at.is_none();
        are_up && (other.has_left, other.outstanding) <= (chosen.has_left, chosen.outstanding)
    }

    /// Calls sent to a node that have not ended.
    pub fn outstanding(&self, node: NodeIndex) -> u32 {
        self.states.get(node.get()).map_or(0, |state| state.outstanding)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: NodeIndex = NodeIndex(0);
    const B: NodeIndex = NodeIndex(1);
    const C: NodeIndex = NodeIndex(2);

    fn map(version: u64, names: &[&str]) -> BucketMap {
        let nodes: Vec<_> = names
            .iter()
            .map(|name| format!("{{ name = {name:?}, addresses = [\"{name}:1\"] }}"))
            .collect();
        let text = format!("version = {version}\nbuckets = 4\nnodes = [{}]", nodes.join(","));
        BucketMap::from_toml(&text).unwrap()
    }

    fn state() -> (Replicas, Instant) {
        (Replicas::new(&map(1, &["a", "b", "c"])), Instant::now())
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_fewest_outstanding_win_and_ties_go_round() {
        let (mut replicas, now) = state();
        let chosen: Vec<_> = (0..4).map(|_| replicas.choose(&[A, B], now)).collect();
        assert_eq!(chosen, [A, B, A, B].map(Choice::Ready));
        let asked = replicas.sent(A, now);
        replicas.sent(A, now);
        replicas.sent(B, now);
        for _ in 0..4 {
            assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(B));
        }
        replicas.answered(A);
        replicas.abandoned(asked);
        assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(A));
        assert_eq!(replicas.choose(&[], now), Choice::None);
    }

    #[test]
    fn a_failed_node_rests_longer_each_time_and_is_tried_by_one_call() {
        let (mut replicas, start) = state();
        let mut now = start;
        for wait in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
            replicas.sent(A, now);
            replicas.sent(A, now);
            replicas.failed(A, now);
            // The second one was under way: it does not double the wait.
            replicas.failed(A, now);
            assert_eq!(replicas.choose(&[A, B], now + ms(wait - 1)), Choice::Ready(B));
            now += ms(wait);
            assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(A));
            let trial = replicas.sent(A, now);
            assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(B));
            replicas.abandoned(trial);
        }
        replicas.sent(A, now);
        replicas.answered(A);
        replicas.failed(A, now);
        assert_eq!(
            replicas.choose(&[A], now),
            Choice::Resting {
                node: A,
                until: now + ms(100)
            }
        );
    }

    #[test]
    fn only_the_call_that_tries_a_node_ends_its_trial() {
        let (mut replicas, now) = state();
        let before = replicas.sent(A, now);
        replicas.lost(A, now);
        let later = now + ms(100);
        let trial = replicas.sent(A, later);
        let beside = replicas.sent(A, later);
        for other in [before, beside] {
            replicas.abandoned(other);
            assert_eq!(replicas.choose(&[A, B], later), Choice::Ready(B));
        }
        replicas.abandoned(trial);
        assert_eq!(replicas.choose(&[A, B], later), Choice::Ready(A));
        assert_eq!(replicas.outstanding(A), 0);
    }

    #[test]
    fn a_preferred_node_is_chosen_while_it_is_up() {
        let (mut replicas, now) = state();
        replicas.prefer(Some(B));
        replicas.sent(B, now);
        for _ in 0..3 {
            assert_eq!(replicas.choose(&[A, B, C], now), Choice::Ready(B));
        }
        assert_eq!(replicas.choose_other(&[A, B], Some(B), now), Choice::Ready(A));
        replicas.failed(B, now);
        assert_ne!(replicas.choose(&[A, B, C], now), Choice::Ready(B));
    }

    #[test]
    fn where_all_failed_the_first_to_be_due_is_named() {
        let (mut replicas, now) = state();
        replicas.lost(B, now);
        replicas.lost(A, now + ms(10));
        replicas.lost(C, now + ms(20));
        let until = now + ms(100);
        assert_eq!(
            replicas.choose(&[C, A, B], now + ms(30)),
            Choice::Resting { node: B, until }
        );
        let map = map(1, &["a", "b", "c"]);
        replicas.leases_ended(&map, &BTreeSet::from(["c".to_owned()]));
        replicas.leases_ended(&map, &BTreeSet::new());
        assert_eq!(replicas.choose(&[C, A, B], now + ms(30)), Choice::Ready(C));
    }

    #[test]
    fn a_node_without_a_lease_is_asked_where_no_other_is_up() {
        let (old, new) = (map(1, &["a", "b", "c"]), map(2, &["b", "d"]));
        let (mut replicas, now) = state();
        replicas.leases_ended(&old, &BTreeSet::from(["b".to_owned()]));
        for _ in 0..4 {
            replicas.sent(A, now);
            assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(A));
            assert_eq!(replicas.choose_other(&[A, B, C], Some(A), now), Choice::Ready(C));
        }
        assert!(!replicas.may_join(A, B) && replicas.may_join(B, C));
        // As a second copy, and where the other has failed.
        assert_eq!(replicas.choose_other(&[A, B], Some(A), now), Choice::Ready(B));
        replicas.failed(A, now);
        assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(B));
        // That it answers gives it no lease, and its trial waits until no other is up.
        replicas.sent(B, now);
        replicas.answered(B);
        assert_eq!(replicas.choose(&[B, C], now), Choice::Ready(C));
        replicas.failed(B, now);
        assert_eq!(replicas.choose(&[B, C], now + ms(100)), Choice::Ready(C));
        assert_eq!(replicas.choose(&[B], now + ms(100)), Choice::Ready(B));
        let mut next = replicas.succeeded_by(&old, &new);
        let [b, d] = ["b", "d"].map(|name| new.find(name).unwrap());
        assert_eq!(next.choose(&[b, d], now + ms(500)), Choice::Ready(d));
        next.leases_ended(&new, &BTreeSet::new());
        next.sent(d, now);
        assert_eq!(next.choose(&[b, d], now), Choice::Ready(b));
        // This server itself needs none.
        next.leases_ended(&new, &BTreeSet::from(["b".to_owned()]));
        next.prefer(Some(b));
        assert_eq!(next.choose(&[b, d], now), Choice::Ready(b));
    }

    #[test]
    fn a_second_copy_goes_elsewhere_and_tries_nobody() {
        let (mut replicas, now) = state();
        replicas.lost(B, now);
        let later = now + ms(500);
        assert_eq!(
            replicas.choose_other(&[A, B, C], Some(A), later),
            Choice::Ready(C)
        );
        assert!(matches!(
            replicas.choose_other(&[A, B], Some(A), later),
            Choice::Resting { node: B, .. }
        ));
        assert_eq!(replicas.choose_other(&[A], Some(A), later), Choice::None);
    }

    #[test]
    fn the_next_map_knows_who_failed_and_counts_anew() {
        let (old, new) = (map(1, &["a", "b", "c"]), map(2, &["c", "d", "a"]));
        let (mut replicas, now) = state();
        replicas.sent(A, now);
        replicas.lost(C, now);
        let mut next = replicas.succeeded_by(&old, &new);
        let [c, d, a] = ["c", "d", "a"].map(|name| new.find(name).unwrap());
        assert!(matches!(next.choose(&[c], now), Choice::Resting { .. }));
        assert_eq!(next.choose(&[d], now), Choice::Ready(d));
        assert_eq!((next.outstanding(a), replicas.outstanding(A)), (0, 1));
    }
}
