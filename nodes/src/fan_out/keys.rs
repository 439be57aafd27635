//! What became of each key of a call. Its invariant: an open key is with a node, or is about to be sent to one.

use crate::{BucketMap, NodeIndex, REPLICAS_MAX};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
struct State {
    /// Which replicas of its bucket were asked, by their place in the map's list.
    tried: u8,
    /// Copies that have it and have not ended.
    outstanding: u8,
    /// It is neither answered nor missing.
    is_open: bool,
}

const OPEN: State = State {
    tried: 0,
    outstanding: 0,
    is_open: true,
};

/// Keys with their positions, by the node that they go to.
pub(super) type Groups = BTreeMap<NodeIndex, Vec<(u64, u32)>>;

#[derive(Debug)]
pub(super) struct Keys {
    /// By position.
    states: Vec<State>,
    open: usize,
}

impl Keys {
    pub(super) fn new(count: usize) -> Keys {
        const { assert!(REPLICAS_MAX <= u8::BITS as usize) };
        Keys {
            states: vec![OPEN; count],
            open: count,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// Keys that are neither answered nor missing.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn is_open(&self, position: u32) -> bool {
        self.states
            .get(position as usize)
            .is_some_and(|state| state.is_open)
    }

    pub(super) fn are_closed(&self, positions: &[u32]) -> bool {
        !positions.iter().any(|position| self.is_open(*position))
    }

    /// Nothing was asked and nothing is known of any key.
    pub(super) fn reopen(&mut self) {
        self.states.fill(OPEN);
        self.open = self.states.len();
    }

    /// Keys were sent to a node.
    pub(super) fn sent(&mut self, map: &BucketMap, node: NodeIndex, keys: impl Iterator<Item = (u64, u32)>) {
        for (key, position) in keys {
            let replicas = map.replicas(map.bucket(key));
            let place = replicas.iter().position(|replica| *replica == node);
            if let Some(state) = self.states.get_mut(position as usize) {
                state.tried |= place.map_or(0, |place| 1 << place);
                state.outstanding = state.outstanding.saturating_add(1);
            }
        }
    }

    /// A copy of these keys ended.
    pub(super) fn release(&mut self, positions: &[u32]) {
        for position in positions {
            if let Some(state) = self.states.get_mut(*position as usize) {
                state.outstanding = state.outstanding.saturating_sub(1);
            }
        }
    }

    /// Whether a key is open and nobody has it.
    pub(super) fn is_waiting(&self, position: u32) -> bool {
        let state = self.states.get(position as usize);
        state.is_some_and(|state| state.is_open && state.outstanding == 0)
    }

    /// A copy of these keys was answered.
    pub(super) fn answered(&mut self, positions: &[u32]) {
        self.release(positions);
        for position in positions {
            self.close(*position);
        }
    }

    /// Nobody answers these keys. Says which of them were open, in ascending order.
    pub(super) fn missed(&mut self, positions: &[u32]) -> Vec<u32> {
        let open = positions.iter().copied();
        let mut missed: Vec<u32> = open.filter(|position| self.close(*position)).collect();
        missed.sort_unstable();
        missed
    }

    /// Says whether the key was open.
    fn close(&mut self, position: u32) -> bool {
        let state = self.states.get_mut(position as usize);
        let was_open = state.is_some_and(|state| std::mem::take(&mut state.is_open));
        self.open -= usize::from(was_open);
        was_open
    }

    /// Groups keys by the node that `choose` takes among those that were not asked yet; it is asked once a bucket. Behind the
    /// groups are the positions of keys for which it took none.
    pub(super) fn regroup(
        &self,
        map: &BucketMap,
        keys: Vec<(u64, u32)>,
        mut choose: impl FnMut(&[NodeIndex]) -> Option<NodeIndex>,
    ) -> (Groups, Vec<u32>) {
        let (mut groups, mut left) = (Groups::new(), Vec::new());
        let mut chosen: BTreeMap<u32, Option<NodeIndex>> = BTreeMap::new();
        for (key, position) in keys {
            let bucket = map.bucket(key);
            let node = *chosen.entry(bucket).or_insert_with(|| {
                let tried = self.states.get(position as usize).map_or(0, |state| state.tried);
                let replicas = map.replicas(bucket).iter().enumerate();
                let untried = replicas.filter(|(place, _)| tried & (1 << place) == 0);
                let untried: Vec<NodeIndex> = untried.map(|(_, node)| *node).collect();
                choose(&untried)
            });
            match node {
                Some(node) => groups.entry(node).or_default().push((key, position)),
                None => left.push(position),
            }
        }
        (groups, left)
    }
}
