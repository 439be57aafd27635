//! `features.upsert` over nodes: any server takes it, every replica has it, and of two the later one stays.

use super::cluster::{Cluster, KEYS};
use crate::harness::Millpond;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Numbers of a row.
pub const DIM: usize = 3;

/// Until a wait fails.
pub fn limit() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// An upsert of the same number in all of the keys' rows.
pub fn upsert_call(keys: &[u64], value: f64) -> Value {
    json!({"table": "films", "keys": keys, "values": vec![value; keys.len() * DIM]})
}

/// Upserts until it is acknowledged: a machine under load may be too slow for a call, which may be repeated.
pub fn upsert(server: &Millpond, call: &Value) -> Value {
    let until = limit();
    loop {
        let (status, answer) = server.call("features.upsert", call);
        if status == 200 {
            return answer;
        }
        assert!(status >= 500 && Instant::now() < until, "{status} {answer}");
    }
}

/// What a server answers to a lookup, once it has all of the keys. `map` asks a node for its own rows.
pub fn look_up(server: &Millpond, mut call: Value, map: Option<u64>) -> Value {
    if let Some(map) = map {
        call["map"] = json!(map);
    }
    let until = limit();
    loop {
        let (status, answer) = server.call("features.lookup", &call);
        if status == 200 && answer.get("missing").is_none() {
            return answer;
        }
        let may_come = status == 200 || status == 503;
        assert!(may_come && Instant::now() < until, "{status} {answer}");
    }
}

/// Whether a key was found.
pub fn is_found(answer: &Value, at: usize) -> bool {
    answer["found"][at / 8].as_u64().unwrap() >> (at % 8) & 1 == 1
}

/// The first numbers of keys' rows as a server answers them, found or not; see [`look_up`].
pub fn firsts(server: &Millpond, keys: &[u64], map: Option<u64>) -> Vec<Option<f64>> {
    let answer = look_up(server, json!({"table": "films", "keys": keys}), map);
    let rows = answer["values"].as_array().unwrap().chunks(DIM).enumerate();
    rows.map(|(at, row)| is_found(&answer, at).then(|| row[0].as_f64().unwrap()))
        .collect()
}

/// The keys that a node holds.
pub fn held(cluster: &Cluster, name: &str, keys: &[u64]) -> Vec<u64> {
    let map = cluster.map();
    let node = map.find(name).unwrap();
    keys.iter().copied().filter(|key| map.holds(node, *key)).collect()
}

/// Whether every replica has that row of all of the keys that it holds.
pub fn check_replicas(cluster: &Cluster, names: &[&str], keys: &[u64], expected: Option<f64>) {
    for name in names {
        let held = held(cluster, name, keys);
        let found = firsts(cluster.node(name), &held, Some(1));
        assert!(found.iter().all(|first| *first == expected), "{name}: {found:?}");
    }
}

#[test]
fn an_upsert_by_any_server_is_on_every_replica() {
    let names = ["a", "b", "c"];
    let cluster = Cluster::start_fresh(&names, 2, "");
    let proxy = cluster.proxy();
    let servers = [&proxy, cluster.node("a"), cluster.node("b"), cluster.node("c")];
    let keys: Vec<u64> = (10..60).chain([KEYS + 7, KEYS + 8]).collect();
    for (value, server) in (1..).map(f64::from).zip(servers) {
        let answer = upsert(server, &upsert_call(&keys, value));
        assert_eq!(
            (&answer["replicas"], &answer["durability"]),
            (&json!(2), &json!("logged")),
            "{answer}"
        );
        for other in servers {
            assert_eq!(firsts(other, &keys, None), vec![Some(value); keys.len()]);
        }
        check_replicas(&cluster, &names, &keys, Some(value));
    }
    upsert(&proxy, &json!({"table": "films", "remove": keys}));
    for other in servers {
        assert_eq!(firsts(other, &keys, None), vec![None; keys.len()]);
    }
    assert_eq!(firsts(&proxy, &[3], None), [Some(3.0)]);
}

#[test]
fn of_two_servers_that_write_the_same_keys_one_row_stays_everywhere() {
    let names = ["a", "b", "c"];
    let cluster = Cluster::start_fresh(&names, 2, "");
    let proxy = cluster.proxy();
    let keys: Vec<u64> = (0..40).collect();
    std::thread::scope(|scope| {
        for (server, first) in [
            (&proxy, 1000),
            (cluster.node("a"), 2000),
            (cluster.node("b"), 3000),
        ] {
            let keys = &keys;
            scope.spawn(move || {
                for value in first..first + 30 {
                    upsert(server, &upsert_call(keys, f64::from(value)));
                }
            });
        }
    });
    let rows = firsts(&proxy, &keys, None);
    for name in names {
        let held = held(&cluster, name, &keys);
        let expected: Vec<Option<f64>> = held.iter().map(|key| rows[*key as usize]).collect();
        assert_eq!(firsts(cluster.node(name), &held, Some(1)), expected, "{name}");
    }
    // Whoever is last has the last word, whatever the clocks of the servers say.
    upsert(cluster.node("c"), &upsert_call(&keys, 7.0));
    check_replicas(&cluster, &names, &keys, Some(7.0));
}

#[test]
fn what_reaches_too_few_replicas_is_an_error_that_names_the_node() {
    let cluster = Cluster::start_fresh(&["a", "b"], 2, "");
    let lenient = cluster.proxy_with("upsert_acks = 1\n");
    cluster.node("a").signal("KILL");
    let keys: Vec<u64> = (0..20).collect();
    let until = limit();
    loop {
        let (status, answer) = cluster
            .node("b")
            .call("features.upsert", &upsert_call(&keys, 5.0));
        let ex = answer["ex"].as_str().unwrap_or_default();
        assert_ne!(status, 200, "{answer}");
        let words = [
            "20 of 20 keys",
            "all of their replicas",
            "node \"a\"",
            "may have the upsert",
        ];
        if words.iter().all(|word| ex.contains(word)) {
            break;
        }
        assert!(Instant::now() < until, "{answer}");
    }
    let answer = upsert(&lenient, &upsert_call(&keys, 6.0));
    assert_eq!(answer["replicas"], json!(1), "{answer}");
    assert_eq!(firsts(&lenient, &keys, None), vec![Some(6.0); 20]);
    lenient.wait_for("millpond_nodes_upserts_without_total", |count| count > 0);
    cluster
        .node("b")
        .wait_for("millpond_nodes_missing", |count| count == 1);
}

#[test]
fn what_is_wrong_is_refused_by_name() {
    let cluster = Cluster::start_fresh(&["a", "b"], 1, "");
    let proxy = cluster.proxy();
    let far = (u64::MAX >> 17) / 2;
    let check = |server: &Millpond, call: Value, words: &[&str]| {
        let (status, answer) = server.call("features.upsert", &call);
        let ex = answer["ex"].as_str().unwrap_or_default();
        assert!(
            status != 200 && words.iter().all(|word| ex.contains(word)),
            "{status} {answer}"
        );
    };
    for server in [&proxy, cluster.node("a")] {
        let mut partial = upsert_call(&[1], 1.0);
        partial["columns"] = json!(["version"]);
        check(server, partial, &["columns", "several servers", "films"]);
        let mut uneven = upsert_call(&[1, 2], 1.0);
        uneven["values"] = json!([1.0]);
        check(server, uneven, &["values", "2 keys", "1 numbers"]);
        let mut narrow = upsert_call(&[1], 1.0);
        narrow["values"] = json!([1.0, 2.0]);
        check(server, narrow, &["3 for each of 1 keys"]);
        check(
            server,
            json!({"table": "films", "keys": []}),
            &["at least one key"],
        );
    }
    let mut copy = upsert_call(&[1], 1.0);
    copy["copy"] = json!({"map": 1, "time": far << 16, "origin": 1});
    check(cluster.node("a"), copy.clone(), &["60 s ahead", "node \"a\""]);
    let (status, answer) = cluster.node("a").call("features.upsert", &copy);
    assert_eq!((status, answer["code"].as_u64()), (503, Some(30117)), "{answer}");
    // It moves no clock: upserts of this server are taken by the others.
    upsert(cluster.node("a"), &upsert_call(&[1, 2, 3, 4], 1.0));
    copy["copy"]["map"] = json!(9);
    check(
        cluster.node("a"),
        copy.clone(),
        &["node \"a\"", "version 1", "version 9"],
    );
    check(&cluster.single(), copy, &["not spread here"]);
}
