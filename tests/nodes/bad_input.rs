//! Calls and configurations of a cluster that cannot be served.

use super::cluster::Cluster;
use crate::harness::{Millpond, millpond};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[test]
fn a_call_that_is_wrong_is_answered_as_one_server_answers_it() {
    let cluster = Cluster::start(&["a", "b"], 1);
    let (proxy, node) = (cluster.proxy(), cluster.node("a"));
    let check = |server: &Millpond, payload: Value, status: u16, words: &str| {
        let (found, answer) = server.call("features.lookup", &payload);
        let ex = answer["ex"].as_str().unwrap_or_default();
        assert!(
            found == status && ex.contains(words),
            "{payload}: {found} {answer}"
        );
    };
    for server in [&proxy, node] {
        check(server, json!({"table": "nowhere", "keys": [1]}), 404, "nowhere");
        check(
            server,
            json!({"table": "films", "keys": [1], "columns": ["no"]}),
            400,
            "no",
        );
        check(
            server,
            json!({"table": "films", "keys": [1], "map": 0}),
            503,
            "does not know version 0",
        );
        check(
            server,
            json!({"table": "films", "keys": [1], "pool": "sum"}),
            400,
            "offsets",
        );
    }
    check(
        &proxy,
        json!({"table": "films", "texts": ["a"]}),
        400,
        "cannot hash texts",
    );
    check(
        node,
        json!({"table": "films", "texts": ["a"]}),
        400,
        "keys that are numbers",
    );
    // Their rows are more than an answer holds, and few enough for a busy machine. What each node answers is not.
    drop(proxy);
    let proxy = Millpond::start(&cluster.path("proxy"), &["server.frame_bytes_max=65536"]);
    let too_many: Vec<u64> = (0..6_000).collect();
    check(&proxy, json!({"table": "films", "keys": too_many}), 413, "");
    // So are the rows of bags, however few keys they have.
    let mut offsets = vec![0; 6_000];
    offsets.push(1);
    let bags = json!({"table": "films", "keys": [1], "pool": "sum", "offsets": offsets});
    check(&proxy, bags.clone(), 413, "72000 bytes");
    let mut halves = bags;
    halves["type"] = json!("f16");
    let (status, answer) = proxy.call("features.lookup", &halves);
    assert_eq!(status, 200, "{answer}");
    let two = json!({"lookups": [halves, halves]});
    check(&proxy, two, 413, "72000 bytes");
    // So is what says, with `unique`, which row each key has.
    let repeated = |count: usize, row_type: &str| json!({"table": "films", "keys": vec![1; count], "unique": true, "type": row_type});
    check(&proxy, repeated(20_000, "f32"), 413, "80012 bytes");
    let (status, answer) = proxy.call("features.lookup", &repeated(9_000, "none"));
    assert_eq!(status, 200, "{answer}");
    let two = json!({"lookups": [repeated(9_000, "none"), repeated(9_000, "none")]});
    check(&proxy, two, 413, "72000 bytes");
}

#[test]
fn a_configuration_that_cannot_be_spread_does_not_start() {
    let check = |text: &str, words: &str| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("millpond.toml"), text).unwrap();
        let Err((status, stderr)) = Millpond::try_start(folder.path(), &[]) else {
            panic!("it started with {text}")
        };
        assert!(!status.success() && stderr.contains(words), "{stderr}");
    };
    check("[features.a]\nspread = true\n", "write a section [nodes]");
    check(
        "[features.a]\nspread = true\n[nodes]\nmap = \"map.toml\"\n",
        "map.toml",
    );
    check("[features.a]\n", "features.a.path is missing");
}

/// Without a `ttl_ms` fresh rows over nodes stay until somebody folds them.
#[test]
fn an_overlay_over_nodes_that_only_folds_empty_is_warned_of() {
    const WORDS: &str = "(millpond features fold), or set features.films.overlay.ttl_ms";
    let cluster = Cluster::start_fresh(&["a"], 1, "");
    let checked = || {
        let mut command = millpond();
        let file = cluster.path("a").join("millpond.toml");
        let done = command.arg("check-config").arg(&file).output().unwrap();
        assert!(done.status.success());
        String::from_utf8(done.stdout).unwrap()
    };
    let said = checked();
    assert!(
        said.contains(": good\n") && said.contains("but: features.films.overlay has no ttl_ms"),
        "{said}"
    );
    assert!(said.contains(WORDS), "{said}");
    let until = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(cluster.path("a").join("log"))
        .unwrap()
        .contains(WORDS)
    {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
    let file = cluster.path("a").join("millpond.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let overlay = "[features.films.overlay]\n";
    std::fs::write(&file, text.replace(overlay, &format!("{overlay}ttl_ms = 1000\n"))).unwrap();
    let said = checked();
    assert!(!said.contains("but:"), "{said}");
}
