//! What changes a store beside `ordered.put`: removals, increments, and batches of mixed operations.

use crate::harness::{Frames, Http, Millpond, r1_folder};
use millpond_wire_frame::Encoding;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn bytes(text: &str) -> Value {
    json!(text.as_bytes())
}

fn batch(http: &mut Http, operations: &Value) -> (u16, Value) {
    http.call("ordered.batch", &json!({"operations": operations}))
}

#[test]
fn a_batch_takes_effect_as_a_whole_and_survives_a_restart() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let operations = json!([
        ["get", "a"],
        ["put", "a", "1", {"if_absent": true}],
        ["increment", "a", 41],
        ["get", "a"],
        ["put", "b", "x"],
        ["remove", "b"],
        ["remove", "c"],
        ["increment", "n", -3],
    ]);
    let (status, answer) = batch(&mut http, &operations);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        answer["results"],
        json!([null, 1, 42, bytes("42"), 3, true, false, -3])
    );
    assert_eq!(answer["durability"], "synced");
    // One condition that does not hold refuses all of it.
    let (status, answer) = batch(
        &mut http,
        &json!([["put", "d", "1"], ["remove", "a", {"if_version": 1}]]),
    );
    assert_eq!((status, answer["code"].as_u64()), (409, Some(30112)), "{answer}");
    let (status, answer) = batch(
        &mut http,
        &json!([["put", "d", "1"], ["put", "a", "2", {"if_version": 2}]]),
    );
    assert_eq!((status, &answer["results"]), (200, &json!([6, 7])), "{answer}");
    let (_, answer) = http.call("ordered.remove", &json!({"keys": ["d", "e", "n"]}));
    assert_eq!(
        (&answer["removed"], &answer["durability"]),
        (&json!(2), &json!("synced"))
    );
    drop(http);
    assert!(server.terminate().success());

    let server = Millpond::start(folder.path(), &[]);
    let (_, answer) = server.call("ordered.get", &json!({"keys": ["a", "b", "d", "n"]}));
    assert_eq!(
        (&answer["values"], &answer["versions"]),
        (&json!([bytes("2"), null, null, null]), &json!([7, 0, 0, 0]))
    );
    let (_, answer) = server.call("ordered.put", &json!({"entries": [["d", "2"]]}));
    assert_eq!(answer["versions"], json!([10]), "removals have versions too");
}

#[test]
fn increments_of_many_connections_are_all_added() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut http = Http::connect(&server.addr);
                for _ in 0..50 {
                    let (status, answer) = http.call("ordered.increment", &json!({"key": "n", "by": 3}));
                    assert_eq!(status, 200, "{answer}");
                }
            });
        }
    });
    let (_, answer) = server.call("ordered.increment", &json!({"key": "n", "by": 0}));
    assert_eq!((&answer["value"], &answer["version"]), (&json!(600), &json!(201)));
}

#[test]
fn keys_expire_and_stay_away_over_a_restart() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    http.call(
        "ordered.put",
        &json!({"entries": [["soon", "1"], ["kept", "1"]], "ttl_ms": 400}),
    );
    let (_, answer) = http.call(
        "ordered.expire",
        &json!({"keys": ["kept", "none"], "persist": true}),
    );
    assert_eq!(answer["changed"], json!(1), "{answer}");
    let (_, answer) = batch(
        &mut http,
        &json!([["increment", "n", 1, {"ttl_ms": 3_600_000}], ["expire", "n", {"ttl_ms": 1}], ["expire", "soon", {"ttl_ms": 300}]]),
    );
    assert_eq!(answer["results"], json!([1, true, true]), "{answer}");
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, answer) = http.call("ordered.get", &json!({"keys": ["soon", "kept", "n"]}));
        if answer["values"] == json!([null, bytes("1"), null]) {
            break;
        }
        assert!(Instant::now() < until, "{answer}");
    }
    // Removed in the log too.
    server.wait_for_metric("millpond_store_expiring_keys{store=\"events\"} 0");
    server.wait_for_metric("millpond_store_keys{store=\"events\"} 1");
    drop(http);
    assert!(server.terminate().success());
    let server = Millpond::start(folder.path(), &[]);
    let (_, page) = server.call("ordered.scan", &json!({"limit": 10}));
    assert_eq!(page["entries"], json!([[bytes("kept"), bytes("1")]]));
}

#[test]
fn a_store_without_a_log_answers_the_same_at_once_and_by_its_queue() {
    let folder = r1_folder();
    let config = folder.path().join("millpond.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let changed = text.replace("path = \"events\"", "durability = \"memory\"");
    assert_ne!(text, changed);
    std::fs::write(&config, changed).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    // What is small is made where it was called, and what is large by the queue.
    let large = "x".repeat(100_000);
    for (version, value) in (1..).zip(["small", &large, "small", &large]) {
        let (status, answer) = http.call("ordered.put", &json!({"entries": [["k", value]]}));
        assert_eq!(
            (status, &answer["versions"]),
            (200, &json!([version])),
            "{answer}"
        );
        assert_eq!(answer["durability"], "memory");
        let (_, answer) = http.call("ordered.get", &json!({"keys": ["k"]}));
        assert_eq!(answer["values"], json!([bytes(value)]));
    }
    let (_, answer) = batch(
        &mut http,
        &json!([["remove", "k"], ["increment", "n", 2], ["put", "k", large]]),
    );
    assert_eq!(answer["results"], json!([true, 2, 7]));
    let (status, answer) = http.call(
        "ordered.put",
        &json!({"entries": [["k", "1"]], "if_absent": true}),
    );
    assert_eq!((status, answer["code"].as_u64()), (409, Some(30112)), "{answer}");
    assert!(server.terminate().success());
}

#[test]
fn batches_come_over_frames_too() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut frames = Frames::connect(&server.addr);
    // {"operations": [["put", bin "k", bin "v"], ["get", bin "k"]]}
    let payload = b"\x81\xaaoperations\x92\x93\xa3put\xc4\x01k\xc4\x01v\x92\xa3get\xc4\x01k";
    let (status, answer) = frames.call("ordered.batch", Encoding::Msgpack, payload);
    assert_eq!(status, 0);
    // {"results": [1, bin "v"], "durability": "synced"}
    assert_eq!(
        answer,
        b"\x82\xa7results\x92\x01\xc4\x01v\xaadurability\xa6synced"
    );
}

#[test]
fn what_cannot_be_done_is_refused_by_name_and_changes_nothing() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    http.call(
        "ordered.put",
        &json!({"entries": [["text", "many"], ["most", i64::MAX.to_string()]]}),
    );
    let mut check = |method: &str, payload: Value, status: u16, words: &str| {
        let (found, answer) = http.call(method, &payload);
        let ex = answer["ex"].as_str().unwrap_or_default();
        assert!(found == status && ex.contains(words), "{payload}: {answer}");
    };
    let of = |operation: Value| json!({"operations": [["put", "new", "1"], operation]});
    let not_a_number = "\"text\" does not hold a whole number of 64 bits";
    check(
        "ordered.increment",
        json!({"key": "text", "by": 1}),
        400,
        not_a_number,
    );
    check(
        "ordered.batch",
        of(json!(["increment", "text", 1])),
        400,
        not_a_number,
    );
    check(
        "ordered.increment",
        json!({"key": "most", "by": 1}),
        400,
        "1 more does not fit 64 bits",
    );
    check(
        "ordered.increment",
        json!({"key": "most", "by": 1.5}),
        400,
        "\"by\"",
    );
    check(
        "ordered.batch",
        json!({"operations": []}),
        400,
        "nothing to write",
    );
    check("ordered.remove", json!({"keys": []}), 400, "nothing to write");
    check("ordered.batch", of(json!(["drop", "text"])), 400, "operations[1]");
    check(
        "ordered.batch",
        of(json!(["remove", "text", {"if_absent": true}])),
        400,
        "options that do not go with it",
    );
    check(
        "ordered.put",
        json!({"entries": [["a", "1"]], "ttl_ms": 0}),
        400,
        "a time to live of 0 ms",
    );
    check("ordered.expire", json!({"keys": ["text"]}), 400, "ttl_ms");
    let many = vec![json!(["get", "text"]); 10_001];
    check("ordered.batch", json!({"operations": many}), 400, "at most 10000");
    check(
        "ordered.remove",
        json!({"keys": ["text"], "table": "none"}),
        404,
        "none",
    );
    check(
        "ordered.remove",
        json!({"keys": ["text", "most"], "if_version": 1}),
        409,
        "\"most\" is at version 2",
    );
    let (_, answer) = http.call("ordered.get", &json!({"keys": ["new", "text"]}));
    assert_eq!(answer["versions"], json!([0, 1]));
}

#[test]
fn a_batch_that_reads_more_than_an_answer_holds_is_refused_first() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let (status, answer) = http.call(
        "ordered.put",
        &json!({"entries": [["large", "x".repeat(3 << 20)]]}),
    );
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = batch(
        &mut http,
        &json!([["increment", "n", 1], ["get", "large"], ["get", "large"]]),
    );
    assert_eq!((status, answer["code"].as_u64()), (413, Some(30110)), "{answer}");
    let (_, answer) = http.call("ordered.increment", &json!({"key": "n", "by": 1}));
    assert_eq!(answer["value"], json!(1));
}
