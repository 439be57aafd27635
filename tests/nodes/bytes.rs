//! Tables of bytes over nodes: whole rows go to every replica, and lookups put them together, as numbers.

use super::cluster::Cluster;
use super::upserts::{held, is_found, look_up, upsert};
use crate::harness::Millpond;
use millpond_engines_features::{Column, Numbers, Schema, write::Writer};
use serde_json::{Value, json};
use std::path::Path;

/// A table without rows, whose rows are bytes: so many, or 0 for any number.
fn make(dir: &Path, dim: usize) {
    let numbers = match dim {
        0 => Numbers::VaryingBytes,
        _ => Numbers::Bytes,
    };
    let column = Column {
        name: "doc".to_owned(),
        numbers,
        dim,
    };
    let schema = Schema {
        columns: vec![column],
        ..Schema::floats(1)
    };
    Writer::create(dir, "films", 1, schema, 2)
        .unwrap()
        .finish()
        .unwrap();
}

/// The row of a key: of its own length, or of `dim` bytes.
fn row(key: u64, round: u64, dim: usize) -> String {
    let length = if dim == 0 { (key * 5 % 23) as usize } else { dim };
    format!("{round}{key:022}").chars().rev().take(length).collect()
}

fn upsert_call(keys: &[u64], round: u64, dim: usize) -> Value {
    let rows: Vec<String> = keys.iter().map(|key| row(*key, round, dim)).collect();
    let mut call = json!({"table": "films", "keys": keys, "rows": rows.concat()});
    if dim == 0 {
        let ends = rows.iter().scan(0, |end, row| {
            *end += row.len();
            Some(*end)
        });
        call["offsets"] = json!(std::iter::once(0).chain(ends).collect::<Vec<_>>());
    }
    call
}

/// The rows of keys, once a server answers all of them.
fn rows(server: &Millpond, keys: &[u64], map: Option<u64>) -> Vec<Option<String>> {
    let call = json!({"table": "films", "keys": keys, "type": "u8"});
    rows_of(&look_up(server, call, map), keys.len())
}

fn rows_of(answer: &Value, count: usize) -> Vec<Option<String>> {
    let numbers = |key: &str| {
        let numbers = answer[key].as_array().unwrap().iter();
        numbers
            .map(|number| number.as_u64().unwrap() as usize)
            .collect::<Vec<_>>()
    };
    let values = numbers("values");
    let dim = answer["dim"].as_u64().unwrap() as usize;
    let offsets = match answer.get("offsets") {
        Some(_) => numbers("offsets"),
        None => (0..=count).map(|at| at * dim).collect(),
    };
    let row = |at: usize| {
        values[offsets[at]..offsets[at + 1]]
            .iter()
            .map(|byte| *byte as u8 as char)
    };
    (0..count)
        .map(|at| is_found(answer, at).then(|| row(at).collect()))
        .collect()
}

fn expected(keys: &[u64], round: u64, dim: usize) -> Vec<Option<String>> {
    keys.iter().map(|key| Some(row(*key, round, dim))).collect()
}

fn check_replicas(cluster: &Cluster, names: &[&str], keys: &[u64], round: u64, dim: usize) {
    for name in names {
        let held = held(cluster, name, keys);
        let found = rows(cluster.node(name), &held, Some(1));
        assert_eq!(found, expected(&held, round, dim), "{name}");
    }
}

#[test]
fn whole_rows_of_bytes_are_on_every_replica_and_caught_up_with() {
    let names = ["a", "b", "c"];
    let more = "upsert_acks = 1\ncatch_up_ms_max = 120000\n";
    for dim in [0, 9] {
        let mut cluster = Cluster::start_fresh_of(&names, 2, more, |dir| make(dir, dim));
        let proxy = cluster.proxy();
        let keys: Vec<u64> = (0..50).collect();
        for (round, server) in (1..).zip([&proxy, cluster.node("a"), cluster.node("b")]) {
            let answer = upsert(server, &upsert_call(&keys, round, dim));
            assert_eq!(answer["replicas"], json!(2), "{answer}");
            for other in [&proxy, cluster.node("b"), cluster.node("c")] {
                assert_eq!(rows(other, &keys, None), expected(&keys, round, dim));
            }
            check_replicas(&cluster, &names, &keys, round, dim);
        }
        // Each key once, in an order of its own, some of them not there.
        let mut call = json!({"table": "films", "keys": [49, 77, 3, 49], "type": "u8", "unique": true});
        let (_, answer) = proxy.call("features.lookup", &call);
        let found = rows_of(&answer, 3);
        assert_eq!(
            found,
            [Some(row(49, 3, dim)), None, Some(row(3, 3, dim))],
            "{answer}"
        );
        call["keys"] = json!([]);
        let (status, answer) = proxy.call("features.lookup", &call);
        assert_eq!((status, &answer["values"]), (200, &json!([])), "{answer}");
        cluster.node("a").signal("KILL");
        let mut call = upsert_call(&keys[..49], 7, dim);
        call["remove"] = json!([49]);
        upsert(cluster.node("b"), &call);
        cluster.restart("a");
        check_replicas(&cluster, &names, &keys[..49], 7, dim);
        assert_eq!(rows(cluster.node("c"), &[49], None), [None]);
        let missed = held(&cluster, "a", &keys).len() as u64;
        let node = cluster.node("a");
        node.wait_for("millpond_nodes_caught_up_rows_total", |count| count >= missed);
    }
}

#[test]
fn rows_of_bytes_are_read_from_the_log_again_and_bad_ones_refused() {
    for (dim, wrong, words) in [
        (0, json!({"keys": [1, 2], "rows": "abc"}), ["rows", "2 keys"]),
        (9, json!({"keys": [1], "rows": "abc"}), ["rows", "9 bytes"]),
    ] {
        let mut cluster =
            Cluster::start_fresh_of(&["a", "b"], 2, "catch_up_ms_max = 100\n", |dir| make(dir, dim));
        let keys: Vec<u64> = (0..30).collect();
        upsert(cluster.node("a"), &upsert_call(&keys, 1, dim));
        for name in ["a", "b"] {
            cluster.node(name).signal("KILL");
        }
        cluster.restart("b");
        assert_eq!(rows(cluster.node("b"), &keys, Some(1)), expected(&keys, 1, dim));
        let mut call = wrong;
        call["table"] = json!("films");
        let (status, answer) = cluster.node("b").call("features.upsert", &call);
        let ex = answer["ex"].as_str().unwrap_or_default();
        assert!(
            status == 400 && words.iter().all(|word| ex.contains(word)),
            "{status} {answer}"
        );
    }
}
