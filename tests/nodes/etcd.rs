//! Servers that follow their map in a real etcd, and register there.

#[path = "../../membership/tests/follow/etcd.rs"]
#[allow(dead_code)]
mod server;

use super::client::answered;
use super::cluster::{Cluster, check_rows, some_keys, write_map};
use crate::harness::Millpond;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millpond_membership::{Options, publish};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn wait_for_line(log: &std::path::Path, words: &str) {
    while !std::fs::read_to_string(log).unwrap_or_default().contains(words) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn look_up(server: &Millpond) {
    for seed in 0..20 {
        let keys = some_keys(seed, 50);
        let (status, answer) = server.call("features.lookup", &json!({"table": "films", "keys": keys}));
        assert_eq!(status, 200, "{answer}");
        check_rows(&keys, &answer);
    }
}

#[test]
fn maps_come_from_etcd_and_stay_while_it_stands_still() {
    let Some(etcd) = server::Etcd::start("nodes::etcd") else {
        return;
    };
    let options = Options::new([etcd.url()], "films");
    let mut cluster = Cluster::start(&[], 1);
    let section = format!(
        "[nodes.etcd]\nendpoints = [\"{}\"]\ncluster = \"films\"\n",
        etcd.url()
    );
    // Without a map nothing is answered of the table, and it says why.
    let proxy = cluster.proxy_in(&section);
    let (status, answer) = proxy.call("features.lookup", &json!({"table": "films", "keys": [1]}));
    assert_eq!((status, &answer["code"]), (503, &json!(30116)), "{answer}");
    write_map(cluster.folder.path(), 1, &["a", "b"], 1);
    for name in ["a", "b"] {
        cluster.make(name, 1);
        cluster.join(name, &format!("name = \"{name}\"\n{section}"));
    }
    assert!(publish(&options, &cluster.map()).unwrap());
    for server in cluster.nodes.iter().chain([&proxy]) {
        server.wait_for_metric("millpond_nodes_map_version 1");
    }
    let log = cluster.path("proxy").join("log");
    for name in ["a", "b"] {
        wait_for_line(&log, &format!("a node is up node={name:?}"));
    }
    look_up(&proxy);
    etcd.signal(Signal::STOP);
    look_up(&proxy);
    look_up(cluster.node("a"));
    etcd.signal(Signal::CONT);
    // A node that stops leaves before its lease ends.
    let b = cluster.nodes.pop().unwrap();
    assert!(b.terminate().success());
    wait_for_line(&log, "a node is down node=\"b\"");
    write_map(cluster.folder.path(), 2, &["a"], 1);
    assert!(publish(&options, &cluster.map()).unwrap());
    proxy.wait_for_metric("millpond_nodes_map_version 2");
    let (status, answer) = proxy.call("features.lookup", &json!({"table": "films", "keys": [1, 2, 3]}));
    assert!(status == 200 && answer.get("missing").is_none(), "{answer}");
}

#[test]
fn a_node_whose_lease_has_ended_is_asked_last_and_clients_follow_etcd() {
    let Some(etcd) = server::Etcd::start("nodes::etcd") else {
        return;
    };
    let options = Options::new([etcd.url()], "films");
    let mut cluster = Cluster::start(&[], 1);
    let section = format!(
        "hedge_permille = 0\n[nodes.etcd]\nendpoints = [\"{}\"]\ncluster = \"films\"\nlease_ttl_s = 5\n",
        etcd.url()
    );
    let proxy = cluster.proxy_in(&section);
    write_map(cluster.folder.path(), 1, &["a", "b"], 2);
    for name in ["a", "b"] {
        cluster.make(name, 1);
        cluster.join(name, &format!("name = \"{name}\"\n{section}"));
    }
    assert!(publish(&options, &cluster.map()).unwrap());
    for server in cluster.nodes.iter().chain([&proxy]) {
        server.wait_for_metric("millpond_nodes_map_version 1");
    }
    let log = cluster.path("proxy").join("log");
    for name in ["a", "b"] {
        wait_for_line(&log, &format!("a node is up node={name:?}"));
    }
    // One that splits its keys has map and nodes from there too.
    let payload = json!({"table": "films", "keys": some_keys(7, 50)});
    let found = answered(&payload, &["--etcd", &etcd.url(), "--cluster", "films"]);
    check_rows(&some_keys(7, 50), &found);
    cluster.node("b").signal("STOP");
    wait_for_line(&log, "a node is down node=\"b\"");
    // It would answer nothing; nobody waits for it.
    look_up(&proxy);
    let (_, page) = proxy.admin_get("/metrics");
    assert!(
        page.contains("millpond_node_calls_total{node=\"b\"} 0\n"),
        "{page}"
    );
    cluster.node("b").signal("CONT");
    cluster.node("a").signal("KILL");
    look_up(&proxy);
}

/// Whether etcd has both nodes under leases that have not ended.
fn has_both(etcd: &server::Etcd) -> bool {
    let ask = |path: &str, body: Value| -> Value {
        let answer = etcd.post(path, &body.to_string());
        serde_json::from_str(&answer).unwrap()
    };
    let prefix = |text: &str| STANDARD.encode(text);
    // '0' is the character behind '/'.
    let range =
        json!({"key": prefix("/millpond/films/nodes/"), "range_end": prefix("/millpond/films/nodes0")});
    let found = ask("/v3/kv/range", range);
    let nodes = found["kvs"].as_array().cloned().unwrap_or_default();
    let is_live = |node: &Value| {
        let lease = ask("/v3/lease/timetolive", json!({"ID": node["lease"]}));
        let ttl = lease["TTL"].as_str().and_then(|ttl| ttl.parse::<i64>().ok());
        ttl.is_some_and(|ttl| ttl > 0)
    };
    nodes.len() == 2 && nodes.iter().all(is_live)
}

/// Calls go on by the last map for all of that time, and then the nodes register again.
fn lookups_go_on_without_etcd(time: Duration) {
    let Some(etcd) = server::Etcd::start("nodes::etcd") else {
        return;
    };
    let options = Options::new([etcd.url()], "films");
    let mut cluster = Cluster::start(&[], 1);
    let section = format!(
        "[nodes.etcd]\nendpoints = [\"{}\"]\ncluster = \"films\"\nlease_ttl_s = {}\ncall_timeout_ms = 500\n",
        etcd.url(),
        LEASE_TTL.as_secs()
    );
    let proxy = cluster.proxy_in(&section);
    write_map(cluster.folder.path(), 1, &["a", "b"], 1);
    for name in ["a", "b"] {
        cluster.make(name, 1);
        cluster.join(name, &format!("name = \"{name}\"\n{section}"));
    }
    assert!(publish(&options, &cluster.map()).unwrap());
    let servers = || cluster.nodes.iter().chain([&proxy]);
    servers().for_each(|server| server.wait_for_metric("millpond_nodes_map_version 1"));
    let log = cluster.path("proxy").join("log");
    for name in ["a", "b"] {
        wait_for_line(&log, &format!("a node is up node={name:?}"));
    }
    let downs = || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.matches("a node is down").count()
    };
    let before = downs();
    etcd.signal(Signal::STOP);
    let until = Instant::now() + time;
    std::thread::scope(|scope| {
        for server in servers() {
            scope.spawn(move || {
                while Instant::now() < until {
                    look_up(server);
                }
            });
        }
    });
    assert_eq!(downs(), before, "nothing of etcd says that a node is down");
    servers().for_each(|server| server.wait_for_metric("millpond_nodes_map_version 1"));
    etcd.signal(Signal::CONT);
    // Their leases may have ended meanwhile.
    while !has_both(&etcd) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // All follow it again, and the nodes are in use.
    write_map(cluster.folder.path(), 2, &["a", "b"], 1);
    assert!(publish(&options, &cluster.map()).unwrap());
    servers().for_each(|server| server.wait_for_metric("millpond_nodes_map_version 2"));
    servers().for_each(look_up);
}

/// The shortest that a lease may be.
const LEASE_TTL: Duration = Duration::from_secs(2);

#[test]
fn lookups_go_on_while_etcd_stands_still_for_two_leases() {
    lookups_go_on_without_etcd(LEASE_TTL * 2 + LEASE_TTL / 2);
}

#[test]
#[ignore = "takes more than a minute"]
fn lookups_go_on_while_etcd_stands_still_for_a_minute() {
    lookups_go_on_without_etcd(Duration::from_secs(60));
}
