//! Lookups that their caller splits over nodes: `millpond call --map`, as one server that has all the rows answers them.

use super::cluster::{Cluster, KEYS, TOKEN, some_keys};
use crate::harness::{Millpond, millpond};
use millpond_engines_features::{Keys, Schema, write::Writer};
use serde_json::{Value, json};
use std::process::Output;

fn call(payload: &Value, options: &[&str]) -> Output {
    millpond()
        .args(["call", "features.lookup", &payload.to_string()])
        .args(["--deadline-ms", "60000"])
        .args(options)
        .output()
        .unwrap()
}

/// What the command prints, where it succeeds.
pub fn answered(payload: &Value, options: &[&str]) -> Value {
    let done = call(payload, options);
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{payload}: {stderr}");
    serde_json::from_slice(&done.stdout).unwrap()
}

fn refused(payload: &Value, options: &[&str], words: &str) {
    let done = call(payload, options);
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(
        !done.status.success() && stderr.contains(words),
        "{payload}: {stderr}"
    );
}

#[test]
fn a_caller_that_splits_keys_is_answered_what_one_server_with_all_rows_answers() {
    let cluster = Cluster::start(&["a", "b"], 1);
    let single = cluster.single();
    let map = cluster.path("map.toml").display().to_string();
    let options = ["--map", &map];
    let keys = some_keys(1, 100);
    let bags = json!({"table": "films", "keys": keys, "pool": "mean", "offsets": [0, 10, 37, 38, 100], "type": "f64"});
    for payload in [
        json!({"table": "films", "keys": keys}),
        json!({"table": "films", "keys": keys, "unique": true, "columns": ["version"]}),
        json!({"table": "films", "keys": [KEYS + 1], "type": "u8"}),
        json!({"table": "films", "keys": [], "pool": "sum", "offsets": [0, 0]}),
        json!({"lookups": [{"table": "films", "keys": [3]}, bags], "_token": TOKEN}),
        bags,
    ] {
        let (status, expected) = single.call("features.lookup", &payload);
        assert_eq!(status, 200, "{expected}");
        assert_eq!(answered(&payload, &options), expected, "{payload}");
    }
    refused(
        &json!({"table": "films", "texts": ["a"]}),
        &options,
        "keys that are numbers",
    );
    refused(&json!({"table": "none", "keys": [1]}), &options, "none");
    refused(
        &json!({"table": "films", "keys": [1]}),
        &["--map", "gone.toml"],
        "gone.toml",
    );
    let (_, answer) = cluster.node("b").call("features.inspect", &json!({}));
    assert_eq!(answer["node"], "b", "{answer}");
    let (_, answer) = single.call("features.inspect", &json!({}));
    assert!(answer.get("node").is_none(), "{answer}");
}

#[test]
fn texts_are_hashed_where_the_call_is_split() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema {
        keys: Keys::Text {
            slot: "word".to_owned(),
        },
        ..Schema::floats(1)
    };
    let mut writer = Writer::create(&folder.path().join("words"), "words", 3, schema, 2).unwrap();
    for (at, text) in ["one", "two", "three"].iter().enumerate() {
        writer.push_text(text, &[at as f32 + 1.0]).unwrap();
    }
    writer.finish().unwrap();
    let text = "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[features.words]\npath = \"words\"\n\
                [access.tokens.reader]\ntoken = \"a-secret\"\nmethods = [\"features.lookup\", \"features.inspect\"]\n";
    std::fs::write(folder.path().join("millpond.toml"), text).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let map = folder.path().join("map.toml");
    let text = format!(
        "version = 1\nbuckets = 16\nnodes = [{{ name = \"a\", addresses = [\"{}\"] }}]",
        server.addr
    );
    std::fs::write(&map, text).unwrap();
    let mut payload = json!({"table": "words", "texts": ["three", "none", "one"]});
    let options = ["--map", map.to_str().unwrap()];
    refused(&payload, &options, "token");
    // It opens what a node is asked about the table, too.
    payload["_token"] = json!("a-secret");
    let found = answered(&payload, &options);
    assert_eq!(found, server.call("features.lookup", &payload).1);
    assert_eq!(found["values"], json!([3.0, 0.0, 1.0]));
}
