//! Cursors of RESP: every key once, and of one version.

use super::resp::{CONFIG, ROWS, Redis, folder, make_version};
use crate::harness::Millpond;
use millpond_engines_features::Numbers;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn a_scan_lists_every_key_once() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    let mut scan = |options: &str| {
        let (mut cursor, mut keys, mut pages) = ("0".to_owned(), Vec::new(), 0);
        loop {
            redis
                .0
                .write_all(format!("SCAN {cursor} {options}\r\n").as_bytes())
                .unwrap();
            let page = page(&mut redis.0);
            (cursor, pages) = (page.0, pages + 1);
            keys.extend(page.1);
            if cursor == "0" {
                return (keys, pages);
            }
        }
    };
    let number = |keys: Vec<String>| -> Vec<u64> { keys.iter().map(|key| key.parse().unwrap()).collect() };
    let (keys, pages) = scan("");
    assert!(pages >= 10, "{pages}");
    let unique: BTreeSet<u64> = number(keys.clone()).into_iter().collect();
    assert_eq!((keys.len(), unique), (100, (1..=ROWS).collect()));
    let (keys, _) = scan("COUNT 1000");
    assert_eq!(keys.len(), 100);
    let mut found = number(scan("MATCH 9? COUNT 7").0);
    found.sort_unstable();
    assert_eq!(found, (90..=99).collect::<Vec<u64>>());
    assert_eq!(scan("TYPE string COUNT 1000").0.len(), 100);
    assert!(scan("TYPE list COUNT 1000").0.is_empty());
    redis.line("SCAN x", "-ERR invalid cursor\r\n");
    redis.line("SCAN 0 COUNT 0", "-ERR syntax error\r\n");
    redis.line("SCAN 0 COUNT", "-ERR syntax error\r\n");
    redis.line("SCAN 0 FROM 1", "-ERR syntax error\r\n");
    redis.line(
        "SCAN 77",
        "-ERR the cursor does not come from version 1 of table \"films\", which serves now; begin the scan again without a cursor, or with 0 by SCAN\r\n",
    );
}

#[test]
fn a_cursor_is_of_one_version_whatever_bits_others_have() {
    let folder = folder(&format!(
        "{CONFIG}\n[access.tokens.deploy]\ntoken = \"s3cret\"\nmethods = [\"features.activate\"]\n"
    ));
    let server = Millpond::start(folder.path(), &[]);
    let [mut one, mut other] = [(); 2].map(|()| Redis::connect(&server));
    let scan = |redis: &mut Redis, cursor: &str| {
        redis
            .0
            .write_all(format!("SCAN {cursor}\r\n").as_bytes())
            .unwrap();
        page(&mut redis.0)
    };
    let (cursor, _) = scan(&mut one, "0");
    let (next, keys) = scan(&mut one, &cursor);
    assert_eq!(
        scan(&mut other, &cursor),
        (next.clone(), keys),
        "any connection may go on"
    );
    // Its number has the lowest bits of the other's.
    make_version(&folder.path().join("tables"), "films", 65_537, Numbers::F32);
    let switch = json!({"table": "films", "version": 65_537, "_token": "s3cret"});
    let (status, answer) = server.call("features.activate", &switch);
    assert_eq!(status, 200, "{answer}");
    one.line(
        &format!("SCAN {next}"),
        "-ERR the cursor does not come from version 65537 of table \"films\", which serves now; begin the scan again without a cursor, or with 0 by SCAN\r\n",
    );
    let (begun, keys) = scan(&mut one, "0");
    assert!(begun != "0" && !keys.is_empty());
}

/// The cursor and the keys of one page.
fn page(stream: &mut TcpStream) -> (String, Vec<String>) {
    let mut line = || {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap().trim().to_owned()
    };
    assert_eq!(line(), "*2");
    line();
    let cursor = line();
    let count: usize = line().strip_prefix('*').unwrap().parse().unwrap();
    let keys = (0..count).map(|_| {
        line();
        line()
    });
    (cursor, keys.collect())
}
