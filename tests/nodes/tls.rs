//! Nodes that are called by TLS: certificates of both sides, and what is said where they do not agree.

use super::cluster::{Cluster, check_rows, some_keys, write_map_of};
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

#[test]
fn nodes_are_called_by_tls_and_an_error_says_what_keeps_them_apart() {
    let files = tempfile::tempdir().unwrap();
    let folder = files.path();
    make_certificates(folder, &["a", "b", "stranger"]);
    let mut cluster = Cluster::start(&[], 1);
    // Ports are known once they are bound: until then the nodes of the map are elsewhere.
    write_map_of(
        cluster.folder.path(),
        1,
        &[("a", "127.0.0.1:1".into()), ("b", "127.0.0.1:2".into())],
        1,
    );
    for name in ["a", "b"] {
        cluster.make(name, 1);
        let map = format!("map = \"../map.toml\"\nname = \"{name}\"\n");
        cluster.join(name, &(map + &node_section(folder, name)));
    }
    // Who signs the nodes' certificates is not in it yet.
    std::fs::copy(folder.join("stranger.pem"), folder.join("trusted.pem")).unwrap();
    let proxy = cluster.proxy_with(&section(folder, "stranger", "trusted.pem"));
    let publish = |version, host: &str, port: for<'s> fn(&'s Millpond) -> &'s str| {
        let address = |name| {
            format!(
                "tls://{host}:{}",
                port(cluster.node(name)).rsplit_once(':').unwrap().1
            )
        };
        let nodes = [("a", address("a")), ("b", address("b"))];
        write_map_of(cluster.folder.path(), version, &nodes, 1);
        for server in cluster.nodes.iter().chain([&proxy]) {
            server.wait_for_metric(&format!("millpond_nodes_map_version {version}"));
        }
    };
    publish(2, "localhost", |server| server.tls.as_deref().unwrap());
    look_up(cluster.node("a"));
    look_up(cluster.node("b"));
    wait_for_error(&proxy, "name its authority in nodes.tls.ca");
    // Files that have changed are read again.
    std::fs::copy(folder.join("all.pem"), folder.join("trusted.pem")).unwrap();
    look_up(&proxy);
    publish(3, "127.0.0.1", |server| server.tls.as_deref().unwrap());
    wait_for_error(&proxy, "or write that name as nodes.tls.server_name");
    publish(4, "localhost", |server| &server.addr);
    wait_for_error(&proxy, "address a port that speaks TLS");
}
