//! Splitting calls by node, against a model that looks at one key at a time.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_nodes::{BucketMap, NodeIndex, Split};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn map(nodes: usize, buckets: u32, replicas: usize) -> BucketMap {
    let node = |n| format!("{{ name = \"n{n}\", addresses = [\"n{n}:1\"] }}");
    let nodes: Vec<_> = (0..nodes).map(node).collect();
    let nodes = nodes.join(",");
    BucketMap::from_toml(&format!(
        "version = 1\nbuckets = {buckets}\nreplicas = {replicas}\nnodes = [{nodes}]"
    ))
    .unwrap()
}

/// One key after the other, with the replica that `pick` names.
fn model(map: &BucketMap, keys: &[u64], pick: usize) -> BTreeMap<NodeIndex, Vec<(u64, u32)>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (position, key) in keys.iter().enumerate() {
        let replicas = map.replicas(map.bucket(*key));
        let node = replicas[pick % replicas.len()];
        groups.entry(node).or_default().push((*key, position as u32));
    }
    groups
}

proptest! {
    #[test]
    fn calls_are_split_as_the_model_splits_them(
        shapes in proptest::collection::vec((1_usize..8, 1_u32..500, 1_usize..3), 1..3),
        calls in proptest::collection::vec((proptest::collection::vec(0_u64..1000, 0..200), any::<usize>()), 1..6),
    ) {
        // The same scratch for all maps and calls.
        let mut split = Split::default();
        for (nodes, buckets, replicas) in shapes {
            let map = map(nodes, buckets, replicas.min(nodes));
            for (keys, pick) in &calls {
                let mut asked = 0;
                split.split(&map, keys, |replicas| { asked += 1; replicas[pick % replicas.len()] }).unwrap();
                let found: BTreeMap<_, Vec<_>> = split
                    .groups()
                    .map(|group| (group.node, group.keys.iter().copied().zip(group.positions.iter().copied()).collect()))
                    .collect();
                prop_assert_eq!(found, model(&map, keys, *pick));
                let mut met: Vec<_> = keys.iter().map(|key| map.bucket(*key)).collect();
                met.sort();
                met.dedup();
                prop_assert_eq!(asked, met.len());
            }
        }
    }
}

#[test]
fn a_choice_that_is_no_replica_falls_to_the_first() {
    let map = map(3, 64, 1);
    let mut split = Split::default();
    let keys: Vec<u64> = (0..100).collect();
    let other = map.find("n2").unwrap();
    split.split(&map, &keys, |_| other).unwrap();
    let nodes: Vec<_> = split
        .groups()
        .map(|group| (group.node, group.keys.len()))
        .collect();
    let expected: Vec<_> = model(&map, &keys, 0)
        .into_iter()
        .map(|(node, keys)| (node, keys.len()))
        .collect();
    assert_eq!(nodes, expected);
}
