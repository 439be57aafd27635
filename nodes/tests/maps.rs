//! Bucket maps as they are written: what is read, and what is refused by name. Not where keys go: `split.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_nodes::{BucketMap, Error, MAP_BYTES_MAX, MapFile, NodeFile};
use proptest::prelude::*;

const THREE: &str = r#"nodes = [{ name = "a", addresses = ["a:1"] }, { name = "b", addresses = ["b:1"] },
                        { name = "c", addresses = ["c:1", "unix:/run/c"] }]"#;

fn refused(text: &str, message: &str) {
    match BucketMap::from_toml(&text.replace("THREE", THREE).replace("; ", "\n")) {
        Ok(map) => panic!("{text} was read as {map:?}"),
        Err(error) => assert!(error.to_string().contains(message), "{text}: {error}"),
    }
}

fn nodes_of(map: &BucketMap, bucket: u32) -> Vec<&str> {
    let nodes = map.replicas(bucket).iter();
    nodes
        .map(|index| map.node(*index).unwrap().name.as_str())
        .collect()
}

#[test]
fn the_examples_of_the_document_are_read() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/formats/bucket-map.md");
    let text = std::fs::read_to_string(document).unwrap();
    let block = |kind: &str| {
        let blocks = text.split("```").filter_map(|block| block.strip_prefix(kind));
        blocks.map(str::to_owned).collect::<Vec<_>>()
    };
    let toml: Vec<_> = block("toml\n")
        .iter()
        .map(|text| BucketMap::from_toml(text).unwrap())
        .collect();
    let json = BucketMap::from_json(block("json\n")[0].as_bytes()).unwrap();
    assert_eq!((toml.len(), block("json\n").len()), (2, 1));
    assert_eq!(toml[1], json, "the listed map in TOML and in JSON");
    assert_eq!(nodes_of(&json, 0), ["a", "c"]);
    assert_eq!(nodes_of(&json, 1024), ["b"]);
    assert_eq!(
        (0..1024).map(|bucket| toml[0].replicas(bucket).len()).max(),
        Some(2)
    );
}

#[test]
fn what_a_map_may_not_say_is_refused_by_name() {
    refused("", "missing field");
    refused(
        "version = 1; buckets = 4; speed = 1; THREE",
        "unknown field `speed`",
    );
    refused(
        "version = 0; buckets = 4; THREE",
        "version 0 of the bucket map is not within 1",
    );
    refused("version = -1; buckets = 4; THREE", "invalid value");
    refused(
        "version = 1; buckets = 0; THREE",
        "buckets = 0 is not within 1 to 65536",
    );
    refused("version = 1; buckets = 65537; THREE", "buckets = 65537 is not");
    refused("version = 1; buckets = 4; nodes = []", "no node");
    refused(
        "version = 1; buckets = 4; replicas = 0; THREE",
        "replicas = 0 is not within 1 to 3",
    );
    refused(
        "version = 1; buckets = 4; replicas = 4; THREE",
        "replicas = 4 is not within 1 to 3",
    );
    let node = |rest: &str, message| refused(&format!("version = 1; buckets = 4; nodes = [{rest}]"), message);
    node(r#"{ name = "", addresses = ["a:1"] }"#, "it has no name");
    node(
        r#"{ name = "a/b", addresses = ["a:1"] }"#,
        "\"a/b\": its name has another character",
    );
    node(
        &format!(r#"{{ name = "{}", addresses = ["a:1"] }}"#, "a".repeat(65)),
        "too long",
    );
    node(r#"{ name = "a", addresses = [] }"#, "node \"a\" has 0 addresses");
    node(
        r#"{ name = "a", addresses = ["a"] }"#,
        "node \"a\": address \"a\": it has no port",
    );
    let two = |rest: &str, message| {
        node(
            &format!(r#"{{ name = "a", addresses = ["a:1"] }}, {rest}"#),
            message,
        )
    };
    two(
        r#"{ name = "a", addresses = ["b:1"] }"#,
        "two nodes are called \"a\"",
    );
    two(
        r#"{ name = "b", addresses = ["a:1"] }"#,
        "\"a:1\" of node \"b\" is already that of node \"a\"",
    );
    two(
        r#"{ name = "b", addresses = ["b:1"], buckets = "0-3" }"#,
        "node \"a\" lists no buckets",
    );
}

#[test]
fn lists_of_buckets_that_do_not_make_a_map_are_refused_by_name() {
    let check = |a: &str, b: &str, message| {
        let node = |name, buckets| {
            format!("{{ name = \"{name}\", addresses = [\"{name}:1\"], buckets = \"{buckets}\" }}")
        };
        let nodes = format!("nodes = [{}, {}]", node("a", a), node("b", b));
        refused(&format!("version = 1; buckets = 8; {nodes}"), message);
    };
    check(
        "0-7",
        "8",
        "node \"b\" has bucket 8, and the map has buckets 0 to 7",
    );
    check("0-7", "5-99", "node \"b\" has bucket 8,");
    check("0-7", "12-99", "node \"b\" has bucket 12,");
    check("0-7,3", "", "node \"a\" has bucket 3 twice");
    check("0-2", "5-6", "buckets 3 to 4 are on no node (3 of 8 have none)");
    check("", "", "buckets 0 to 7 are on no node (8 of 8");
    check("0-7", "x", "node \"b\": buckets = \"x\": it is no number");
    check("0-7", "3-1", "its first bucket is after its last");
    refused(
        r#"version = 1; buckets = 1; replicas = 1; nodes = [{ name = "a", addresses = ["a:1"], buckets = "0" }]"#,
        "leave out one of the two",
    );
}

#[test]
fn limits_hold_before_anything_large_is_made() {
    let node = |n: usize| NodeFile {
        name: format!("n{n}"),
        addresses: vec![format!("n{n}:1")],
        buckets: Some("0".into()),
    };
    let file = |nodes: usize| MapFile {
        version: 1,
        buckets: 1,
        replicas: None,
        nodes: (0..nodes).map(node).collect(),
    };
    assert_eq!(BucketMap::new(&file(8)).map(|map| map.replicas(0).len()), Ok(8));
    assert_eq!(
        BucketMap::new(&file(9)),
        Err(Error::TooManyReplicas { bucket: 0 })
    );
    assert_eq!(
        BucketMap::new(&file(1025)),
        Err(Error::TooManyNodes { nodes: 1025 })
    );
    let mut many = file(1);
    many.nodes[0].addresses = (1..=17).map(|port| format!("a:{port}")).collect();
    assert!(matches!(
        BucketMap::new(&many),
        Err(Error::Addresses { addresses: 17, .. })
    ));
    let long = vec![b' '; MAP_BYTES_MAX + 1];
    assert!(matches!(BucketMap::from_json(&long), Err(Error::TooLong { .. })));
    assert!(matches!(
        BucketMap::from_json(&long[1..]),
        Err(Error::Unreadable(_))
    ));
}

proptest! {
    #[test]
    fn a_map_that_is_written_reads_as_the_same(buckets in 1_u64..300, nodes in 1_u64..9, replicas in 1_u64..4) {
        let file = MapFile {
            version: 7,
            buckets,
            replicas: Some(replicas.min(nodes)),
            nodes: (0..nodes)
                .map(|n| NodeFile { name: format!("n{n}"), addresses: vec![format!("n{n}:1")], buckets: None })
                .collect(),
        };
        let map = BucketMap::new(&file).unwrap();
        let read = BucketMap::from_json(map.to_json().unwrap().as_bytes()).unwrap();
        prop_assert_eq!((read.version(), read.buckets(), read.nodes()), (7, map.buckets(), map.nodes()));
        for bucket in 0..map.buckets() {
            let sorted = |map: &BucketMap| {
                let mut nodes = map.replicas(bucket).to_vec();
                nodes.sort();
                nodes
            };
            prop_assert_eq!(sorted(&map), sorted(&read));
        }
    }

    #[test]
    fn whatever_is_read_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), ranges in "[0-9,\\- ]{0,20}") {
        let _ = BucketMap::from_json(&bytes);
        let _ = BucketMap::from_toml(&String::from_utf8_lossy(&bytes));
        let json = format!(r#"{{"version":1,"buckets":9,"nodes":[{{"name":"a","addresses":["a:1"],"buckets":"{ranges}"}}]}}"#);
        if let Ok(map) = BucketMap::from_json(json.as_bytes()) {
            prop_assert!((0..9).all(|bucket| map.replicas(bucket).len() == 1));
        }
    }
}
