//! Maps and versions that change under calls.

use super::cluster::{Cluster, TOKEN, check_rows, socket, some_keys, write_map};
use super::failing::look_up_until;
use super::upserts::{firsts, limit, upsert_call};
use crate::harness::Http;
use millpond_nodes::BucketMap;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_map_changes_under_load_without_a_failed_call() {
    let cluster = Cluster::start(&["a", "b", "c"], 2);
    // All of them have every row, so that buckets may move.
    for name in ["a", "b", "c"] {
        super::cluster::make_table(&cluster.path(name).join("films"), 2, |_| true);
        cluster.activate(name, 2);
    }
    let proxy = cluster.proxy();
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| look_up_until(&proxy, &stop, &answered));
        let more = |count: u64| {
            let before = answered.load(Ordering::Relaxed);
            while answered.load(Ordering::Relaxed) < before + count {
                assert!(!thread.is_finished(), "a call failed");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        more(50);
        for (version, names, replicas) in [(2, ["a", "c"].as_slice(), 1), (3, &["a", "b", "c"], 2)] {
            write_map(cluster.folder.path(), version, names, replicas);
            // Each server looks at the file for itself; calls by the map before go on meanwhile.
            for server in [&proxy, cluster.node("a"), cluster.node("b"), cluster.node("c")] {
                server.wait_for_metric(&format!("millpond_nodes_map_version {version}"));
            }
            more(50);
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Callers may still split by a map before, or already by the next, not by one that nobody knows any more.
    for (map, expected) in [(1, 200), (3, 200), (4, 200), (0, 503)] {
        let payload = json!({"table": "films", "keys": [1], "map": map});
        let (status, answer) = cluster.node("a").call("features.lookup", &payload);
        assert_eq!(status, expected, "{answer}");
    }
}

#[test]
fn a_map_that_is_wrong_changes_nothing() {
    let cluster = Cluster::start(&["a", "b"], 1);
    let proxy = cluster.proxy();
    std::fs::write(cluster.path("map.toml"), "version = 2\nbuckets = 0\nnodes = []\n").unwrap();
    proxy.signal("HUP");
    let log = cluster.path("proxy").join("log");
    let until = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(&log)
        .unwrap()
        .contains("the map of nodes was not replaced")
    {
        assert!(
            Instant::now() < until,
            "the log does not say that the map is wrong"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let keys = some_keys(3, 100);
    let (_, answer) = proxy.call("features.lookup", &json!({"table": "films", "keys": keys}));
    check_rows(&keys, &answer);
}

#[test]
fn nodes_switch_one_after_the_other_and_no_call_mixes_versions() {
    let cluster = Cluster::start(&["a", "b", "c"], 2);
    let proxy = cluster.proxy();
    for name in ["a", "b", "c"] {
        cluster.make(name, 2);
    }
    let mut servers = [&proxy, cluster.node("a")].map(|server| Http::connect(&server.addr));
    let mut look_up = |rounds: u64| {
        let mut versions = Vec::new();
        for round in 0..rounds {
            let keys = some_keys(round, 80);
            for http in &mut servers {
                let (status, answer) = http.call("features.lookup", &json!({"table": "films", "keys": keys}));
                assert_eq!(status, 200, "{answer}");
                versions.push(check_rows(&keys, &answer));
            }
        }
        versions
    };
    assert!(look_up(3).iter().all(|version| *version == 1));
    for name in ["a", "b"] {
        cluster.activate(name, 2);
        assert!(
            look_up(3).iter().all(|version| *version == 1),
            "a node serves version 1 alone"
        );
    }
    cluster.activate("c", 2);
    // What a node serves is learnt from its next answer, and a call need not ask all nodes.
    let until = Instant::now() + Duration::from_secs(60);
    while look_up(1).contains(&1) {
        assert!(Instant::now() < until, "version 1 is still answered");
    }
    assert!(look_up(3).iter().all(|version| *version == 2));
    let (status, answer) = proxy.call(
        "features.lookup",
        &json!({"table": "films", "keys": [1, 2, 3], "at_version": 9}),
    );
    assert_eq!((status, &answer["code"]), (410, &json!(30106)), "{answer}");
}

/// A map by which two nodes have these buckets of 64.
fn map_of(cluster: &Cluster, version: u64, of_a: &str, of_b: &str) -> String {
    let node = |name: &str, buckets: &str| {
        let at = socket(cluster.folder.path(), name);
        format!(
            "{{ name = \"{name}\", addresses = [\"unix:{}\"], buckets = \"{buckets}\" }}",
            at.display()
        )
    };
    let nodes = [node("a", of_a), node("b", of_b)].join(", ");
    format!("version = {version}\nbuckets = 64\nnodes = [{nodes}]\n")
}

/// Builds and serves a version by a map that nobody goes by.
fn serve_by(cluster: &Cluster, map: &str, version: u64) {
    let map = BucketMap::from_toml(map).unwrap();
    for name in ["a", "b"] {
        cluster.make_by(&map, name, version);
        cluster.activate(name, version);
    }
}

/// Goes by a map from now on.
fn publish(cluster: &Cluster, version: u64, map: &str) {
    let next = cluster.path("next.toml");
    std::fs::write(&next, map).unwrap();
    std::fs::rename(next, cluster.path("map.toml")).unwrap();
    for name in ["a", "b"] {
        let line = format!("millpond_nodes_map_version {version}");
        cluster.node(name).wait_for_metric(&line);
    }
}

/// Looks keys up through both nodes: whether both found all, of which versions; a key that is there is found, or said to be missing.
fn look_up_both(cluster: &Cluster, seed: u64) -> Option<Vec<u64>> {
    let keys = some_keys(seed, 200);
    let versions = ["a", "b"].map(|name| {
        let call = json!({"table": "films", "keys": keys});
        let (status, answer) = cluster.node(name).call("features.lookup", &call);
        let is_whole = status == 200 && answer.get("missing").is_none();
        assert!(
            is_whole || answer["missing"].is_array() || status == 410,
            "{answer}"
        );
        is_whole.then(|| check_rows(&keys, &answer))
    });
    versions.into_iter().collect()
}

#[test]
fn a_version_by_another_map_does_not_say_that_keys_are_not_there() {
    let cluster = Cluster::start(&["a", "b"], 1);
    publish(&cluster, 2, &map_of(&cluster, 2, "0-31", "32-63"));
    serve_by(&cluster, &map_of(&cluster, 2, "0-31", "32-63"), 2);
    let until = limit();
    while look_up_both(&cluster, 1) != Some(vec![2, 2]) {
        assert!(Instant::now() < until, "version 2 is not answered");
    }
    // By the next map a gives buckets away: version 3 has them nowhere where callers look for them yet.
    let next = map_of(&cluster, 3, "0-15", "16-63");
    serve_by(&cluster, &next, 3);
    (0..50).for_each(|seed| drop(look_up_both(&cluster, seed)));
    publish(&cluster, 3, &next);
    while look_up_both(&cluster, 2) != Some(vec![3, 3]) {
        assert!(Instant::now() < until, "not all keys are found by the next map");
    }
    // Versions with the buckets of both maps come first: then nothing is missing at any time.
    serve_by(&cluster, &map_of(&cluster, 4, "0-15,48-63", "16-63"), 4);
    while look_up_both(&cluster, 3) != Some(vec![4, 4]) {
        assert!(Instant::now() < until, "version 4 is not answered");
    }
    let next = map_of(&cluster, 4, "0-15,48-63", "16-47");
    publish(&cluster, 4, &next);
    (0..50).for_each(|seed| assert!(look_up_both(&cluster, seed).is_some()));
    serve_by(&cluster, &next, 5);
    (0..50).for_each(|seed| assert!(look_up_both(&cluster, seed).is_some()));
}

#[test]
fn a_version_for_another_node_is_refused() {
    let cluster = Cluster::start(&["a", "b"], 1);
    let map = cluster.map();
    cluster.make_by(&map, "a", 2);
    for file in std::fs::read_dir(cluster.path("a").join("films/00000002")).unwrap() {
        let (file, to) = (file.unwrap(), cluster.path("b").join("films/00000002"));
        std::fs::create_dir_all(&to).unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    let call = json!({"table": "films", "version": 2, "_token": TOKEN});
    let (status, answer) = cluster.node("b").call("features.activate", &call);
    let said = answer["ex"].to_string();
    assert!(
        status != 200 && said.contains("was built for node a of map 1"),
        "{answer}"
    );
    assert!(said.contains("--node b"), "{answer}");
}

#[test]
fn an_upsert_while_servers_go_by_different_maps_is_split_anew() {
    let names = ["a", "b"];
    let cluster = Cluster::start_fresh(&names, 2, "");
    // The proxy has a file of its own, which has a map after the nodes go by it.
    let publish = || {
        let next = cluster.path("next.toml");
        std::fs::copy(cluster.path("map.toml"), &next).unwrap();
        std::fs::rename(next, cluster.path("proxys.toml")).unwrap();
    };
    publish();
    let proxy = cluster.proxy_in("map = \"../proxys.toml\"\n");
    let split_anew = || {
        let (_, metrics) = proxy.admin_get("/metrics");
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix("millpond_nodes_upserts_split_anew_total "));
        count.unwrap().parse::<u64>().unwrap()
    };
    let (keys, until) = ([1, 2, 3, 600], limit());
    for version in 2_u32.. {
        write_map(cluster.folder.path(), version.into(), &names, 2);
        for name in names {
            let line = format!("millpond_nodes_map_version {version}");
            cluster.node(name).wait_for_metric(&line);
        }
        let (before, value) = (split_anew(), f64::from(version));
        publish();
        let (status, answer) = proxy.call("features.upsert", &upsert_call(&keys, value));
        assert!(status == 200 || status == 503, "{answer}");
        // It may have read the file in time by itself, or on a busy machine not even after a second.
        if status == 200 && split_anew() > before {
            assert_eq!(answer["replicas"], json!(2), "{answer}");
            assert_eq!(firsts(&proxy, &keys, None), vec![Some(value); 4]);
            return;
        }
        assert!(Instant::now() < until, "no upsert met another map");
    }
}
