//! Keys of ordered stores over RESP, page by page: SCAN and ORDERED.SCAN.

use super::resp::{Redis, command};
use super::resp_stores::{OK, check, folder};
use crate::harness::Millpond;
use std::io::{Read, Write};

/// 250 values, and two lists.
fn fill(redis: &mut Redis) {
    let sets: Vec<u8> = (0..250)
        .flat_map(|number| command(&[b"SET", format!("user:{number:03}").as_bytes(), b"v"]))
        .collect();
    redis.check(&sets, &OK.repeat(250));
    redis.line("LPUSH zlist a", ":1\r\n");
    redis.line("LPUSH user:list a", ":1\r\n");
}

#[test]
fn scans_go_on_by_any_connection() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    fill(&mut redis);
    let every = |options: &str| {
        let (mut cursor, mut keys) = ("0".to_owned(), Vec::new());
        loop {
            // Each page by another connection.
            let mut redis = Redis::connect(&server);
            redis
                .0
                .write_all(format!("SCAN {cursor} {options}\r\n").as_bytes())
                .unwrap();
            let (next, page) = page(&mut redis.0);
            keys.extend(page);
            if next == "0" {
                return keys;
            }
            cursor = next;
        }
    };
    let all = every("COUNT 7");
    assert_eq!((all.len(), all.is_sorted()), (252, true));
    assert_eq!(every("TYPE list COUNT 100"), ["user:list", "zlist"]);
    assert_eq!(every("TYPE string COUNT 100").len(), 250);
    assert_eq!(every("MATCH user:04?").len(), 10);
    assert_eq!(every("MATCH *1 COUNT 1000").len(), 25);
    assert!(every("TYPE hash COUNT 100").is_empty());
    redis.0.write_all(b"SCAN 0\r\n").unwrap();
    let (cursor, _) = page(&mut redis.0);
    let forgotten = "-ERR invalid cursor: it is of another database, the server was started again, or thousands of scans went on since; begin with 0\r\n";
    redis.line("SELECT 4", "+OK\r\n");
    redis.line(&format!("SCAN {cursor}"), forgotten);
    redis.line("SCAN x", "-ERR invalid cursor\r\n");
    redis.line("SCAN 0 COUNT 0", "-ERR syntax error\r\n");
}

#[test]
fn a_page_ends_where_holding_its_keys_against_a_pattern_takes_long() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    let tail = "a".repeat(1000);
    let all: Vec<String> = (0..60).map(|number| format!("key{number:02}{tail}")).collect();
    let sets: Vec<u8> = all
        .iter()
        .flat_map(|key| command(&[b"SET", key.as_bytes(), b"v"]))
        .collect();
    redis.check(&sets, &OK.repeat(60));
    // 256 bytes held against keys of 1,005.
    let pattern = format!("*{}*", "?a".repeat(127));
    let (mut cursor, mut keys, mut pages) = ("0".to_owned(), Vec::new(), Vec::new());
    loop {
        let line = format!("SCAN {cursor} MATCH {pattern} COUNT 1000\r\n");
        redis.0.write_all(line.as_bytes()).unwrap();
        let (next, page) = page(&mut redis.0);
        pages.push(page.len());
        keys.extend(page);
        if next == "0" {
            break;
        }
        cursor = next;
    }
    assert_eq!(pages, [19, 19, 19, 3]);
    assert_eq!(keys, all);
    // Keys that are held against none are not counted.
    redis.0.write_all(b"SCAN 0 COUNT 1000\r\n").unwrap();
    assert_eq!(page(&mut redis.0).1.len(), 60);
}

#[test]
fn ranges_go_on_by_their_keys() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    fill(&mut redis);
    check(
        &mut redis,
        &[
            (
                "ORDERED.SCAN user:000 user:002",
                "*2\r\n$-1\r\n*4\r\n$8\r\nuser:000\r\n$1\r\nv\r\n$8\r\nuser:001\r\n$1\r\nv\r\n",
            ),
            (
                "ORDERED.SCAN '' '' LIMIT 1 KEYS",
                "*2\r\n$8\r\nuser:001\r\n*1\r\n$8\r\nuser:000\r\n",
            ),
            (
                "ORDERED.SCAN '' '' LIMIT 1 KEYS CURSOR user:001",
                "*2\r\n$8\r\nuser:002\r\n*1\r\n$8\r\nuser:001\r\n",
            ),
            (
                "ORDERED.SCAN '' '' LIMIT 1 REV",
                "*2\r\n$9\r\nuser:list\r\n*2\r\n$5\r\nzlist\r\n$-1\r\n",
            ),
            (
                "ORDERED.SCAN '' '' REV KEYS LIMIT 1 CURSOR user:list",
                "*2\r\n$8\r\nuser:249\r\n*1\r\n$9\r\nuser:list\r\n",
            ),
            (
                "ORDERED.SCAN '' '' PREFIX z KEYS",
                "*2\r\n$-1\r\n*1\r\n$5\r\nzlist\r\n",
            ),
            ("ORDERED.SCAN user:002 user:001", "*2\r\n$-1\r\n*0\r\n"),
            (
                "ORDERED.SCAN '' '' LIMIT 0",
                "-ERR LIMIT is out of range; expected 1 to 10000\r\n",
            ),
            (
                "ORDERED.SCAN '' '' LIMIT x",
                "-ERR value is not an integer or out of range\r\n",
            ),
            ("ORDERED.SCAN '' '' LIMIT", "-ERR syntax error\r\n"),
            (
                "ORDERED.SCAN ''",
                "-ERR wrong number of arguments for 'ordered.scan' command\r\n",
            ),
        ],
    );
}

/// The cursor and keys of a page.
fn page(stream: &mut std::net::TcpStream) -> (String, Vec<String>) {
    let mut line = || {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line[..line.len() - 2].to_vec()).unwrap()
    };
    assert_eq!(line(), "*2");
    let mut text = || {
        line();
        line()
    };
    let cursor = text();
    let count: usize = line().strip_prefix('*').unwrap().parse().unwrap();
    let mut text = || {
        line();
        line()
    };
    (cursor, (0..count).map(|_| text()).collect())
}
