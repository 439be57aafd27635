//! `nodes.token`: calls between servers are taken from those that have it, and from nobody else.

use super::cluster::Cluster;
use super::upserts::{check_replicas, firsts, upsert, upsert_call};
use crate::harness::Millpond;
use serde_json::{Value, json};

const OWN: &str = "token = \"of-the-nodes\"\n";

fn check(server: &Millpond, method: &str, call: &Value, expected: Result<(), &str>) {
    let (status, answer) = server.call(method, call);
    match expected {
        Ok(()) => assert_eq!(status, 200, "{method} {call}: {answer}"),
        Err(words) => {
            let code = answer["code"].as_u64();
            assert_eq!((status, code), (401, Some(30109)), "{method} {call}: {answer}");
            let ex = answer["ex"].as_str().unwrap();
            assert!(ex.contains(words) && ex.contains("nodes.token"), "{ex}");
        }
    }
}

#[test]
fn calls_between_servers_need_the_token_of_the_nodes() {
    let names = ["a", "b"];
    let cluster = Cluster::start_fresh(&names, 2, OWN);
    let proxy = cluster.proxy_with(OWN);
    for (value, server) in (1..)
        .map(f64::from)
        .zip([&proxy, cluster.node("a"), cluster.node("b")])
    {
        let answer = upsert(server, &upsert_call(&[1, 2, 3], value));
        assert_eq!(answer["replicas"], json!(2), "{answer}");
        check_replicas(&cluster, &names, &[1, 2, 3], Some(value));
    }
    // Each node asks the other one what it missed, and is answered.
    for name in names {
        cluster
            .node(name)
            .wait_for("millpond_nodes_unheard", |count| count == 0);
    }
    let sequence = upsert(&proxy, &upsert_call(&[1], 4.0))["sequence"]
        .as_u64()
        .unwrap();
    let mut copy = upsert_call(&[1], 5.0);
    copy["copy"] = json!({"map": 1, "time": sequence + 1, "origin": 1});
    let note =
        json!({"table": "films", "missed": {"nodes": ["b"], "sequence": 1, "time": sequence, "lease_ms": 1}});
    let missed = json!({"node": "b", "lease_ms": 1});
    let fresh = json!({"table": "films", "node": "b", "map": 1});
    for (method, call, key) in [
        ("features.upsert", copy, "node_token"),
        ("features.upsert", note, "node_token"),
        ("features.missed", missed, "_token"),
        ("features.fresh", fresh, "_token"),
    ] {
        let with = |token: &str| {
            let mut call = call.clone();
            call[key] = json!(token);
            call
        };
        let node = cluster.node("a");
        check(node, method, &call, Err("is missing"));
        check(node, method, &with("another"), Err("is wrong"));
        if key == "node_token" {
            assert_eq!(firsts(node, &[1], Some(1)), [Some(4.0)]);
        }
        check(node, method, &with("of-the-nodes"), Ok(()));
        if call.get("copy").is_some() {
            assert_eq!(firsts(node, &[1], Some(1)), [Some(5.0)]);
            upsert(&proxy, &upsert_call(&[1], 4.0));
        }
    }
}

#[test]
fn a_server_without_the_token_of_the_nodes_upserts_nothing_over_them() {
    let cluster = Cluster::start_fresh(&["a", "b"], 1, OWN);
    let proxy = cluster.proxy();
    let call = upsert_call(&[1, 2, 3, 4], 1.0);
    check(&proxy, "features.upsert", &call, Err("is missing"));
    assert_eq!(firsts(&proxy, &[1, 2], None), [Some(1.0), Some(2.0)]);
    // Lookups carry the caller's token alone.
    assert_eq!(firsts(&proxy, &[600], None), [None]);
}
