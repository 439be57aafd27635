//! Servers that follow their map in a real etcd, and register there.

#[path = "../../membership/tests/follow/etcd.rs"]
#[allow(dead_code)]
mod server;

use super::client::answered;
use super::cluster::{Cluster, check_rows, some_keys, write_map};
use crate::harness::Millpond;
use millpond_membership::{Options, publish};
use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;

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
