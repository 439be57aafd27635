//! Which version of a table a call asks all nodes for, so that no call mixes two: the least of the versions that the nodes last
//! said they serve, as a node that already serves a later one still holds it.
//!
//! It asks nobody: nodes say what they serve with each answer. The invariant: a version is pinned only where a node has said that
//! it serves it, and no other node has said that it does not have it. Where no such version is left, calls ask for none, and learn
//! from the answers what is served by now.

use crate::{BucketMap, NodeIndex};
use std::collections::{BTreeMap, BTreeSet};

/// What one node has said of a table.
#[derive(Debug, Clone, Copy, Default)]
struct NodeVersions {
    /// The version that it serves.
    serves: Option<u64>,
    /// The version that it was last asked for in vain.
    lacks: Option<u64>,
}

/// What all nodes have said of a table.
#[derive(Debug, Clone)]
struct Table {
    said: Vec<NodeVersions>,
    /// What follows from it, as it is asked for with each call and changes seldom.
    pin: Option<u64>,
}

/// The versions of tables, by the nodes of one map.
#[derive(Debug, Clone)]
pub struct Pins {
    nodes: usize,
    tables: BTreeMap<String, Table>,
}

impl Pins {
    /// Nothing is known of any table.
    pub fn new(map: &BucketMap) -> Pins {
        Pins {
            nodes: map.nodes().len(),
            tables: BTreeMap::new(),
        }
    }

    /// The same for the map that follows `map`: nodes that are in both under the same name and addresses have said what they said.
    pub fn succeeded_by(&self, map: &BucketMap, next: &BucketMap) -> Pins {
        let places: Vec<Option<usize>> = next
            .nodes()
            .iter()
            .map(|node| map.nodes().iter().position(|old| old == node))
            .collect();
        let tables = self.tables.iter().map(|(name, table)| {
            let said = places.iter().map(|place| {
                let said = place.and_then(|place| table.said.get(place));
                said.copied().unwrap_or_default()
            });
            let mut next = Table {
                said: said.collect(),
                pin: None,
            };
            next.settle();
            (name.clone(), next)
        });
        Pins {
            nodes: places.len(),
            tables: tables.collect(),
        }
    }

    /// The version to ask all nodes for; `None` where no version is known that all may have: then ask for none, and see what is
    /// answered.
    pub fn pin(&self, table: &str) -> Option<u64> {
        self.tables.get(table)?.pin
    }

    /// A node answered from one version and serves another, or the same.
    pub fn said(&mut self, table: &str, node: NodeIndex, answered: u64, active: u64) {
        self.change(table, node, |said| NodeVersions {
            serves: Some(active),
            lacks: said.lacks.filter(|lacks| ![answered, active].contains(lacks)),
        });
    }

    /// A node does not have the version that it was asked for.
    pub fn gone(&mut self, table: &str, node: NodeIndex, version: u64) {
        self.change(table, node, |said| NodeVersions {
            serves: said.serves.filter(|serves| *serves != version),
            lacks: Some(version),
        });
    }

    /// A node cannot be reached: what it served counts no more, or all others would be asked for it as long as it is down.
    pub fn lost(&mut self, node: NodeIndex) {
        for table in self.tables.values_mut() {
            if let Some(said) = table.said.get_mut(node.get()) {
                *said = NodeVersions::default();
                table.settle();
            }
        }
    }

    fn change(&mut self, table: &str, node: NodeIndex, next: impl FnOnce(NodeVersions) -> NodeVersions) {
        if !self.tables.contains_key(table) {
            let said = vec![NodeVersions::default(); self.nodes];
            self.tables.insert(table.to_owned(), Table { said, pin: None });
        }
        let Some(table) = self.tables.get_mut(table) else {
            return;
        };
        let Some(said) = table.said.get_mut(node.get()) else {
            return;
        };
        let (before, after) = (*said, next(*said));
        *said = after;
        if (before.serves, before.lacks) != (after.serves, after.lacks) {
            table.settle();
        }
    }
}

impl Table {
    fn settle(&mut self) {
        let served: BTreeSet<u64> = self.said.iter().filter_map(|said| said.serves).collect();
        let lacked: BTreeSet<u64> = self.said.iter().filter_map(|said| said.lacks).collect();
        self.pin = served.difference(&lacked).next().copied();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: NodeIndex = NodeIndex(0);
    const B: NodeIndex = NodeIndex(1);

    fn map(version: u64, names: &[&str]) -> BucketMap {
        let nodes: Vec<_> = names
            .iter()
            .map(|name| format!("{{ name = {name:?}, addresses = [\"{name}:1\"] }}"))
            .collect();
        let text = format!("version = {version}\nbuckets = 4\nnodes = [{}]", nodes.join(","));
        BucketMap::from_toml(&text).unwrap()
    }

    enum Says {
        /// Answered from the first version, and serves the second.
        Serves(NodeIndex, u64, u64),
        Gone(NodeIndex, u64),
        Lost(NodeIndex),
    }
    use Says::{Gone, Lost, Serves};

    #[test]
    fn the_pin_follows_what_the_nodes_say() {
        let check = |says: &[(Says, Option<u64>)]| {
            let mut pins = Pins::new(&map(1, &["a", "b"]));
            assert_eq!(pins.pin("t"), None);
            for (at, (said, expected)) in says.iter().enumerate() {
                match *said {
                    Serves(node, answered, active) => pins.said("t", node, answered, active),
                    Gone(node, version) => pins.gone("t", node, version),
                    Lost(node) => pins.lost(node),
                }
                assert_eq!(pins.pin("t"), *expected, "after {at}");
                assert_eq!(pins.pin("u"), None);
            }
        };
        // One node switches before the other, and holds what served before.
        check(&[
            (Serves(A, 1, 1), Some(1)),
            (Serves(B, 1, 1), Some(1)),
            (Serves(A, 1, 2), Some(1)),
            (Serves(B, 1, 2), Some(2)),
        ]);
        // One that rolls back pulls all back.
        check(&[
            (Serves(A, 2, 2), Some(2)),
            (Serves(B, 2, 2), Some(2)),
            (Serves(B, 2, 1), Some(1)),
        ]);
        // A version that one node does not have is not asked for, until it says that it has it again.
        check(&[
            (Serves(A, 2, 2), Some(2)),
            (Serves(B, 1, 1), Some(1)),
            (Gone(A, 1), Some(2)),
            (Gone(B, 2), None),
            (Serves(B, 1, 2), Some(2)),
        ]);
        // What was said long ago keeps nobody at a version that is gone: both may serve a later one by now.
        check(&[
            (Serves(A, 3, 3), Some(3)),
            (Serves(B, 3, 3), Some(3)),
            (Gone(A, 3), None),
            (Serves(A, 4, 4), Some(4)),
        ]);
        // What a node served that is down keeps nobody back.
        check(&[
            (Serves(A, 1, 2), Some(2)),
            (Serves(B, 1, 1), Some(1)),
            (Lost(B), Some(2)),
            (Lost(A), None),
        ]);
        // A node that was restarted has what it said no more.
        check(&[(Serves(A, 3, 3), Some(3)), (Gone(A, 3), None)]);
    }

    #[test]
    fn the_next_map_knows_what_its_nodes_said() {
        let (old, new) = (map(1, &["a", "b"]), map(2, &["b", "c"]));
        let mut pins = Pins::new(&old);
        pins.said("t", A, 1, 1);
        pins.said("t", B, 1, 4);
        let mut next = pins.succeeded_by(&old, &new);
        assert_eq!((pins.pin("t"), next.pin("t")), (Some(1), Some(4)));
        next.said("t", new.find("c").unwrap(), 3, 3);
        assert_eq!(next.pin("t"), Some(3));
    }
}
