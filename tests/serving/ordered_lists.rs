//! Lists of ordered stores, what keys are, and what puts ask of their keys.

use crate::harness::{Frames, Http, Millpond, r1_folder};
use millpond_wire_frame::Encoding;
use serde_json::{Value, json};

fn bytes(text: &str) -> Value {
    json!(text.as_bytes())
}

fn all(texts: &[&str]) -> Value {
    texts.iter().map(|text| bytes(text)).collect()
}

/// The answer to a call that succeeds.
fn ok(http: &mut Http, method: &str, call: &Value) -> Value {
    let (status, answer) = http.call(method, call);
    assert_eq!(status, 200, "{method} {call}: {answer}");
    answer
}

/// The error of a call that is refused with this code.
fn refused(http: &mut Http, method: &str, call: &Value, code: u64) -> String {
    let (_, answer) = http.call(method, call);
    assert_eq!(answer["code"], code, "{method} {call}: {answer}");
    answer["ex"].as_str().unwrap_or_default().to_owned()
}

fn items(http: &mut Http, key: &str, start: i64, stop: i64) -> Value {
    ok(
        http,
        "ordered.items",
        &json!({"key": key, "start": start, "stop": stop}),
    )["items"]
        .clone()
}

#[test]
fn a_list_keeps_its_newest_items_across_a_restart() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let answer = ok(
        &mut http,
        "ordered.append",
        &json!({"key": "l", "items": ["a", "b"]}),
    );
    assert_eq!(answer, json!({"count": 2, "version": 1, "durability": "synced"}));
    let answer = ok(
        &mut http,
        "ordered.append",
        &json!({"key": "l", "items": ["c", "", "e"], "keep": 4}),
    );
    assert_eq!(answer, json!({"count": 4, "version": 2, "durability": "synced"}));
    assert_eq!(items(&mut http, "l", 0, -1), all(&["e", "", "c", "b"]));
    assert_eq!(items(&mut http, "l", 1, 2), all(&["", "c"]));
    assert_eq!(items(&mut http, "l", -1, -1), all(&["b"]));
    assert_eq!(items(&mut http, "l", -2, 100), all(&["c", "b"]));
    assert_eq!(items(&mut http, "l", 3, 1), json!([]));
    assert_eq!(items(&mut http, "none", 0, -1), json!([]));
    let answer = ok(
        &mut http,
        "ordered.trim",
        &json!({"key": "l", "start": 1, "stop": -2}),
    );
    assert_eq!((&answer["count"], &answer["version"]), (&json!(2), &json!(3)));
    // What is trimmed already stays as it is, and so does what is not there.
    let answer = ok(
        &mut http,
        "ordered.trim",
        &json!({"key": "l", "start": 0, "stop": 9}),
    );
    assert_eq!((&answer["count"], &answer["version"]), (&json!(2), &json!(3)));
    let answer = ok(
        &mut http,
        "ordered.trim",
        &json!({"key": "none", "start": 0, "stop": 9}),
    );
    assert_eq!((&answer["count"], &answer["version"]), (&json!(0), &json!(0)));
    drop(http);
    assert!(server.terminate().success());

    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    assert_eq!(items(&mut http, "l", 0, -1), all(&["", "c"]));
    let answer = ok(&mut http, "ordered.append", &json!({"key": "l", "items": ["f"]}));
    assert_eq!((&answer["count"], &answer["version"]), (&json!(3), &json!(4)));
    // Trimmed to nothing, it is not there any more.
    let answer = ok(
        &mut http,
        "ordered.trim",
        &json!({"key": "l", "start": 5, "stop": 9}),
    );
    assert_eq!((&answer["count"], &answer["version"]), (&json!(0), &json!(0)));
    let answer = ok(&mut http, "ordered.inspect", &json!({"keys": ["l"]}));
    assert_eq!(
        answer["keys"],
        json!([{"kind": "none", "version": 0, "bytes": 0}])
    );
}

#[test]
fn lists_and_bytes_are_told_apart() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    ok(
        &mut http,
        "ordered.append",
        &json!({"key": "l", "items": ["a", "bc"]}),
    );
    ok(&mut http, "ordered.put", &json!({"entries": [["k", "v"]]}));
    let of_list = "wrong kind of value: key \"l\" holds a list, and this is done with bytes alone";
    for (method, call) in [
        ("ordered.get", json!({"keys": ["k", "l"]})),
        ("ordered.increment", json!({"key": "l", "by": 1})),
        ("ordered.concatenate", json!({"key": "l", "value": "x"})),
        (
            "ordered.batch",
            json!({"operations": [["put", "k", "w"], ["get", "l"]]}),
        ),
    ] {
        assert_eq!(refused(&mut http, method, &call, 30104), of_list, "{method}");
    }
    let of_bytes = "wrong kind of value: key \"k\" holds bytes, and this is done with a list alone";
    for (method, call) in [
        ("ordered.append", json!({"key": "k", "items": ["x"]})),
        ("ordered.items", json!({"key": "k", "start": 0, "stop": -1})),
        ("ordered.trim", json!({"key": "k", "start": 0, "stop": -1})),
        (
            "ordered.batch",
            json!({"operations": [["put", "k", "w"], ["items", "k", 0, -1]]}),
        ),
    ] {
        assert_eq!(refused(&mut http, method, &call, 30104), of_bytes, "{method}");
    }
    let answer = ok(&mut http, "ordered.get", &json!({"keys": ["k"]}));
    assert_eq!(
        answer["values"],
        all(&["v"]),
        "a batch that is refused has put nothing"
    );
    let answer = ok(&mut http, "ordered.scan", &json!({"limit": 9}));
    assert_eq!(
        answer,
        json!({"entries": [[bytes("k"), bytes("v")], [bytes("l"), bytes("")]], "lists": [1]})
    );
    let answer = ok(&mut http, "ordered.inspect", &json!({"keys": ["k", "l", "m"]}));
    assert_eq!(
        answer["keys"],
        json!([
            {"kind": "bytes", "version": 2, "bytes": 1},
            {"kind": "list", "version": 1, "bytes": 3, "count": 2},
            {"kind": "none", "version": 0, "bytes": 0},
        ])
    );
    // A put takes either, and leaves bytes.
    ok(&mut http, "ordered.put", &json!({"entries": [["l", "v"]]}));
    let answer = ok(&mut http, "ordered.get", &json!({"keys": ["l"]}));
    assert_eq!(answer["values"], all(&["v"]));
    let answer = ok(&mut http, "ordered.scan", &json!({"limit": 9}));
    assert_eq!(answer.get("lists"), None);
}

#[test]
fn a_batch_sees_its_own_lists() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let operations = json!([
        ["append", "l", ["a"]],
        ["append", "l", ["b", "c"], {"keep": 2, "ttl_ms": 3_600_000}],
        ["items", "l", 0, -1],
        ["trim", "l", 0, 0],
        ["inspect", "l"],
        ["concatenate", "t", "x"],
        ["concatenate", "t", "yz"],
        ["get", "t"],
        ["trim", "l", 7, 9],
        ["inspect", "l"],
        ["append", "l", ["d"]],
    ]);
    let mut answer = ok(&mut http, "ordered.batch", &json!({"operations": operations}));
    let lasts = answer["results"][4]["ttl_ms"].take().as_u64();
    assert!(
        lasts.is_some_and(|lasts| (1..=3_600_000).contains(&lasts)),
        "{answer}"
    );
    let list = json!({"kind": "list", "version": 3, "ttl_ms": null, "bytes": 1, "count": 1});
    let gone = json!({"kind": "none", "version": 0, "bytes": 0});
    assert_eq!(
        answer["results"],
        json!([1, 2, {"items": all(&["c", "b"])}, 1, list, 1, 3, bytes("xyz"), 0, gone, 1])
    );
    let answer = ok(
        &mut http,
        "ordered.concatenate",
        &json!({"key": "t", "value": "!"}),
    );
    assert_eq!(answer, json!({"bytes": 4, "version": 8, "durability": "synced"}));
    drop(http);
    assert!(server.terminate().success());
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    assert_eq!(items(&mut http, "l", 0, -1), all(&["d"]));
    let answer = ok(&mut http, "ordered.get", &json!({"keys": ["t"]}));
    assert_eq!(
        (&answer["values"], &answer["versions"]),
        (&all(&["xyz!"]), &json!([8]))
    );
    // The same over frames, and of the whole store.
    let mut frames = Frames::connect(&server.addr);
    let call = br#"{"key": "l", "start": 0, "stop": 0}"#;
    let (status, answer) = frames.call("ordered.items", Encoding::Json, call);
    assert_eq!(
        (status, answer.as_slice()),
        (0, br#"{"items":[[100]]}"#.as_slice())
    );
    let answer = ok(&mut http, "ordered.inspect", &json!({}));
    let store = &answer["store"];
    assert_eq!(
        (
            &store["entries"],
            &store["expiring"],
            &store["durability"],
            &store["read_only"]
        ),
        (&json!(2), &json!(0), &json!("synced"), &json!(false)),
        "{answer}"
    );
}

#[test]
fn puts_ask_that_their_keys_are_there_and_keep_their_time() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let put = json!({"entries": [["k", "1"]], "if_present": true});
    let error = refused(&mut http, "ordered.put", &put, 30112);
    assert!(error.contains("key \"k\" is not there"), "{error}");
    ok(
        &mut http,
        "ordered.put",
        &json!({"entries": [["k", "1"]], "ttl_ms": 3_600_000}),
    );
    ok(
        &mut http,
        "ordered.put",
        &json!({"entries": [["k", "2"]], "if_present": true, "keep_ttl": true}),
    );
    let lasts =
        |http: &mut Http| ok(http, "ordered.inspect", &json!({"keys": ["k"]}))["keys"][0]["ttl_ms"].as_u64();
    let is_long = |lasts: Option<u64>| lasts.is_some_and(|lasts| (3_000_000..=3_600_000).contains(&lasts));
    assert!(is_long(lasts(&mut http)));
    let operations = json!([["put", "k", "3", {"keep_ttl": true, "if_present": true}], ["inspect", "k"]]);
    let answer = ok(&mut http, "ordered.batch", &json!({"operations": operations}));
    assert!(is_long(answer["results"][1]["ttl_ms"].as_u64()), "{answer}");
    let operations = json!([["put", "other", "1"], ["put", "none", "1", {"if_present": true}]]);
    refused(
        &mut http,
        "ordered.batch",
        &json!({"operations": operations}),
        30112,
    );
    ok(&mut http, "ordered.put", &json!({"entries": [["k", "4"]]}));
    assert_eq!(lasts(&mut http), None, "a plain put makes it last for good");
}

#[test]
fn what_no_list_can_hold_is_refused() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let append = |items: Value, keep: Value| json!({"key": "l", "items": items, "keep": keep});
    let error = refused(
        &mut http,
        "ordered.append",
        &append(json!([]), json!(null)),
        30104,
    );
    assert!(error.contains("send at least one item"), "{error}");
    let error = refused(
        &mut http,
        "ordered.append",
        &append(json!(["a"]), json!(0)),
        30104,
    );
    assert!(error.contains("keep at least one"), "{error}");
    let error = refused(&mut http, "ordered.append", &append(json!("a"), json!(1)), 30104);
    assert!(error.contains("key \"items\""), "{error}");
    let whole = "x".repeat(1 << 20);
    let error = refused(
        &mut http,
        "ordered.append",
        &append(json!([whole]), json!(null)),
        30110,
    );
    assert!(error.contains("bytes of a list: 1048584"), "{error}");
    let half = "x".repeat(600_000);
    ok(&mut http, "ordered.append", &append(json!([half]), json!(null)));
    let error = refused(
        &mut http,
        "ordered.append",
        &append(json!([half]), json!(null)),
        30110,
    );
    assert!(
        error.contains("bytes of a list: 1200012, at most 1048576"),
        "{error}"
    );
    // With a cap there is room for it.
    let answer = ok(&mut http, "ordered.append", &append(json!([half]), json!(1)));
    assert_eq!(answer["count"], 1);
    let many = json!({"keys": vec!["k"; 100_000]});
    let error = refused(&mut http, "ordered.inspect", &many, 30110);
    assert!(error.contains("100000 keys, and the limit is"), "{error}");
    let call = json!({"entries": [["k", "v"]], "ttl_ms": 1, "keep_ttl": true});
    let error = refused(&mut http, "ordered.put", &call, 30104);
    assert!(error.contains("keep_ttl"), "{error}");
}

#[test]
fn keys_with_a_prefix_go_in_steps() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let entries: Vec<Value> = (0..25).map(|i| json!([format!("u/1/{i:02}"), "v"])).collect();
    ok(&mut http, "ordered.put", &json!({"entries": entries}));
    ok(
        &mut http,
        "ordered.put",
        &json!({"entries": [["u/0", "v"], ["u/2", "v"]]}),
    );
    ok(
        &mut http,
        "ordered.append",
        &json!({"key": "u/1/list", "items": ["a"]}),
    );
    let step = |http: &mut Http| {
        ok(
            http,
            "ordered.remove_prefix",
            &json!({"prefix": "u/1/", "limit": 10}),
        )
    };
    let answer = |removed, more| json!({"removed": removed, "more": more, "durability": "synced"});
    assert_eq!(step(&mut http), answer(10, true));
    assert_eq!(step(&mut http), answer(10, true));
    assert_eq!(step(&mut http), answer(6, false));
    assert_eq!(step(&mut http), answer(0, false));
    let left = ok(&mut http, "ordered.scan", &json!({"limit": 9, "keys_only": true}));
    let left: Vec<&Value> = left["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry[0])
        .collect();
    assert_eq!(left, [&bytes("u/0"), &bytes("u/2")]);
    let call = json!({"prefix": "", "limit": 10});
    let error = refused(&mut http, "ordered.remove_prefix", &call, 30104);
    assert!(error.contains("ordered.clear removes all keys"), "{error}");
}

#[test]
fn a_store_is_cleared_by_whoever_has_a_token() {
    let folder = r1_folder();
    let token = &["admin.token=s3cret-admin"];
    let server = Millpond::start(folder.path(), token);
    let mut http = Http::connect(&server.addr);
    // More than one step.
    for part in 0..3 {
        let entries: Vec<Value> = (0..8000).map(|i| json!([format!("{part}/{i}"), "v"])).collect();
        ok(&mut http, "ordered.put", &json!({"entries": entries}));
    }
    refused(&mut http, "ordered.clear", &json!({}), 30109);
    let call = json!({"_token": "s3cret-admin"});
    let answer = ok(&mut http, "ordered.clear", &call);
    assert_eq!(answer, json!({"removed": 24_000, "durability": "synced"}));
    assert_eq!(ok(&mut http, "ordered.clear", &call)["removed"], 0);
    ok(&mut http, "ordered.put", &json!({"entries": [["k", "v"]]}));
    drop(http);
    assert!(server.terminate().success());
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let left = ok(&mut http, "ordered.scan", &json!({"limit": 9}));
    assert_eq!(left, json!({"entries": [[bytes("k"), bytes("v")]]}));
    // Without a token in the configuration nobody may.
    refused(&mut http, "ordered.clear", &call, 30109);
    refused(&mut http, "ordered.checkpoint", &call, 30109);
}
