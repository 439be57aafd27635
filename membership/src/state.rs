//! What is known of a cluster, from its keys. No I/O. Its invariant: a value that cannot be used changes nothing of what is known,
//! and says so.

use crate::Event;
use crate::messages::{Change, Kind, Pair};
use millpond_nodes::{BucketMap, NODES_MAX, Node};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The value of a node's key.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct NodeValue {
    addresses: Vec<String>,
}

impl NodeValue {
    pub(crate) fn written(node: &Node) -> Vec<u8> {
        let value = NodeValue {
            addresses: node.addresses.clone(),
        };
        // A list of texts can be written.
        serde_json::to_vec(&value).unwrap_or_default()
    }
}

/// "/millpond/CLUSTER/"
pub(crate) fn prefix(cluster: &str) -> String {
    format!("/millpond/{cluster}/")
}

/// "/millpond/CLUSTER/map"
pub(crate) fn map_key(cluster: &str) -> String {
    format!("/millpond/{cluster}/map")
}

/// "/millpond/CLUSTER/nodes/NAME"
pub(crate) fn node_key(cluster: &str, name: &str) -> String {
    format!("/millpond/{cluster}/nodes/{name}")
}

/// What is known of a cluster.
pub(crate) struct State {
    map_key: String,
    nodes_prefix: String,
    /// The last good one, whatever happened since.
    map: Option<Arc<BucketMap>>,
    nodes: BTreeMap<String, Node>,
    /// The revision of each key, to notice a watch that misses some.
    revisions: BTreeMap<Vec<u8>, i64>,
}

impl State {
    pub(crate) fn new(cluster: &str) -> State {
        State {
            map_key: map_key(cluster),
            nodes_prefix: node_key(cluster, ""),
            map: None,
            nodes: BTreeMap::new(),
            revisions: BTreeMap::new(),
        }
    }

    /// Takes in all keys that there are.
    pub(crate) fn read(&mut self, pairs: &[Pair]) -> Vec<Event> {
        let mut events = Vec::new();
        let had_map = self.revisions.contains_key(self.map_key.as_bytes());
        self.revisions = revisions(pairs);
        let present: BTreeSet<String> = pairs.iter().filter_map(|pair| self.node_of(pair)).collect();
        let gone: Vec<String> = self
            .nodes
            .keys()
            .filter(|name| !present.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            self.nodes.remove(&name);
            events.push(Event::NodeDown { name });
        }
        for pair in pairs {
            events.extend(self.put(pair));
        }
        if had_map && !self.revisions.contains_key(self.map_key.as_bytes()) {
            events.push(Event::MapGone);
        }
        events
    }

    /// Takes in what happened to a key.
    pub(crate) fn change(&mut self, change: &Change) -> Option<Event> {
        let pair = &change.kv;
        match change.kind {
            Kind::Put => {
                self.revisions.insert(pair.key.0.clone(), pair.mod_revision.0);
                self.put(pair)
            }
            Kind::Delete => {
                self.revisions.remove(&pair.key.0);
                if pair.key.0 == self.map_key.as_bytes() {
                    return Some(Event::MapGone);
                }
                let name = self.node_of(pair)?;
                self.nodes.remove(&name)?;
                Some(Event::NodeDown { name })
            }
        }
    }

    /// Whether these are the keys and revisions that are known.
    pub(crate) fn is_current(&self, pairs: &[Pair]) -> bool {
        self.revisions == revisions(pairs)
    }

    fn put(&mut self, pair: &Pair) -> Option<Event> {
        if pair.key.0 == self.map_key.as_bytes() {
            return self.put_map(&pair.value.0);
        }
        let name = self.node_of(pair)?;
        match self.node(&name, &pair.value.0) {
            Ok(node) if self.nodes.get(&name) == Some(&node) => None,
            Ok(node) => {
                self.nodes.insert(name, node.clone());
                Some(Event::NodeUp(node))
            }
            Err(why) => Some(refused(&pair.key.0, why)),
        }
    }

    fn put_map(&mut self, value: &[u8]) -> Option<Event> {
        let map = BucketMap::from_json(value).and_then(|map| {
            let is_new = self
                .map
                .as_ref()
                .map_or(Ok(true), |current| map.follows(current))?;
            Ok(is_new.then(|| Arc::new(map)))
        });
        match map {
            Ok(None) => None,
            Ok(Some(map)) => {
                self.map = Some(Arc::clone(&map));
                Some(Event::Map(map))
            }
            Err(error) => Some(refused(self.map_key.as_bytes(), error.to_string())),
        }
    }

    fn node(&self, name: &str, value: &[u8]) -> Result<Node, String> {
        let value: NodeValue = serde_json::from_slice(value).map_err(|error| error.to_string())?;
        let node = Node {
            name: name.to_owned(),
            addresses: value.addresses,
        };
        node.check().map_err(|error| error.to_string())?;
        match self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(name) {
            true => Err(format!("there are {NODES_MAX} nodes already")),
            false => Ok(node),
        }
    }

    /// The name of the node whose key it is.
    fn node_of(&self, pair: &Pair) -> Option<String> {
        let name = pair.key.0.strip_prefix(self.nodes_prefix.as_bytes())?;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

fn revisions(pairs: &[Pair]) -> BTreeMap<Vec<u8>, i64> {
    let revision = |pair: &Pair| (pair.key.0.clone(), pair.mod_revision.0);
    pairs.iter().map(revision).collect()
}

fn refused(key: &[u8], why: String) -> Event {
    Event::Refused {
        key: String::from_utf8_lossy(key).chars().take(200).collect(),
        why,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::messages::{Bytes, Number};

    fn pair(key: &str, value: &str, revision: i64) -> Pair {
        Pair {
            key: Bytes::of(&format!("/millpond/c/{key}")),
            value: Bytes::of(value),
            mod_revision: Number(revision),
            ..Pair::default()
        }
    }

    fn map(version: u64) -> String {
        format!(r#"{{"version":{version},"buckets":2,"nodes":[{{"name":"a","addresses":["a:1"]}}]}}"#)
    }

    /// Events in short.
    fn short(events: &[Event]) -> Vec<String> {
        let short = |event: &Event| match event {
            Event::Map(map) => format!("map {}", map.version()),
            Event::MapGone => "no map".to_owned(),
            Event::NodeUp(node) => format!("{} at {}", node.name, node.addresses.join(",")),
            Event::NodeDown { name } => format!("{name} down"),
            Event::Refused { key, .. } => format!("{key} refused"),
            other => format!("{other:?}"),
        };
        events.iter().map(short).collect()
    }

    #[test]
    fn a_listing_says_what_differs_from_the_one_before() {
        let mut state = State::new("c");
        let mut check = |pairs: &[Pair], expected: &[&str]| {
            assert_eq!(short(&state.read(pairs)), expected);
            assert!(state.is_current(pairs));
            assert_eq!(
                state.read(pairs).len(),
                expected.iter().filter(|said| said.ends_with("refused")).count()
            );
        };
        let a = |port: u16, revision| pair("nodes/a", &format!(r#"{{"addresses":["a:{port}"]}}"#), revision);
        check(&[], &[]);
        check(&[pair("map", &map(2), 1), a(1, 2)], &["map 2", "a at a:1"]);
        check(&[pair("map", &map(2), 1), a(2, 3)], &["a at a:2"]);
        check(&[pair("map", &map(1), 4), a(2, 3)], &["/millpond/c/map refused"]);
        check(
            &[pair("map", "x", 5), pair("nodes/a", "x", 6)],
            &["/millpond/c/map refused", "/millpond/c/nodes/a refused"],
        );
        check(
            &[
                pair("other", "x", 5),
                pair("nodes/b", r#"{"addresses":["b:1"]}"#, 7),
            ],
            &["a down", "b at b:1", "no map"],
        );
        check(&[pair("map", &map(3), 8)], &["b down", "map 3"]);
    }

    #[test]
    fn changes_are_said_once_and_kept_for_the_comparison() {
        let mut state = State::new("c");
        let mut check = |kind, kv: Pair, expected: &[&str]| {
            let event = state.change(&Change { kind, kv });
            assert_eq!(short(event.as_slice()), expected);
        };
        let b = |revision| pair("nodes/b", r#"{"addresses":["b:1"]}"#, revision);
        check(Kind::Put, b(1), &["b at b:1"]);
        check(Kind::Put, b(2), &[]);
        check(Kind::Put, pair("map", &map(1), 3), &["map 1"]);
        check(Kind::Delete, pair("nodes/unknown", "", 4), &[]);
        check(Kind::Delete, pair("map", "", 5), &["no map"]);
        assert!(state.is_current(&[b(2)]));
        assert!(!state.is_current(&[b(1)]));
        assert!(!state.is_current(&[]));
    }

    #[test]
    fn nodes_are_bounded() {
        let mut state = State::new("c");
        let node = |n: usize| pair(&format!("nodes/n{n}"), r#"{"addresses":["a:1"]}"#, 1);
        let all: Vec<_> = (0..=NODES_MAX).map(node).collect();
        let events = state.read(&all);
        assert_eq!(
            short(&events[NODES_MAX..]),
            [format!("/millpond/c/nodes/n{NODES_MAX} refused")]
        );
    }
}
