//! `features.upsert` of tables of bytes: rows of any length are seen by every protocol, kept over a kill, and folded.

use super::resp::Redis;
use crate::harness::{Millpond, millpond};
use millpond_engines_features::{Cell, Column, Numbers, Schema, write::Writer};
use serde_json::{Value, json};
use std::path::Path;

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 2
frame_bytes_max = 65536
[server.resp]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[features.docs]
path = "tables/docs"
resp_database = 0
[features.docs.overlay]
path = "overlay"
durability = "logged"
[features.mixed]
path = "tables/mixed"
resp_database = 1
[features.mixed.overlay]
durability = "memory"
[access.tokens.deploy]
token = "s3cret"
methods = ["features.activate"]
"#;

/// `docs`: the keys 1 to 3; `mixed`: a number and four bytes a row.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), CONFIG).unwrap();
    let column = |name: &str, numbers, dim| Column {
        name: name.to_owned(),
        numbers,
        dim,
    };
    let write = |name: &str, columns, default_row, rows: &[(u64, Vec<Cell<'_>>)]| {
        let schema = Schema {
            columns,
            default_row,
            ..Schema::floats(1)
        };
        let dir = folder.path().join("tables").join(name);
        let mut writer = Writer::create(&dir, name, 1, schema, 1).unwrap();
        for (key, cells) in rows {
            writer.push_cells(*key, cells).unwrap();
        }
        writer.finish().unwrap();
    };
    let docs = [(1, &b"one"[..]), (2, b"two"), (3, b"three")];
    let docs = docs.map(|(key, row)| (key, vec![Cell::Bytes(row)]));
    let default_row = b"{}".map(f32::from).to_vec();
    write(
        "docs",
        vec![column("doc", Numbers::VaryingBytes, 0)],
        Some(default_row),
        &docs,
    );
    let columns = vec![column("price", Numbers::F32, 1), column("raw", Numbers::Bytes, 4)];
    let cells = vec![Cell::Numbers(&[0.5]), Cell::Bytes(b"\0\r\n\xff")];
    write("mixed", columns, None, &[(7, cells)]);
    folder
}

fn call(server: &Millpond, method: &str, payload: Value) -> Value {
    let (status, answer) = server.call(method, &payload);
    assert_eq!(status, 200, "{method} {payload}: {answer}");
    answer
}

/// The rows of keys, and nothing for those that are not there.
fn rows(server: &Millpond, keys: &[u64]) -> Vec<Option<Vec<u8>>> {
    let answer = call(
        server,
        "features.lookup",
        json!({"table": "docs", "keys": keys, "type": "u8"}),
    );
    let numbers = |key: &str| -> Vec<usize> {
        let values = answer[key].as_array().unwrap().iter();
        values.map(|value| value.as_u64().unwrap() as usize).collect()
    };
    let (offsets, values, found) = (numbers("offsets"), numbers("values"), numbers("found"));
    let rows = offsets.windows(2).enumerate().map(|(at, ends)| {
        let row = values[ends[0]..ends[1]].iter().map(|byte| *byte as u8).collect();
        let is_found = found[at / 8] >> (at % 8) & 1 == 1;
        assert!(is_found || row == b"{}", "the default row");
        is_found.then_some(row)
    });
    rows.collect()
}

/// The keys of all pages of a scan, in order.
fn scanned(server: &Millpond) -> Vec<u64> {
    let (mut scanned, mut asked) = (Vec::new(), json!({"table": "docs", "limit": 100}));
    loop {
        let page = call(server, "features.scan", asked.clone());
        let keys = page["keys"].as_array().unwrap().iter();
        scanned.extend(keys.map(|key| key.as_u64().unwrap()));
        let Some(cursor) = page.get("cursor") else { break };
        asked["cursor"] = cursor.clone();
    }
    scanned.sort_unstable();
    scanned
}

fn row(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

fn run(folder: &Path, args: &[&str]) {
    let done = millpond().current_dir(folder).args(args).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn rows_of_any_length_are_seen_kept_and_folded() {
    let folder = folder();
    let long = "x".repeat(5000);
    let server = Millpond::start(folder.path(), &[]);
    let written = json!({"table": "docs", "keys": [2, 9, 10, 11], "rows": format!("zwei{long}elf"),
        "offsets": [0, 4, 4, 5004, 5007], "remove": [3]});
    let answer = call(&server, "features.upsert", written);
    assert_eq!(answer, json!({"sequence": 1, "durability": "logged"}));
    // In another length.
    let again = json!({"table": "docs", "keys": [11], "rows": [0, 13, 10, 255], "offsets": [0, 4], "columns": ["doc"]});
    call(&server, "features.upsert", again);

    let eleven = Some(vec![0, 13, 10, 255]);
    let keys = [1, 2, 3, 9, 10, 11, 12];
    let expected = [
        row("one"),
        row("zwei"),
        None,
        row(""),
        row(&long),
        eleven.clone(),
        None,
    ];
    let check = |server: &Millpond| {
        assert_eq!(rows(server, &keys), expected);
        let mut redis = Redis::connect(server);
        redis.check(
            b"MGET 1 2 3 9 11\r\n",
            b"*5\r\n$3\r\none\r\n$4\r\nzwei\r\n$-1\r\n$0\r\n\r\n$4\r\n\0\r\n\xff\r\n",
        );
        redis.check(b"GET 2\r\nGET 3\r\n", b"$4\r\nzwei\r\n$-1\r\n");
        for (key, length) in [(10, 5000), (9, 0), (3, 0), (11, 4)] {
            redis.line(&format!("STRLEN {key}"), &format!(":{length}\r\n"));
        }
        redis.line("EXISTS 1 2 3 9 10 11 12", ":5\r\n");
        assert_eq!(scanned(server), [1, 2, 9, 10, 11]);
    };
    check(&server);
    server.signal("KILL");

    let server = Millpond::start(folder.path(), &[]);
    check(&server);
    run(
        folder.path(),
        &["features", "fold", "tables/docs", "--log", "overlay"],
    );
    // The last group may still fail, and is left to the next fold.
    call(
        &server,
        "features.activate",
        json!({"table": "docs", "_token": "s3cret"}),
    );
    check(&server);
    server.wait_for("millpond_overlay_entries{table=\"docs\"}", |count| count == 1);
    check(&server);
    drop(server);

    let server = Millpond::start(folder.path(), &[]);
    check(&server);
    let answer = call(
        &server,
        "features.lookup",
        json!({"table": "docs", "keys": [2], "type": "none"}),
    );
    assert_eq!(answer["version"], json!(2));
}

#[test]
fn bytes_of_a_fixed_length_are_written_alone_or_with_the_numbers_beside_them() {
    let folder = folder();
    let server = Millpond::start(folder.path(), &[]);
    let looked_up = |columns: &[&str], row_type: &str| {
        let asked = json!({"table": "mixed", "keys": [7, 8], "columns": columns, "type": row_type});
        call(&server, "features.lookup", asked)["values"].clone()
    };
    let upsert = |columns: &[&str], key: u64, values: Value| {
        let mut written = json!({"table": "mixed", "keys": [key], "columns": columns});
        let name = if columns == ["price"] { "values" } else { "rows" };
        written[name] = values;
        call(&server, "features.upsert", written);
    };
    upsert(&["raw"], 7, json!([1, 0, 255, 3]));
    upsert(&["price"], 7, json!([1.5]));
    upsert(&[], 8, json!([0, 0, 0, 64, 97, 98, 99, 100]));
    assert_eq!(looked_up(&["price"], "f32"), json!([1.5, 2.0]));
    assert_eq!(looked_up(&["raw"], "u8"), json!([1, 0, 255, 3, 97, 98, 99, 100]));
    let mut redis = Redis::connect(&server);
    redis.line("SELECT 1", "+OK\r\n");
    redis.check(b"GET 8\r\n", b"$8\r\n\0\0\0@abcd\r\n");
}

#[test]
fn bytes_that_do_not_fit_are_refused_by_name() {
    let folder = folder();
    let server = Millpond::start(folder.path(), &[]);
    for (payload, code, words) in [
        (
            json!({"table": "docs", "keys": [1], "values": [1]}),
            30104,
            "values: expected none, because column \"doc\" holds bytes; send `rows`, found 1 numbers",
        ),
        (
            json!({"table": "docs", "keys": [1], "rows": "ab"}),
            30104,
            "offsets: expected 2",
        ),
        (
            json!({"table": "docs", "keys": [1, 2], "rows": "ab", "offsets": [0, 3, 2]}),
            30104,
            "offsets: expected ascending",
        ),
        (
            json!({"table": "mixed", "keys": [1], "rows": "ab"}),
            30104,
            "rows: expected 8 bytes for each of 1 keys, found 2 bytes",
        ),
        (
            json!({"table": "mixed", "keys": [1], "rows": [0, 0, 128, 127, 1, 2, 3, 4]}),
            30104,
            "inf",
        ),
        (
            json!({"table": "docs", "keys": [1], "rows": "ab", "values": [1]}),
            30104,
            "no `rows` beside `values`",
        ),
        (
            json!({"table": "docs", "keys": [1], "offsets": [0, 0]}),
            10009,
            "rows",
        ),
    ] {
        let (_, answer) = server.call("features.upsert", &payload);
        assert_eq!(answer["code"], json!(code), "{answer}");
        assert!(
            answer["ex"].as_str().unwrap().contains(words),
            "{words:?} is not in {answer}"
        );
    }
    // An answer is bounded whatever rows are in memory.
    let long = json!({"table": "docs", "keys": [5], "rows": "y".repeat(60_000), "offsets": [0, 60_000]});
    call(&server, "features.upsert", long);
    let (_, answer) = server.call(
        "features.lookup",
        &json!({"table": "docs", "keys": [5, 5, 5], "type": "u8"}),
    );
    assert!(
        answer["ex"].as_str().unwrap().contains("the answer would hold"),
        "{answer}"
    );
}
