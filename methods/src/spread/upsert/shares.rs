//! Which node holds which keys of an upsert: of each key all its replicas.
//! It sends nothing. Its invariant: positions of a share ascend.

use super::content::Content;
use crate::spread::route::Route;
use millpond_engines_features::Durability;
use millpond_nodes::NodeIndex;
use millpond_wire_schema::{Code, Status};

/// What became of a copy.
#[derive(Debug, Clone)]
pub(super) enum Copied {
    /// It is under way.
    Waiting,
    /// The node has it, under that sequence of its own.
    Taken {
        sequence: u64,
        durability: Durability,
        /// The time of a row there that is newer.
        newer: u64,
    },
    /// The node does not have it, as far as is known.
    Failed {
        status: Status,
        /// The node itself said so.
        is_answer: bool,
    },
}

/// The keys of one node.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) node: NodeIndex,
    /// Positions among the keys with rows.
    pub(super) keys: Vec<u32>,
    /// Positions among those that are removed.
    pub(super) remove: Vec<u32>,
    pub(super) copied: Copied,
    /// The nodes that it was told of: they have not taken it.
    pub(super) told: Vec<NodeIndex>,
}

impl Share {
    pub(super) fn of(node: NodeIndex) -> Share {
        Share {
            node,
            keys: Vec::new(),
            remove: Vec::new(),
            copied: Copied::Waiting,
            told: Vec::new(),
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.copied, Copied::Waiting)
    }

    pub(super) fn has_taken(&self) -> bool {
        matches!(self.copied, Copied::Taken { .. })
    }

    /// Whether its node does not have it, and would take it when it catches up.
    pub(super) fn may_take_it_later(&self) -> bool {
        matches!(self.copied, Copied::Failed { .. }) && self.refused_for_a_clock().is_none()
    }

    /// What its node said, where it refused it because of a clock.
    pub(super) fn refused_for_a_clock(&self) -> Option<&Status> {
        match &self.copied {
            Copied::Failed { status, .. } if status.code == Code::ClockAhead => Some(status),
            _ => None,
        }
    }

    /// Whether both hold a key of the upsert.
    pub(super) fn shares_with(&self, other: &Share) -> bool {
        meet(&self.keys, &other.keys) || meet(&self.remove, &other.remove)
    }
}

/// Whether two ascending lists have something in common.
fn meet(one: &[u32], other: &[u32]) -> bool {
    let (mut one, mut other) = (one, other);
    while let (Some((first, rest)), Some((second, others))) = (one.split_first(), other.split_first()) {
        match first.cmp(second) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => one = rest,
            std::cmp::Ordering::Greater => other = others,
        }
    }
    false
}

/// The shares of all nodes that hold a key of it.
pub(super) fn split(route: &Route, content: &Content) -> Vec<Share> {
    let map = &route.map;
    let mut shares: Vec<Share> = Vec::new();
    let mut place = vec![usize::MAX; map.nodes().len()];
    let mut each = |keys: &[u64], push: fn(&mut Share, u32)| {
        for (at, key) in (0..).zip(keys) {
            for node in map.replicas(map.bucket(*key)) {
                let Some(place) = place.get_mut(node.get()) else {
                    continue;
                };
                if *place == usize::MAX {
                    *place = shares.len();
                    shares.push(Share::of(*node));
                }
                if let Some(share) = shares.get_mut(*place) {
                    push(share, at);
                }
            }
        }
    };
    each(&content.keys, |share, at| share.keys.push(at));
    each(&content.remove, |share, at| share.remove.push(at));
    shares
}

/// On how many nodes each key of it is: those with rows, then those that are removed.
pub(super) fn replicas(content: &Content, shares: &[Share]) -> Vec<usize> {
    let mut counts = vec![0; content.keys.len() + content.remove.len()];
    for share in shares.iter().filter(|share| share.has_taken()) {
        let removed = share.remove.iter().map(|at| content.keys.len() + *at as usize);
        for at in share.keys.iter().map(|at| *at as usize).chain(removed) {
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
        }
    }
    counts
}

/// Of how many keys fewer nodes than `acks` have taken it; each key needs all of its replicas where they are not so many, or
/// where no number is said.
pub(super) fn short(route: &Route, content: &Content, acks: Option<usize>, counts: &[usize]) -> usize {
    let map = &route.map;
    let needed = |key: &u64| {
        let all = map.replicas(map.bucket(*key)).len();
        acks.map_or(all, |acks| acks.min(all))
    };
    let keys = content.keys.iter().chain(&content.remove);
    keys.zip(counts)
        .filter(|(key, count)| **count < needed(key))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_meet_where_they_share_a_position() {
        let check = |one: &[u32], other: &[u32], expected| {
            assert_eq!((meet(one, other), meet(other, one)), (expected, expected));
        };
        check(&[], &[1], false);
        check(&[1, 4], &[2, 3, 5], false);
        check(&[1, 4, 9], &[2, 9], true);
    }
}
