//! Ordered stores over RESP, byte by byte: commands, bounds, tokens and damage.

use super::failing_disk::compiled;
use super::resp::{Redis, command};
use crate::harness::Millpond;
use std::io::Write;
use std::net::Shutdown;
use std::path::Path;

const CONFIG: &str = r#"
default_store = "events"
[server]
listen = "127.0.0.1:0"
threads = 1
frame_bytes_max = 262144
[server.resp]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[ordered.events]
path = "events"
[ordered.sessions]
durability = "memory"
memory_bytes_max = 4096
resp_database = 4
"#;

pub(super) const OK: &[u8] = b"+OK\r\n";
pub(super) const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

pub(super) fn folder(more: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), format!("{CONFIG}{more}")).unwrap();
    folder
}

/// Sends lines, each with its reply.
pub(super) fn check(redis: &mut Redis, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        redis.line(line, expected);
    }
}

#[test]
fn values_are_replied_as_by_redis() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    check(
        &mut redis,
        &[
            ("GET a", "$-1\r\n"),
            ("SET a 1", "+OK\r\n"),
            ("GET a", "$1\r\n1\r\n"),
            ("INCRBY a 41", ":42\r\n"),
            ("DECR a", ":41\r\n"),
            ("APPEND a x", ":3\r\n"),
            ("INCR a", "-ERR value is not an integer or out of range\r\n"),
            ("SET f 10.50", "+OK\r\n"),
            ("INCRBYFLOAT f 0.1", "$4\r\n10.6\r\n"),
            ("INCRBYFLOAT f -5e0", "$3\r\n5.6\r\n"),
            ("INCRBYFLOAT g 3.0e3", "$4\r\n3000\r\n"),
            ("INCRBYFLOAT f x", "-ERR value is not a valid float\r\n"),
            (
                "INCRBYFLOAT f -Infinity",
                "-ERR increment would produce NaN or Infinity\r\n",
            ),
            ("INCRBYFLOAT f nan", "-ERR value is not a valid float\r\n"),
            ("INCRBYFLOAT a 1", "-ERR value is not a valid float\r\n"),
            (
                "INCRBYFLOAT g 999999999999999999999",
                "-ERR increment would produce NaN or Infinity\r\n",
            ),
            ("DEL f g", ":2\r\n"),
            ("SET a 9223372036854775807", "+OK\r\n"),
            ("INCR a", "-ERR increment or decrement would overflow\r\n"),
            (
                "DECRBY a -9223372036854775808",
                "-ERR decrement would overflow\r\n",
            ),
            ("SET a 2 NX", "$-1\r\n"),
            ("SETNX a 2", ":0\r\n"),
            ("SET b 2 XX", "$-1\r\n"),
            ("SET b 2 XX GET", "$-1\r\n"),
            ("SET a 2 GET", "$19\r\n9223372036854775807\r\n"),
            ("SET a 2 NX GET", "-ERR syntax error\r\n"),
            ("SET a 2 EX 10 PX 5", "-ERR syntax error\r\n"),
            ("SET a 2 EX 10 KEEPTTL", "-ERR syntax error\r\n"),
            ("SET a 2 EX 0", "-ERR invalid expire time in 'set' command\r\n"),
            ("SET a 2 EX x", "-ERR value is not an integer or out of range\r\n"),
            (
                "SET a 2 PX 9223372036854775807",
                "-ERR invalid expire time in 'set' command\r\n",
            ),
            ("MSETNX c 1 a 1", ":0\r\n"),
            ("MSETNX c 1 c 2", ":1\r\n"),
            (
                "MSET d 1 e",
                "-ERR wrong number of arguments for 'mset' command\r\n",
            ),
            ("MSET d 1 e ''", "+OK\r\n"),
            (
                "MGET a b c d e",
                "*5\r\n$1\r\n2\r\n$-1\r\n$1\r\n2\r\n$1\r\n1\r\n$0\r\n\r\n",
            ),
            ("STRLEN e", ":0\r\n"),
            ("EXISTS a a b", ":2\r\n"),
            ("GETSET c 3", "$1\r\n2\r\n"),
            ("GETDEL c", "$1\r\n3\r\n"),
            ("DEL c d d", ":1\r\n"),
        ],
    );
}

#[test]
fn times_are_replied_as_by_redis() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    check(
        &mut redis,
        &[
            ("SET a 2", "+OK\r\n"),
            ("TTL a", ":-1\r\n"),
            ("TTL c", ":-2\r\n"),
            ("EXPIRE a 100", ":1\r\n"),
            ("EXPIRE a 100 GT", "-ERR Unsupported option GT\r\n"),
            ("TTL a", ":100\r\n"),
            ("SET a 5 KEEPTTL", "+OK\r\n"),
            ("TTL a", ":100\r\n"),
            ("PERSIST a", ":1\r\n"),
            ("PERSIST a", ":0\r\n"),
            ("PERSIST c", ":0\r\n"),
            ("EXPIRE c 100", ":0\r\n"),
            ("EXPIREAT a 4102444800", ":1\r\n"),
            ("EXPIRETIME a", ":4102444800\r\n"),
            ("GETEX a PERSIST", "$1\r\n5\r\n"),
            ("PEXPIRE a -1", ":1\r\n"),
            ("EXISTS a", ":0\r\n"),
        ],
    );
}

#[test]
fn lists_and_what_has_no_place_here_are_replied_as_by_redis() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    check(
        &mut redis,
        &[
            ("SET e ''", "+OK\r\n"),
            ("LPUSH l 1 2 3 4", ":4\r\n"),
            ("LTRIM l 0 2", "+OK\r\n"),
            ("LRANGE l 0 -1", "*3\r\n$1\r\n4\r\n$1\r\n3\r\n$1\r\n2\r\n"),
            ("LRANGE l x 0", "-ERR value is not an integer or out of range\r\n"),
            ("LINDEX l -1", "$1\r\n2\r\n"),
            ("LINDEX l 3", "$-1\r\n"),
            ("LLEN l", ":3\r\n"),
            ("TYPE l", "+list\r\n"),
            ("TYPE e", "+string\r\n"),
            ("TYPE a", "+none\r\n"),
            ("GET l", WRONG_TYPE),
            ("INCR l", WRONG_TYPE),
            ("LLEN e", WRONG_TYPE),
            ("LPUSH e 1", WRONG_TYPE),
            ("DBSIZE", ":2\r\n"),
            (
                "HSET h f 1",
                "-ERR unknown command 'HSET', with args beginning with: 'h' 'f' '1' \r\n",
            ),
            (
                "WATCH a",
                "-ERR unknown command 'WATCH', with args beginning with: 'a' \r\n",
            ),
            ("SET passing 1 EX 100", "+OK\r\n"),
            (
                "INFO keyspace",
                "$76\r\n# Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0\r\ndb4:keys=0,expires=0,avg_ttl=0\r\n\r\n",
            ),
        ],
    );
}

#[test]
fn a_push_of_too_many_items_is_refused_before_it_is_a_call() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &["server.frame_bytes_max=1048576"]);
    let mut redis = Redis::connect(&server);
    let push = |items: usize| {
        let words = [&b"LPUSH"[..], b"l"].into_iter();
        command(
            &words
                .chain(std::iter::repeat_n(&b"x"[..], items))
                .collect::<Vec<_>>(),
        )
    };
    redis.check(
        &push(65_537),
        b"-ERR 'lpush' has 65537 items, and at most 65536 are pushed at once; send fewer\r\n",
    );
    redis.check(&push(65_536), b":65536\r\n");
}

#[test]
fn a_store_is_a_database_of_any_bytes() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    // Any bytes are a key and a value.
    let (key, value) = ([0, 0xff, b'\r', b'\n'], [b'\n', 0]);
    redis.check(&command(&[b"SET", &key, &value]), OK);
    redis.check(&command(&[b"GET", &key]), b"$2\r\n\n\0\r\n");
    // Nothing of it is in another store, and what is not there has a type of its own in RESP3.
    redis.line("SELECT 4", "+OK\r\n");
    redis.line("DBSIZE", ":0\r\n");
    redis.line("SELECT 0", "+OK\r\n");
    redis.line("RESET", "+RESET\r\n");
    redis.check(&command(&[b"GET", &key]), b"$2\r\n\n\0\r\n");
}

#[test]
fn bounds_are_those_of_the_store_and_of_no_neighbour() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    let long = [b'k'; 65_537];
    let sent = [
        command(&[b"SET", b"a", b"1"]),
        command(&[b"SET", &long, b"1"]),
        command(&[b"SET", b"b", b"2"]),
    ];
    let expected = "+OK\r\n-ERR bytes of a key: 65537, at most 65536 allowed; shorten or split it\r\n+OK\r\n";
    redis.check(&sent.concat(), expected.as_bytes());
    redis.line("MGET a b", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    let many = "DEL".to_owned() + &" k".repeat(10_001);
    redis.line(
        &many,
        "-ERR a batch has at most 10000 operations, and this one 10001; send fewer keys at once\r\n",
    );
    // A full store takes what fits.
    redis.line("SELECT 4", "+OK\r\n");
    let sent = [
        command(&[b"SET", b"a", b"1"]),
        command(&[b"SET", b"large", &[b'v'; 5000]]),
        command(&[b"SET", b"b", b"2"]),
    ];
    redis.check(
        &sent.concat(),
        b"+OK\r\n-OOM command not allowed when used memory > 'maxmemory'.\r\n+OK\r\n",
    );
    redis.line("MGET a large b", "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n");
    // What is no command ends the connection, also in the middle of a transaction.
    redis.line("MULTI", "+OK\r\n");
    redis.line("SET a 9", "+QUEUED\r\n");
    redis.0.write_all(b"*1\r\n:5\r\n").unwrap();
    let rest = redis.rest();
    assert!(
        rest.starts_with(b"-ERR Protocol error"),
        "{}",
        rest.escape_ascii()
    );
    let mut redis = Redis::connect(&server);
    redis.line("SELECT 4", "+OK\r\n");
    redis.line("GET a", "$1\r\n1\r\n");
}

#[test]
fn tokens_open_the_methods_that_commands_are() {
    let folder = folder(
        "[access.tokens.readers]\ntoken = \"r\"\nmethods = [\"ordered.get\", \"ordered.inspect\"]\n\
         [access.tokens.writers]\ntoken = \"w\"\nmethods = [\"ordered.*\", \"ordered.clear\"]\n\
         [access.tokens.all]\ntoken = \"a\"\nmethods = [\"ordered.*\"]\n",
    );
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    redis.line("SET a 1", "-NOAUTH Authentication required.\r\n");
    redis.line(
        "FLUSHDB",
        "-NOAUTH Authentication required: the command is ordered.clear; AUTH with the token of a group that has its whole name in \
         access.tokens.GROUP.methods\r\n",
    );
    redis.line("AUTH w", "+OK\r\n");
    redis.line("SET a 1", "+OK\r\n");
    redis.line("AUTH readers r", "+OK\r\n");
    redis.line("GET a", "$1\r\n1\r\n");
    redis.line("TTL a", ":-1\r\n");
    // What it may read it may read behind a write that is refused.
    redis.0.write_all(b"SET a 2\r\nGET a\r\n").unwrap();
    redis.0.shutdown(Shutdown::Write).unwrap();
    let rest = redis.rest();
    assert!(
        rest.starts_with(b"-NOPERM ") && rest.ends_with(b"\r\n$1\r\n1\r\n"),
        "{}",
        rest.escape_ascii()
    );
    let mut redis = Redis::connect(&server);
    redis.line("AUTH r", "+OK\r\n");
    redis.line("MULTI", "+OK\r\n");
    redis.line("SET a 2", "+QUEUED\r\n");
    redis.line("EXEC", "-NOPERM ");
    let mut redis = Redis::connect(&server);
    redis.line("AUTH w", "+OK\r\n");
    redis.line("GET a", "$1\r\n1\r\n");
    redis.line("AUTH a", "+OK\r\n");
    redis.check(b"FLUSHDB\r\nECHO a\r\n", b"-NOPERM ");
    let mut redis = Redis::connect(&server);
    redis.line("AUTH w", "+OK\r\n");
    // A store is cleared by a token that names it, and no other with it.
    redis.line("SELECT 4", "+OK\r\n");
    redis.line("SET kept 1", "+OK\r\n");
    redis.line("SELECT 0", "+OK\r\n");
    redis.line(
        "FLUSHALL",
        "-ERR FLUSHALL means 2 stores; SELECT each and FLUSHDB\r\n",
    );
    redis.line("FLUSHDB NOW", "-ERR syntax error\r\n");
    redis.line("FLUSHALL NOW", "-ERR syntax error\r\n");
    redis.line("FLUSHALL SYNC ASYNC", "-ERR syntax error\r\n");
    redis.line("FLUSHDB ASYNC", "+OK\r\n");
    redis.line("DBSIZE", ":0\r\n");
    redis.line("SELECT 4", "+OK\r\n");
    redis.line("DBSIZE", ":1\r\n");
}

#[test]
fn no_store_is_cleared_without_a_token() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    redis.line("SET a 1", "+OK\r\n");
    redis.line("FLUSHDB", "-NOPERM ");
    let mut redis = Redis::connect(&server);
    redis.line("GET a", "$1\r\n1\r\n");
}

#[test]
fn what_was_answered_is_there_after_a_kill() {
    let folder = folder("");
    for round in 0..3_u32 {
        let server = Millpond::start(folder.path(), &[]);
        let mut redis = Redis::connect(&server);
        redis.line("LLEN events", &format!(":{}\r\n", round * 20));
        let (mut sent, mut expected) = (Vec::new(), Vec::new());
        for number in 0..20_u32 {
            sent.extend(command(&[b"INCR", b"sum"]));
            expected.extend(format!(":{}\r\n", round * 20 + number + 1).into_bytes());
            sent.extend(command(&[b"LPUSH", b"events", number.to_string().as_bytes()]));
            expected.extend(format!(":{}\r\n", round * 20 + number + 1).into_bytes());
        }
        sent.extend(command(&[b"MULTI"]));
        sent.extend(command(&[b"APPEND", b"rounds", b"x"]));
        sent.extend(command(&[b"EXPIRE", b"rounds", b"1000"]));
        sent.extend(command(&[b"EXEC"]));
        expected.extend(format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:{}\r\n:1\r\n", round + 1).into_bytes());
        redis.check(&sent, &expected);
        // What is queued and not done is nothing.
        redis.line("MULTI", "+OK\r\n");
        redis.line("SET sum 0", "+QUEUED\r\n");
        server.signal("KILL");
    }
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    redis.line("MGET sum rounds", "*2\r\n$2\r\n60\r\n$3\r\nxxx\r\n");
    redis.line("LRANGE events 0 2", "*3\r\n$2\r\n19\r\n$2\r\n18\r\n$2\r\n17\r\n");
    redis.line("PERSIST rounds", ":1\r\n");
}

#[test]
fn a_store_whose_disk_fails_is_read_only_and_each_command_is_told() {
    let folder = folder("");
    let library = compiled(folder.path(), "failing_disk");
    let plan = folder.path().join("plan");
    let environment: [(&str, &Path); 2] = [("LD_PRELOAD", &library), ("MILLPOND_TEST_DISK", &plan)];
    let server = Millpond::start_in(folder.path(), &[], &environment);
    let mut redis = Redis::connect(&server);
    redis.line("SET a 1", "+OK\r\n");
    std::fs::write(&plan, "sync").unwrap();
    let refused = "-READONLY You can't write: the store cannot write its log, and nothing was written; see the server's log\r\n";
    let sets = command(&[b"SET", b"a", b"2"]).repeat(3);
    redis.check(&sets, refused.repeat(3).as_bytes());
    redis.line("GET a", "$1\r\n1\r\n");
    redis.line("GETEX a EX 100", refused);
    // Reads that share a batch with writes.
    let mixed: Vec<u8> = [
        &[&b"GETEX"[..], b"a"][..],
        &[b"SET", b"a", b"2"],
        &[b"GET", b"a"],
        &[b"GETEX", b"a"],
        &[b"DEL", b"a"],
        &[b"TTL", b"a"],
    ]
    .into_iter()
    .flat_map(command)
    .collect();
    let value = "$1\r\n1\r\n";
    let expected = format!("{value}{refused}{value}{value}{refused}:-1\r\n");
    redis.check(&mixed, expected.as_bytes());
}
