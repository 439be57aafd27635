//! Nodes that are called by TLS: certificates of both sides, and what is said where they do not agree.

use super::cluster::{Cluster, PATIENCE, check_rows, some_keys, write_map_of};
use super::upserts::{firsts, upsert, upsert_call};
use crate::harness::Millpond;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// Certificates of some names for `localhost`, their keys, and a file of all of them as authorities.
fn make_certificates(folder: &Path, names: &[&str]) {
    let mut all = String::new();
    for name in names {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        all += &made.cert.pem();
        std::fs::write(folder.join(format!("{name}.pem")), made.cert.pem()).unwrap();
        std::fs::write(
            folder.join(format!("{name}.key")),
            made.signing_key.serialize_pem(),
        )
        .unwrap();
    }
    std::fs::write(folder.join("all.pem"), all).unwrap();
}

/// Of a server that shows that certificate and trusts those of that file.
fn section(folder: &Path, name: &str, ca: &str) -> String {
    let folder = folder.display();
    format!(
        "[nodes.tls]\nca = \"{folder}/{ca}\"\ncertificate = \"{folder}/{name}.pem\"\nprivate_key = \"{folder}/{name}.key\"\n"
    )
}

/// Of a node, which asks for certificates.
fn node_section(folder: &Path, name: &str) -> String {
    let files = folder.display();
    format!(
        "{}[server.tls]\nlisten = \"127.0.0.1:0\"\ncertificate = \"{files}/{name}.pem\"\nprivate_key = \"{files}/{name}.key\"\n\
         client_certificates = \"{files}/all.pem\"\n",
        section(folder, name, "all.pem")
    )
}

/// Each call is repeated until all nodes answer: a net thread connects again to one that it has lost after a while.
fn look_up(server: &Millpond) {
    let until = Instant::now() + Duration::from_secs(60);
    for seed in 0..20 {
        let keys = some_keys(seed, 50);
        loop {
            let (status, answer) = server.call("features.lookup", &json!({"table": "films", "keys": keys}));
            if status == 200 && answer.get("missing").is_none() {
                check_rows(&keys, &answer);
                break;
            }
            assert!(Instant::now() < until, "{answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Calls until the error says so.
fn wait_for_error(server: &Millpond, words: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, answer) = server.call("features.lookup", &json!({"table": "films", "keys": [1]}));
        let ex = answer["ex"].as_str().unwrap_or_default();
        if ex.contains(words) && ex.contains("node \"") {
            return assert_eq!(answer["code"], 30116, "{answer}");
        }
        assert!(Instant::now() < until, "{words} is not in {answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn tls_port(server: &Millpond) -> &str {
    server.tls.as_deref().unwrap()
}

/// Writes a map of "a" and "b" at those ports of the host, with as many replicas as before; all servers go by it then.
fn publish(
    cluster: &Cluster,
    proxy: Option<&Millpond>,
    version: u64,
    host: &str,
    port: fn(&Millpond) -> &str,
) {
    let address = |name: &str| {
        let (_, port) = port(cluster.node(name)).rsplit_once(':').unwrap();
        format!("tls://{host}:{port}")
    };
    let nodes = [("a", address("a")), ("b", address("b"))];
    let replicas = cluster.map().replicas(0).len();
    write_map_of(cluster.folder.path(), version, &nodes, replicas);
    for server in cluster.nodes.iter().chain(proxy) {
        server.wait_for_metric(&format!("millpond_nodes_map_version {version}"));
    }
}

/// A cluster that has no server yet. Ports are known once they are bound: until then the nodes of its map are elsewhere.
fn unplaced(replicas: usize) -> Cluster {
    let cluster = Cluster::start(&[], 1);
    let nodes = [("a", "127.0.0.1:1".into()), ("b", "127.0.0.1:2".into())];
    write_map_of(cluster.folder.path(), 1, &nodes, replicas);
    cluster
}

#[test]
fn nodes_are_called_by_tls_and_an_error_says_what_keeps_them_apart() {
    let files = tempfile::tempdir().unwrap();
    let folder = files.path();
    make_certificates(folder, &["a", "b", "stranger"]);
    let mut cluster = unplaced(1);
    for name in ["a", "b"] {
        cluster.make(name, 1);
        let map = format!("map = \"../map.toml\"\nname = \"{name}\"\n");
        cluster.join(name, &(map + &node_section(folder, name)));
    }
    // Who signs the nodes' certificates is not in it yet.
    std::fs::copy(folder.join("stranger.pem"), folder.join("trusted.pem")).unwrap();
    let proxy = cluster.proxy_with(&section(folder, "stranger", "trusted.pem"));
    publish(&cluster, Some(&proxy), 2, "localhost", tls_port);
    look_up(cluster.node("a"));
    look_up(cluster.node("b"));
    wait_for_error(&proxy, "name its authority in nodes.tls.ca");
    // Files that have changed are read again.
    std::fs::copy(folder.join("all.pem"), folder.join("trusted.pem")).unwrap();
    look_up(&proxy);
    publish(&cluster, Some(&proxy), 3, "127.0.0.1", tls_port);
    wait_for_error(&proxy, "or write that name as nodes.tls.server_name");
    publish(&cluster, Some(&proxy), 4, "localhost", |server| &server.addr);
    wait_for_error(&proxy, "address a port that speaks TLS");
}

#[test]
fn a_node_that_is_called_by_tls_alone_has_what_it_missed_before_it_answers() {
    let files = tempfile::tempdir().unwrap();
    let folder = files.path();
    make_certificates(folder, &["a", "b", "proxy"]);
    let mut cluster = unplaced(2);
    // One replica is enough to go on without the other, which a start waits for.
    let lenient = format!("{PATIENCE}upsert_acks = 1\n");
    for name in ["a", "b"] {
        // Nobody is at the other's address: that is not waited for.
        let more = format!("{lenient}catch_up_ms_max = 1\n{}", node_section(folder, name));
        cluster.join_fresh(name, &more);
        let more = format!(
            "{lenient}catch_up_ms_max = 120000\n{}",
            node_section(folder, name)
        );
        cluster.configure_fresh(name, &more);
    }
    publish(&cluster, None, 2, "localhost", tls_port);
    let proxy = cluster.proxy_with(&section(folder, "proxy", "all.pem"));
    let keys: Vec<u64> = (0..30).collect();
    let check = |cluster: &Cluster, map: u64, value: f64| {
        for server in &cluster.nodes {
            assert_eq!(firsts(server, &keys, Some(map)), vec![Some(value); keys.len()]);
        }
    };
    let answer = upsert(&proxy, &upsert_call(&keys, 1.0));
    assert_eq!(answer["replicas"], 2, "{answer}");
    check(&cluster, 2, 1.0);
    // Each start has a port of its own, which the map says only later: the node asks the other one all the same.
    for (map, value) in [(3, 2.0), (4, 3.0)] {
        cluster.node("a").signal("KILL");
        upsert(cluster.node("b"), &upsert_call(&keys, value));
        cluster.restart("a");
        check(&cluster, map - 1, value);
        cluster
            .node("a")
            .wait_for("millpond_nodes_caught_up_rows_total", |rows| rows >= 30);
        publish(&cluster, Some(&proxy), map, "localhost", tls_port);
        upsert(&proxy, &upsert_call(&keys, value + 10.0));
        check(&cluster, map, value + 10.0);
    }
}

#[test]
fn a_start_that_cannot_trust_a_replica_says_so_while_it_waits() {
    let files = tempfile::tempdir().unwrap();
    let folder = files.path();
    make_certificates(folder, &["a", "b", "stranger"]);
    let mut cluster = unplaced(2);
    let lenient = format!("{PATIENCE}upsert_acks = 1\n");
    for name in ["a", "b"] {
        let more = format!("{lenient}catch_up_ms_max = 1\n{}", node_section(folder, name));
        cluster.join_fresh(name, &more);
    }
    publish(&cluster, None, 2, "localhost", tls_port);
    cluster.node("a").signal("KILL");
    let keys: Vec<u64> = (0..30).collect();
    upsert(cluster.node("b"), &upsert_call(&keys, 1.0));
    std::fs::copy(folder.join("stranger.pem"), folder.join("trusted.pem")).unwrap();
    let trusting = node_section(folder, "a").replace("all.pem\"\ncertificate", "trusted.pem\"\ncertificate");
    cluster.configure_fresh("a", &format!("{lenient}catch_up_ms_max = 120000\n{trusting}"));
    let log = cluster.path("a").join("log");
    let started = std::thread::scope(|scope| {
        let starts = scope.spawn(|| cluster.run("a"));
        let until = Instant::now() + Duration::from_secs(60);
        let is_said = |line: &str| {
            line.contains("cannot catch up with another replica yet")
                && line.contains("name its authority in nodes.tls.ca")
                && line.contains("lookups wait for that node")
        };
        while !std::fs::read_to_string(&log).unwrap().lines().any(is_said) {
            assert!(Instant::now() < until && !starts.is_finished());
            std::thread::sleep(Duration::from_millis(20));
        }
        // It still waits, and the files are read again.
        std::fs::copy(folder.join("all.pem"), folder.join("trusted.pem")).unwrap();
        starts.join().unwrap()
    });
    assert_eq!(firsts(&started, &keys, Some(2)), vec![Some(1.0); keys.len()]);
}
