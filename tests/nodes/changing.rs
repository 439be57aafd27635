//! Maps and versions that change under calls.

use super::cluster::{Cluster, check_rows, some_keys, write_map};
use super::failing::look_up_until;
use super::upserts::{firsts, limit, upsert_call};
use crate::harness::Http;
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
