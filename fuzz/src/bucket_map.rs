//! Bucket maps as etcd and configurations hold them: `nodes`, from a text to where keys go.
//!
//! The text is read as JSON and as TOML. What must hold: nothing panics; a map that was read has 1 to 8 different nodes for every
//! bucket; what it writes reads as the same places; and a split gives every key once, to a node of its bucket.

use millpond_nodes::{BucketMap, REPLICAS_MAX, Split};
use std::collections::BTreeSet;

/// Feeds texts; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn bucket_map(data: &[u8]) {
    if let Ok(map) = BucketMap::from_json(data) {
        check(&map);
    }
    if let Ok(map) = BucketMap::from_toml(&String::from_utf8_lossy(data)) {
        check(&map);
    }
}

/// The names of a bucket's nodes.
fn names(map: &BucketMap, bucket: u32) -> BTreeSet<&str> {
    let nodes = map.replicas(bucket).iter();
    nodes
        .filter_map(|index| map.node(*index))
        .map(|node| node.name.as_str())
        .collect()
}

fn check(map: &BucketMap) {
    // A map can be longer written out than its text was.
    let written = map
        .to_json()
        .ok()
        .map(|json| BucketMap::from_json(json.as_bytes()));
    if let Some(read) = &written {
        let read = read.as_ref().map(|read| (read.version(), read.nodes()));
        assert_eq!(read, Ok((map.version(), map.nodes())));
    }
    for bucket in 0..map.buckets() {
        let names_here = names(map, bucket);
        let replicas = map.replicas(bucket).len();
        assert!(
            names_here.len() == replicas && (1..=REPLICAS_MAX).contains(&replicas),
            "bucket {bucket}"
        );
        if let Some(Ok(read)) = &written {
            assert_eq!(names(read, bucket), names_here, "bucket {bucket}");
        }
    }
    check_split(map);
}

fn check_split(map: &BucketMap) {
    let keys: Vec<u64> = (0..200).map(|n| n * 0x0101_0101_0101 % 97).collect();
    let mut split = Split::default();
    let last = split.split(map, &keys, |nodes| nodes[nodes.len() - 1]);
    assert_eq!(last, Ok(()));
    let mut met = vec![false; keys.len()];
    for group in split.groups() {
        assert!(!group.keys.is_empty());
        for (key, position) in group.keys.iter().zip(group.positions) {
            let position = *position as usize;
            assert_eq!(keys[position], *key);
            assert!(map.replicas(map.bucket(*key)).contains(&group.node));
            assert!(
                !std::mem::replace(&mut met[position], true),
                "position {position} twice"
            );
        }
    }
    assert!(met.iter().all(|met| *met));
}
