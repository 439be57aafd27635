//! Folds of upserts over nodes: all replicas fold up to one time, and lookups see the same rows before and after, at each of them.

use super::cluster::{Cluster, TOKEN, write_map};
use super::upserts::{firsts, limit, upsert, upsert_call};
use crate::harness::{Http, Millpond, millpond};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// Upserts can be folded soon.
const SETTLES: &str = "settle_ms = 10000\n";
const NAMES: [&str; 2] = ["a", "b"];

fn keys() -> Vec<u64> {
    (0..30).collect()
}

/// What `features.inspect` says of a node's fresh rows.
fn fresh(cluster: &Cluster, name: &str) -> Value {
    let (status, answer) = cluster.node(name).call("features.inspect", &json!({}));
    assert_eq!(status, 200, "{answer}");
    answer["tables"][0]["overlay"].clone()
}

/// The time up to which all nodes can fold, once that is behind an upsert.
fn foldable(cluster: &Cluster, answer: &Value) -> u64 {
    let (made_ms, until) = (answer["sequence"].as_u64().unwrap() >> 16, limit());
    loop {
        let times = NAMES.map(|name| fresh(cluster, name)["foldable_ms"].as_u64().unwrap_or_default());
        let [one, other] = times;
        if one.min(other) > made_ms {
            return one.min(other);
        }
        assert!(Instant::now() < until, "{made_ms} {times:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether a node's fresh rows were folded, and what it said.
fn fold(cluster: &Cluster, name: &str, more: &[&str]) -> (bool, String) {
    let mut command = millpond();
    command
        .current_dir(cluster.path(name))
        .args(["features", "fold", "films", "--log", "fresh"]);
    let done = command.args(more).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(said).unwrap())
}

/// Folds on all nodes up to the same time.
fn fold_all(cluster: &Cluster, before_ms: u64) {
    for name in NAMES {
        let (is_done, said) = fold(cluster, name, &["--before-ms", &before_ms.to_string()]);
        let words = format!("folded what was upserted before {before_ms} ms");
        assert!(is_done && said.contains(&words), "{said}");
    }
}

/// Whether all servers answer these, and each node of its own rows.
fn check(cluster: &Cluster, expected: &[Option<f64>]) {
    for name in NAMES {
        for map in [None, Some(1)] {
            let found = firsts(cluster.node(name), &keys(), map);
            assert_eq!(found, expected, "{name} {map:?}");
        }
    }
}

fn kill(server: &Millpond) {
    server.signal("KILL");
}

pub(super) fn wait_for_line(cluster: &Cluster, name: &str, words: &str) {
    let until = limit();
    while !fs::read_to_string(cluster.path(name).join("log"))
        .unwrap()
        .contains(words)
    {
        assert!(Instant::now() < until, "no line of {name} has {words:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nodes_fold_up_to_one_time_and_give_memory_back() {
    let mut cluster = Cluster::start_fresh(&NAMES, 2, SETTLES);
    for name in NAMES {
        let config = cluster.path(name).join("millpond.toml");
        let text = fs::read_to_string(&config).unwrap();
        let table = "path = \"films\"\n";
        fs::write(
            &config,
            text.replace(table, &format!("{table}versions_held = 1\n")),
        )
        .unwrap();
        kill(cluster.node(name));
        cluster.restart(name);
    }
    let mut call = upsert_call(&keys()[..20], 7.0);
    call["remove"] = json!([29]);
    let made = upsert(cluster.node("a"), &call);
    let mut expected: Vec<Option<f64>> = (0..30).map(|key| Some(key as f64)).collect();
    expected[..20].fill(Some(7.0));
    expected[29] = None;
    check(&cluster, &expected);
    let before_ms = foldable(&cluster, &made);
    let (is_done, said) = fold(
        &cluster,
        "a",
        &["--before-ms", &(before_ms + 3_600_000).to_string()],
    );
    assert!(!is_done && said.contains("fold up to that at most"), "{said}");
    fold_all(&cluster, before_ms);
    // One node after the other; a restart between the two keeps what the other one's version does not have.
    for restarts in [false, true] {
        if restarts {
            kill(cluster.node("a"));
            cluster.restart("a");
        } else {
            cluster.activate("a", 2);
        }
        check(&cluster, &expected);
        assert_eq!(fresh(&cluster, "a")["folded_ms"], json!(before_ms));
        assert_eq!(fresh(&cluster, "a")["entries"], json!(21));
    }
    cluster.activate("b", 2);
    check(&cluster, &expected);
    // The next fold closes the version before this one, with whose end the rows go.
    let made = upsert(cluster.node("b"), &upsert_call(&[1, 2], 8.0));
    expected[1..3].fill(Some(8.0));
    fold_all(&cluster, foldable(&cluster, &made));
    for name in NAMES {
        cluster.activate(name, 3);
        let until = limit();
        while fresh(&cluster, name)["entries"] != json!(2) {
            assert!(Instant::now() < until, "{}", fresh(&cluster, name));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    check(&cluster, &expected);
    for name in NAMES {
        kill(cluster.node(name));
        cluster.restart(name);
    }
    check(&cluster, &expected);

    // A node that lost its disk lacks what is in the other's versions alone, and says so.
    kill(cluster.node("b"));
    for lost in ["fresh", "films/00000002", "films/00000003"] {
        fs::remove_dir_all(cluster.path("b").join(lost)).unwrap();
    }
    fs::remove_file(cluster.path("b").join("films/ACTIVE")).unwrap();
    cluster.restart("b");
    wait_for_line(&cluster, "b", "in its versions alone");
    let call = json!({"table": "films", "keys": keys(), "map": 1, "_token": TOKEN});
    let (status, answer) = Http::connect(&cluster.node("b").addr).call("features.lookup", &call);
    assert_eq!((status, &answer["code"]), (503, &json!(30116)), "{answer}");
    // With the other's versions it has them.
    kill(cluster.node("b"));
    for other in ["fresh", "films"] {
        fs::remove_dir_all(cluster.path("b").join(other)).unwrap();
    }
    for version in ["00000001", "00000002", "00000003"] {
        copy_version(&cluster, "a", "b", version);
    }
    cluster.restart("b");
    check(&cluster, &expected);
}

#[test]
fn nodes_fold_on_without_one_that_went_from_the_map() {
    let cluster = Cluster::start_fresh(&["a", "b", "c"], 2, SETTLES);
    let made = upsert(cluster.node("a"), &upsert_call(&keys(), 7.0));
    fold_all(&cluster, foldable(&cluster, &made));
    NAMES.iter().for_each(|name| cluster.activate(name, 2));
    kill(cluster.node("c"));
    write_map(cluster.folder.path(), 2, &NAMES, 2);
    for name in NAMES {
        cluster.node(name).wait_for_metric("millpond_nodes_map_version 2");
        wait_for_line(
            &cluster,
            name,
            "gets buckets of a table whose fresh rows were folded",
        );
        wait_for_line(
            &cluster,
            name,
            "this node gets buckets, and asks the nodes that had them",
        );
        wait_for_line(
            &cluster,
            name,
            "this node has the fresh rows of the buckets that it got",
        );
    }
    // They have its buckets now, and it is never asked again.
    let made = upsert(cluster.node("a"), &upsert_call(&keys(), 8.0));
    foldable(&cluster, &made);
}

fn copy_version(cluster: &Cluster, from: &str, to: &str, version: &str) {
    let of = |name: &str| cluster.path(name).join("films").join(version);
    fs::create_dir_all(of(to)).unwrap();
    for file in fs::read_dir(of(from)).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), of(to).join(file.file_name())).unwrap();
    }
}
