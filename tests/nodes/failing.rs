//! Nodes that die or stand still under calls.

use super::cluster::{Cluster, KEYS, check_rows, some_keys};
use crate::harness::{Http, Millpond};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Calls a server until it is to stop; each answer is held against its keys.
pub fn look_up_until(server: &Millpond, stop: &AtomicBool, answered: &AtomicU64) {
    let mut http = Http::connect(&server.addr);
    let mut seed = 0;
    while !stop.load(Ordering::Relaxed) {
        seed += 1;
        let keys = some_keys(seed, 60);
        let (status, answer) = http.call("features.lookup", &json!({"table": "films", "keys": keys}));
        assert_eq!(status, 200, "{answer}");
        check_rows(&keys, &answer);
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Calls two servers while `work` is done with the cluster; `more` waits for so many more answers.
fn under_load(
    cluster: &Cluster,
    proxy: &Millpond,
    other: &Millpond,
    work: impl FnOnce(&Cluster, &dyn Fn(u64)),
) {
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let threads: Vec<_> = [proxy, other]
            .into_iter()
            .map(|server| scope.spawn(|| look_up_until(server, &stop, &answered)))
            .collect();
        let more = |count: u64| {
            let before = answered.load(Ordering::Relaxed);
            while answered.load(Ordering::Relaxed) < before + count {
                assert!(
                    threads.iter().all(|thread| !thread.is_finished()),
                    "a call failed"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        work(cluster, &more);
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_node_that_is_killed_fails_no_call_where_another_has_its_keys() {
    let cluster = Cluster::start(&["a", "b", "c"], 2);
    let proxy = cluster.proxy();
    under_load(&cluster, &proxy, cluster.node("a"), |cluster, more| {
        more(50);
        cluster.node("b").signal("KILL");
        more(300);
    });
    let (_, page) = proxy.admin_get("/metrics");
    assert!(
        !page.contains("millpond_node_failures_total{node=\"b\"} 0"),
        "{page}"
    );
}

#[test]
fn a_node_that_stands_still_is_hedged_and_called_again_later() {
    let hedges = |proxy: &Millpond, name: &str| {
        let (_, page) = proxy.admin_get("/metrics");
        let line = format!("millpond_node_hedges_total{{node=\"{name}\"}} ");
        let mut lines = page.lines().filter_map(|found| found.strip_prefix(&line));
        lines.next().map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let cluster = Cluster::start(&["a", "b", "c"], 2);
    let proxy = cluster.proxy_with("hedge_permille = 1000\n");
    under_load(&cluster, &proxy, cluster.node("a"), |cluster, more| {
        // So many that it is known what is slow.
        more(400);
        cluster.node("b").signal("STOP");
        // Which of the two callers asks it, and when, is chance.
        let until = Instant::now() + Duration::from_secs(60);
        while hedges(&proxy, "a") + hedges(&proxy, "c") == 0 {
            assert!(Instant::now() < until, "no call is hedged");
            more(20);
        }
        cluster.node("b").signal("CONT");
        more(100);
    });
}

#[test]
fn keys_without_another_replica_are_missing_by_name() {
    let cluster = Cluster::start(&["a", "b", "c"], 1);
    let proxy = cluster.proxy();
    let map = cluster.map();
    let gone = map.find("b").unwrap();
    let (lost, kept): (Vec<u64>, Vec<u64>) =
        (0..KEYS).partition(|key| map.replicas(map.bucket(*key)) == [gone]);
    cluster.node("b").signal("KILL");
    let keys: Vec<u64> = (0..40).flat_map(|at| [kept[at], lost[at]]).collect();
    let (status, answer) = proxy.call("features.lookup", &json!({"table": "films", "keys": keys}));
    assert_eq!(status, 200, "{answer}");
    let missing = answer["missing"].as_array().unwrap();
    let [of_b] = missing.as_slice() else {
        panic!("{answer}")
    };
    let named: Vec<u64> = of_b["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key.as_u64().unwrap())
        .collect();
    assert_eq!(
        (&of_b["node"], &of_b["code"]),
        (&json!("b"), &json!(30116)),
        "{answer}"
    );
    assert_eq!(named, lost[..40]);
    assert!(of_b["ex"].as_str().unwrap().contains("node \"b\""), "{answer}");
    for (at, row) in answer["values"].as_array().unwrap().chunks(3).enumerate() {
        let found = answer["found"][at / 8].as_u64().unwrap() >> (at % 8) & 1;
        let expected = if at % 2 == 0 { keys[at] as f64 } else { 0.0 };
        assert_eq!(
            (found, row[0].as_f64()),
            ((at as u64 + 1) % 2, Some(expected)),
            "{at}: {answer}"
        );
    }
    let (status, answer) = proxy.call("features.lookup", &json!({"table": "films", "keys": lost}));
    assert_eq!(
        (status, &answer["code"], &answer["retryable"]),
        (503, &json!(30116), &json!(true)),
        "{answer}"
    );
}

#[test]
fn a_call_ends_at_its_deadline_with_what_has_come() {
    let cluster = Cluster::start(&["a", "b"], 1);
    let proxy = cluster.proxy();
    let all: Vec<u64> = (0..KEYS).collect();
    cluster.node("b").signal("STOP");
    // On a busy machine the other node may take longer than the first of them.
    let mut ended = [300, 3000, 30_000].into_iter().map(|deadline_ms| {
        let payload = json!({"table": "films", "keys": all, "type": "none", "_deadline_ms": deadline_ms});
        proxy.call("features.lookup", &payload)
    });
    let (status, answer) = ended.find(|(status, _)| *status == 200).unwrap();
    cluster.node("b").signal("CONT");
    assert_eq!(status, 200, "{answer}");
    let missing = &answer["missing"][0];
    assert_eq!(
        (&missing["node"], &missing["code"]),
        (&json!("b"), &json!(30102)),
        "{answer}"
    );
    assert_ne!(missing["keys"], Value::Null);
}
