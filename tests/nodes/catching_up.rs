//! Nodes that missed upserts: none answers a lookup before it has them. What an answer says is held against what was acknowledged
//! before it was asked for; nothing here depends on which thread runs first.

use super::cluster::{Cluster, make_table, write_map};
use super::upserts::{firsts, limit, upsert, upsert_call};
use crate::harness::{Http, Millpond};
use serde_json::{Value, json};
use std::io::Write as _;
use std::time::{Duration, Instant};

/// One replica is enough, and what a node missed is waited for.
const LENIENT: &str = "upsert_acks = 1\ncatch_up_ms_max = 120000\n";

/// Keys of the tests; the last of them is removed.
fn keys() -> Vec<u64> {
    (0..30).collect()
}

/// Two nodes.
const NAMES: [&str; 2] = ["a", "b"];

/// Configures two nodes whose overlays have memory for a hundred rows, and whose leases no busy machine ends.
fn configure_full(cluster: &Cluster, catch_up_ms_max: u64) {
    for name in NAMES {
        let more =
            format!("upsert_acks = 1\nanswer_timeout_ms = 4000\ncatch_up_ms_max = {catch_up_ms_max}\n");
        cluster.configure_fresh(name, &more);
        let file = cluster.path(name).join("millpond.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let overlay = "[features.films.overlay]\n";
        let text = text.replace(overlay, &format!("{overlay}bytes_max = 10000\n"));
        std::fs::write(&file, text).unwrap();
    }
}

/// A metric of that name and its labels.
fn metric(server: &Millpond, name: &str) -> u64 {
    let (_, metrics) = server.admin_get("/metrics");
    let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    lines
        .find_map(|value| value.trim().parse().ok())
        .unwrap_or_default()
}

/// How often another node asked it whether it missed anything.
fn questions(server: &Millpond) -> u64 {
    metric(server, "millpond_calls_total{method=\"features.missed\"}")
}

/// Writes that number to all of them but the last, which is removed.
fn write(server: &Millpond, value: f64) {
    let mut call = upsert_call(&keys()[..29], value);
    call["remove"] = json!([29]);
    upsert(server, &call);
}

fn expected(value: f64) -> Vec<Option<f64>> {
    (0..30).map(|key| (key < 29).then_some(value)).collect()
}

#[test]
fn a_node_that_was_away_has_what_it_missed_before_it_answers() {
    let mut cluster = Cluster::start_fresh(&["a", "b", "c"], 3, LENIENT);
    write(cluster.node("a"), 1.0);
    assert_eq!(firsts(cluster.node("a"), &keys(), Some(1)), expected(1.0));
    for value in [2.0, 3.0] {
        cluster.node("a").signal("KILL");
        write(cluster.node("b"), value);
        // It is ready when it has asked the others.
        cluster.restart("a");
        for _ in 0..20 {
            assert_eq!(firsts(cluster.node("a"), &keys(), Some(1)), expected(value));
        }
        cluster
            .node("a")
            .wait_for("millpond_nodes_caught_up_rows_total", |rows| rows >= 30);
    }
    for name in ["b", "c"] {
        cluster
            .node(name)
            .wait_for("millpond_nodes_missing", |count| count == 0);
    }
}

#[test]
fn a_log_that_takes_little_at_a_time_loses_nothing_of_what_a_node_missed() {
    let mut cluster = Cluster::start_fresh(&["a", "b"], 2, LENIENT);
    cluster.node("b").signal("KILL");
    let config = cluster.path("b").join("millpond.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let overlay = "[features.films.overlay]\n";
    std::fs::write(
        &config,
        text.replace(overlay, &format!("{overlay}queue_max = 1\n")),
    )
    .unwrap();
    let keys: Vec<u64> = (0..100).collect();
    for key in &keys {
        upsert(cluster.node("a"), &upsert_call(&[*key], 2.0));
    }
    cluster.restart("b");
    assert_eq!(firsts(cluster.node("b"), &keys, Some(1)), vec![Some(2.0); 100]);
    cluster
        .node("b")
        .wait_for("millpond_nodes_caught_up_rows_total", |rows| rows >= 100);
}

#[test]
fn nobody_has_seen_upserts_that_are_still_to_come() {
    let cluster = Cluster::start_fresh(&["a", "b"], 2, LENIENT);
    cluster.node("b").signal("KILL");
    write(cluster.node("a"), 2.0);
    let ask = |more: Value| {
        let mut call = json!({"node": "b", "lease_ms": 600_000});
        call.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let (status, answer) = cluster.node("a").call("features.missed", &call);
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let answer = ask(json!({}));
    let (run, to) = (&answer["run"], answer["missed"][0]["to"].as_u64().unwrap());
    let seen = |sequence: u64| ask(json!({"run": run, "seen": [{"table": "films", "sequence": sequence}]}));
    assert_eq!(seen(1 << 62)["missed"], answer["missed"]);
    assert_eq!(seen(to)["missed"], json!([]));
}

#[test]
fn a_node_that_stood_still_has_what_it_missed_before_it_answers() {
    let cluster = Cluster::start_fresh(&["a", "b"], 2, LENIENT);
    let proxy = cluster.proxy_with("upsert_acks = 1\n");
    write(&proxy, 1.0);
    assert_eq!(firsts(cluster.node("a"), &keys(), Some(1)), expected(1.0));
    for (value, server) in [(2.0, cluster.node("b")), (3.0, &proxy)] {
        let mut waiting = Http::connect(&cluster.node("a").addr);
        cluster.node("a").signal("STOP");
        write(server, value);
        // This lies in its socket until it goes on.
        let body = json!({"table": "films", "keys": keys(), "map": 1}).to_string();
        let request = format!(
            "POST /service/features.lookup HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        waiting.stream.write_all(request.as_bytes()).unwrap();
        cluster.node("a").signal("CONT");
        let (status, text) = waiting.answer().unwrap();
        assert!(status == 200 || status == 503, "{status} {text}");
        if status == 200 {
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(answer["values"][0].as_f64(), Some(value), "{answer}");
        }
        for _ in 0..20 {
            assert_eq!(firsts(cluster.node("a"), &keys(), Some(1)), expected(value));
            assert_eq!(firsts(&proxy, &keys(), None), expected(value));
        }
    }
}

#[test]
fn a_node_that_gets_buckets_has_their_fresh_rows_before_it_answers() {
    let names = ["a", "b", "c"];
    let cluster = Cluster::start_fresh(&names, 3, LENIENT);
    // They have all rows, but not all buckets.
    write_map(cluster.folder.path(), 2, &names, 1);
    for name in names {
        make_table(&cluster.path(name).join("films"), 2, |_| true);
        cluster.node(name).wait_for_metric("millpond_nodes_map_version 2");
    }
    let proxy = cluster.proxy();
    proxy.wait_for_metric("millpond_nodes_map_version 2");
    write(&proxy, 4.0);
    write_map(cluster.folder.path(), 3, &names, 3);
    for name in names {
        cluster.node(name).wait_for_metric("millpond_nodes_map_version 3");
        assert_eq!(
            firsts(cluster.node(name), &keys(), Some(3)),
            expected(4.0),
            "{name}"
        );
    }
}

#[test]
fn without_the_others_a_node_answers_after_a_while() {
    let mut cluster = Cluster::start_fresh(&["a", "b"], 2, "catch_up_ms_max = 100\n");
    upsert(cluster.node("a"), &upsert_call(&keys(), 1.0));
    for name in ["a", "b"] {
        cluster.node(name).signal("KILL");
    }
    cluster.restart("a");
    assert_eq!(firsts(cluster.node("a"), &keys(), Some(1)), vec![Some(1.0); 30]);
    cluster
        .node("a")
        .wait_for("millpond_nodes_unheard", |count| count == 1);
    let log = cluster.path("a").join("log");
    let until = limit();
    while !std::fs::read_to_string(&log)
        .unwrap()
        .contains("lookups are answered without it")
    {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_table_that_is_full_keeps_no_row_of_another_from_a_node() {
    let mut cluster = Cluster::start_fresh(&NAMES, 2, "");
    for name in NAMES {
        cluster.node(name).signal("KILL");
        // It comes before the other table, and holds a hundred rows of it at node "b".
        make_table(&cluster.path(name).join("actors"), 1, |_| true);
        let bytes_max = if name == "b" { 10_000 } else { 1 << 20 };
        cluster.configure_fresh(name, "upsert_acks = 1\ncatch_up_ms_max = 1000\n");
        let file = cluster.path(name).join("millpond.toml");
        let mut text = std::fs::read_to_string(&file).unwrap();
        text.push_str(&format!(
            "[features.actors]\npath = \"actors\"\nspread = true\n[features.actors.overlay]\npath = \"fresh-actors\"\n\
             durability = \"logged\"\nbytes_max = {bytes_max}\n"
        ));
        std::fs::write(&file, text).unwrap();
    }
    cluster.restart("a");
    let many: Vec<u64> = (0..300).collect();
    let mut actors = upsert_call(&many, 7.0);
    actors["table"] = json!("actors");
    upsert(cluster.node("a"), &actors);
    upsert(cluster.node("a"), &upsert_call(&keys(), 7.0));
    cluster.restart("b");
    let b = cluster.node("b");
    b.wait_for_metric("millpond_overlay_entries{table=\"films\"} 30");
    let log = || std::fs::read_to_string(cluster.path("b").join("log")).unwrap();
    let until = limit();
    while !log().contains("the overlay is full: its rows take") {
        assert!(Instant::now() < until, "{}", log());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(metric(b, "millpond_overlay_entries{table=\"actors\"}") < 300);
}

/// Two replicas are full of rows that the other one misses: stale rows are better than none, and the same ones are better than
/// either's in turn.
#[test]
fn of_two_full_replicas_that_miss_each_others_rows_one_answers() {
    let mut cluster = Cluster::start_fresh(&NAMES, 2, "");
    let sets: [Vec<u64>; 2] = [(0..100).collect(), (100..200).collect()];
    for name in NAMES {
        cluster.node(name).signal("KILL");
    }
    configure_full(&cluster, 100);
    for (name, keys) in NAMES.iter().zip(&sets) {
        cluster.restart(name);
        upsert(cluster.node(name), &upsert_call(keys, 7.0));
        cluster.node(name).signal("KILL");
    }
    // Long enough that each hears of the other one before it goes on without it.
    configure_full(&cluster, 3000);
    cluster.nodes = std::thread::scope(|scope| {
        let starts = NAMES.map(|name| {
            let cluster = &cluster;
            scope.spawn(move || cluster.run(name))
        });
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let until = limit() + Duration::from_secs(60);
    let answers = |at: usize| {
        let call = json!({"table": "films", "keys": sets[at], "map": 1});
        let (status, answer) = cluster.node(NAMES[at]).call("features.lookup", &call);
        assert!(status == 200 || status == 503, "{status} {answer}");
        let is_own = |value: &Value| value.as_f64() == Some(7.0);
        assert!(status == 503 || answer["values"].as_array().unwrap().iter().all(is_own));
        status == 200
    };
    // A machine that lets neither run for a lease, or one of them for a part of it, says nothing of them.
    let stalls = || {
        let logs = NAMES.map(|name| std::fs::read_to_string(cluster.path(name).join("log")).unwrap());
        let stalled = |text: &String| {
            text.matches("stood still").count() + text.matches("did not answer in time").count()
        };
        logs.iter().map(stalled).sum::<usize>()
    };
    // For several of the questions that each asks the other one: what went otherwise.
    let goes_on = || -> Result<(), String> {
        let asked = || NAMES.map(|name| questions(cluster.node(name)));
        let first = loop {
            match [answers(0), answers(1)] {
                [true, true] => return Err("both answer".to_owned()),
                [true, false] => break 0,
                [false, true] => break 1,
                [false, false] => {
                    assert!(Instant::now() < until, "none answers");
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        };
        let (began, mut looks) = (asked(), 0);
        while looks < 50 || asked().iter().zip(began).any(|(now, began)| *now < began + 8) {
            let unheard = metric(cluster.node(NAMES[first]), "millpond_nodes_unheard");
            let found = (answers(first), answers(1 - first), unheard);
            if found != (true, false, 1) {
                return Err(format!("look {looks} of {first}: {found:?}"));
            }
            assert!(
                Instant::now() < until,
                "the nodes ask no more: {began:?} {:?}",
                asked()
            );
            looks += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    };
    // One may have stalled while they started, which the first look still finds.
    let mut before = None;
    while let Err(problem) = goes_on() {
        let now = stalls();
        assert!(before.is_none_or(|before| now > before), "{problem}");
        before = Some(now);
    }
}
