//! Tables of bytes by the native protocol, HTTP and RESP: rows of a length of their own, and of a fixed one among numbers.

use super::resp::Redis;
use crate::harness::Millpond;
use millpond_client_rust::schema::features_lookup::{Call, Lookup, RowType};
use millpond_client_rust::schema::infer::Data;
use millpond_client_rust::{Client, Options};
use millpond_engines_features::{Cell, Column, Numbers, Schema, Table, write::Writer};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 1
frame_bytes_max = 65536
[server.resp]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[features.docs]
path = "tables/docs"
resp_database = 0
MEMORY
[features.mixed]
path = "tables/mixed"
resp_database = 1
"#;

const LONG: usize = 5000;

fn column(name: &str, numbers: Numbers, dim: usize) -> Column {
    Column {
        name: name.to_owned(),
        numbers,
        dim,
    }
}

/// `docs`: a base and a delta; `mixed`: a number and four bytes a row.
fn folder(memory: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("MEMORY", memory);
    std::fs::write(folder.path().join("millpond.toml"), config).unwrap();
    docs(&folder.path().join("tables/docs"));
    let schema = Schema {
        columns: vec![column("price", Numbers::F32, 1), column("raw", Numbers::Bytes, 4)],
        ..Schema::floats(1)
    };
    let mixed = folder.path().join("tables/mixed");
    let mut writer = Writer::create(&mixed, "mixed", 1, schema, 1).unwrap();
    let cells = [Cell::Numbers(&[0.5]), Cell::Bytes(b"\0\r\n\xff")];
    writer.push_cells(7, &cells).unwrap();
    writer.finish().unwrap();
    folder
}

/// Version 1 has keys 1 to 5; version 2 changes 2, removes 3 and adds 6.
fn docs(dir: &Path) {
    let schema = Schema {
        columns: vec![column("doc", Numbers::VaryingBytes, 0)],
        default_row: Some(b"{}".map(f32::from).to_vec()),
        ..Schema::floats(1)
    };
    let long = vec![b'x'; LONG];
    let mut writer = Writer::create(dir, "docs", 1, schema, 2).unwrap();
    let rows: [&[u8]; 5] = [b"one", b"two", b"three", b"", &long];
    for (key, row) in (1..).zip(rows) {
        writer.push_cells(key, &[Cell::Bytes(row)]).unwrap();
    }
    let base = writer.finish().unwrap().path;
    let base = Arc::new(Table::open(&base).unwrap());
    let mut writer = Writer::create_delta(dir, 2, base, 2).unwrap();
    writer.push_cells(2, &[Cell::Bytes(b"zwei\r\n\0")]).unwrap();
    writer.push_cells(6, &[Cell::Bytes(b"six")]).unwrap();
    assert!(writer.remove(3).unwrap());
    writer.finish().unwrap();
}

/// What the table answers to a call by JSON, with numbers for blocks.
fn check(server: &Millpond, call: Value, expected: Value) {
    let (status, answer) = server.call("features.lookup", &call);
    let is_met = match expected.as_str() {
        Some(words) => status != 200 && answer["ex"].as_str().unwrap().contains(words),
        None => status == 200 && answer == expected,
    };
    assert!(is_met, "{call}: {status} {answer}, not {expected}");
}

fn bytes(text: &str) -> Value {
    json!(text.as_bytes())
}

#[test]
fn rows_of_their_own_length_come_with_offsets() {
    for memory in ["", "memory = \"mapped\""] {
        let folder = folder(memory);
        let server = Millpond::start(folder.path(), &[]);
        check(
            &server,
            json!({"table": "docs", "keys": [2, 3, 4, 6, 1], "type": "u8"}),
            json!({"version": 2, "dim": 0, "type": "u8", "found": [0b11101],
                "values": bytes("zwei\r\n\0{}sixone"), "offsets": [0, 7, 9, 9, 12, 15]}),
        );
        check(
            &server,
            json!({"table": "docs", "keys": [6, 6, 1], "type": "u8", "unique": true, "columns": ["doc"]}),
            json!({"version": 2, "dim": 0, "type": "u8", "found": [3], "values": bytes("sixone"),
                "offsets": [0, 3, 6], "inverse": [0, 0, 1]}),
        );
        check(
            &server,
            json!({"lookups": [
                {"table": "docs", "keys": [], "type": "u8"},
                {"table": "mixed", "keys": [7], "type": "u8", "columns": ["raw"]},
                {"table": "docs", "keys": [3, 4], "type": "none"},
            ]}),
            json!({"lookups": [
                {"version": 2, "dim": 0, "type": "u8", "found": [], "values": [], "offsets": [0]},
                {"version": 1, "dim": 4, "type": "u8", "found": [1], "values": [0, 13, 10, 255]},
                {"version": 2, "dim": 0, "type": "none", "found": [2], "values": []},
            ]}),
        );
        // Blocks are base64 where a call asks for that.
        let keys = "AQAAAAAAAAAGAAAAAAAAAA==";
        let call = json!({"table": "docs", "keys": keys, "type": "u8", "base64": true});
        let (status, answer) = server.call("features.lookup", &call);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["values"], json!("b25lc2l4"), "{answer}");
        assert_eq!(answer["offsets"], json!("AAAAAAMAAAAGAAAA"), "{answer}");
    }
}

#[test]
fn bytes_are_neither_pooled_nor_converted_and_bounded_before_they_are_copied() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    for (call, words) in [
        (
            json!({"table": "docs", "keys": [1]}),
            "type: expected \"u8\", because column \"doc\" holds bytes, found \"f32\"",
        ),
        (
            json!({"table": "mixed", "keys": [1], "type": "f16"}),
            "type: expected \"u8\", because column \"raw\" holds bytes, found \"f16\"",
        ),
        (
            json!({"table": "docs", "keys": [1], "pool": "sum", "offsets": [0, 1]}),
            "column \"doc\" of table \"docs\" holds bytes, which are not pooled",
        ),
        (
            json!({"table": "mixed", "keys": [1], "pool": "max", "offsets": [0, 1]}),
            "column \"raw\" of table \"mixed\" holds bytes, which are not pooled",
        ),
        (
            json!({"table": "docs", "keys": vec![5; 14], "type": "u8"}),
            "the answer would hold 70060 bytes of rows; the limit is",
        ),
        (
            json!({"lookups": vec![json!({"table": "docs", "keys": [5, 5], "type": "u8"}); 8]}),
            "the answer would hold",
        ),
    ] {
        check(&server, call, json!(words));
    }
    // The numbers beside them are as any others.
    check(
        &server,
        json!({"table": "mixed", "keys": [7, 8], "columns": ["price"], "pool": "sum", "offsets": [0, 2]}),
        json!({"version": 1, "dim": 1, "type": "f32", "found": [1], "values": [0.5]}),
    );
}

#[test]
fn redis_clients_get_exactly_the_bytes() {
    for memory in ["", "memory = \"mapped\""] {
        let folder = folder(memory);
        let server = Millpond::start(folder.path(), &[]);
        let mut redis = Redis::connect(&server);
        redis.check(b"GET 2\r\n", b"$7\r\nzwei\r\n\0\r\n");
        // An empty row is there; a removed one is not, whatever the default row is.
        redis.check(
            b"MGET 4 3 6 1\r\n",
            b"*4\r\n$0\r\n\r\n$-1\r\n$3\r\nsix\r\n$3\r\none\r\n",
        );
        redis.check(b"GET 3\r\nGET 4\r\nGET 1\r\n", b"$-1\r\n$0\r\n\r\n$3\r\none\r\n");
        for (key, length) in [(5, LONG), (4, 0), (3, 0), (2, 7)] {
            redis.line(&format!("STRLEN {key}"), &format!(":{length}\r\n"));
        }
        redis.line("EXISTS 1 2 3 4", ":3\r\n");
        redis.line("TYPE 4", "+string\r\n");
        redis.line("DBSIZE", ":5\r\n");
        redis.line("SELECT 1", "+OK\r\n");
        redis.check(b"GET 7\r\n", b"$8\r\n\0\0\0?\0\r\n\xff\r\n");
        redis.line("STRLEN 7", ":8\r\n");
    }
}

#[test]
fn the_native_client_reads_offsets() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let lookup = Lookup {
        table: "docs".into(),
        keys: Some(vec![1, 9, 5]),
        texts: None,
        at_version: Some(2),
        pool: Default::default(),
        offsets: Vec::new(),
        columns: Vec::new(),
        row_type: RowType::U8,
        unique: false,
        map: None,
    };
    let rows = runtime.block_on(async {
        let client = Client::connect(&server.addr, Options::default()).await.unwrap();
        let call = Call::One(lookup);
        client
            .features_lookup(&call, Some(Duration::from_secs(60)))
            .await
            .unwrap()
    });
    let expected = [&b"one{}"[..], &vec![b'x'; LONG]].concat();
    assert_eq!(rows[0].values, Data::U8(expected));
    assert_eq!(rows[0].offsets, Some(vec![0, 3, 5, 5 + LONG as u32]));
    assert_eq!((rows[0].dim, &rows[0].found[..]), (0, &[0b101][..]));
}
