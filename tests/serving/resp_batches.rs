//! Commands that share batches of an ordered store: pipelines, whose commands fail alone, and transactions, which take effect whole.

use super::resp::{Redis, command};
use super::resp_stores::{WRONG_TYPE, folder};
use crate::harness::Millpond;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

/// What a method has answered so far.
fn answered(server: &Millpond, method: &str) -> u64 {
    let (_, page) = server.admin_get("/metrics");
    let name = format!("millpond_calls_total{{method=\"{method}\"}} ");
    let mut lines = page.lines().filter_map(|line| line.strip_prefix(&name));
    lines.next().map_or(0, |count| count.parse().unwrap())
}

#[test]
fn commands_in_a_row_share_batches_and_their_errors_are_their_own() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    for number in 0..200_u32 {
        let key = format!("key{}", number % 50);
        let (words, reply): (&[&[u8]], String) = match number % 4 {
            0 => (&[b"SET", key.as_bytes(), b"7"], "+OK\r\n".to_owned()),
            1 => (&[b"INCR", b"sum"], format!(":{}\r\n", number / 4 + 1)),
            2 => (&[b"GET", b"sum"], {
                let sum = (number / 4 + 1).to_string();
                format!("${}\r\n{sum}\r\n", sum.len())
            }),
            _ => (&[b"LPUSH", b"list", b"a"], format!(":{}\r\n", number / 4 + 1)),
        };
        sent.extend(command(words));
        expected.extend(reply.into_bytes());
    }
    redis.check(&sent, &expected);
    server.wait_for_metric("millpond_store_keys{store=\"events\"} 27");
    let batches = answered(&server, "ordered.batch");
    assert!((1..50).contains(&batches), "{batches} batches of 200 commands");

    // Any one of them may fail, and a batch with it; each is done once all the same.
    let commands: [(&[&[u8]], &str); 9] = [
        (&[b"SET", b"text", b"x"], "+OK\r\n"),
        (&[b"INCR", b"n"], ":1\r\n"),
        (
            &[b"INCR", b"text"],
            "-ERR value is not an integer or out of range\r\n",
        ),
        (&[b"INCR", b"n"], ":2\r\n"),
        (&[b"LPUSH", b"text", b"x"], WRONG_TYPE),
        (&[b"SET", b"n", b"9", b"NX"], "$-1\r\n"),
        (&[b"GET", b"list"], WRONG_TYPE),
        (
            &[b"INCR"],
            "-ERR wrong number of arguments for 'incr' command\r\n",
        ),
        (&[b"GET", b"n"], "$1\r\n2\r\n"),
    ];
    let sent: Vec<u8> = commands.iter().flat_map(|(words, _)| command(words)).collect();
    let expected: Vec<u8> = commands.iter().flat_map(|(_, reply)| reply.bytes()).collect();
    redis.check(&sent, &expected);
    // A peer that sends nothing more gets all of it too.
    redis.line("DEL n text", ":2\r\n");
    redis.0.write_all(&sent).unwrap();
    redis.0.shutdown(Shutdown::Write).unwrap();
    let rest = redis.rest();
    assert_eq!(
        rest.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
    // Reads in a row of which one is refused.
    let mut redis = Redis::connect(&server);
    let gets = [&b"n"[..], b"list", b"text"]
        .map(|key| command(&[b"GET", key]))
        .concat();
    redis.check(&gets, format!("$1\r\n2\r\n{WRONG_TYPE}$1\r\nx\r\n").as_bytes());
    // In pieces that end anywhere.
    redis.line("DEL n text", ":2\r\n");
    for piece in sent.chunks(5) {
        redis.0.write_all(piece).unwrap();
    }
    redis.check(b"", &expected);
}

#[test]
fn a_command_that_fails_costs_those_around_it_few_batches() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    redis.line("SET text x", "+OK\r\n");
    let bad = command(&[b"INCR", b"text"]);
    let refused = "-ERR value is not an integer or out of range\r\n";
    let mut sum = 0;
    type Fails = fn(u32) -> bool;
    let cases: [(Fails, u64); 4] = [
        (|at| at == 77, 40),
        (|at| at == 0 || at == 127, 60),
        (|at| at % 5 == 3, u64::MAX),
        (|_| true, u64::MAX),
    ];
    for (fails, batches_max) in cases {
        let before = answered(&server, "ordered.batch");
        let (mut sent, mut expected) = (Vec::new(), String::new());
        for at in 0..128 {
            if fails(at) {
                sent.extend_from_slice(&bad);
                expected.push_str(refused);
            } else {
                sum += 1;
                sent.extend(command(&[b"INCR", b"sum"]));
                expected.push_str(&format!(":{sum}\r\n"));
            }
        }
        redis.check(&sent, expected.as_bytes());
        let batches = answered(&server, "ordered.batch") - before;
        assert!(batches < batches_max, "{batches} batches");
    }
}

#[test]
fn a_transaction_is_one_batch() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    let queued = "+QUEUED\r\n";
    let aborted =
        "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n";
    for (line, expected) in [
        ("EXEC", "-ERR EXEC without MULTI\r\n"),
        ("DISCARD", "-ERR DISCARD without MULTI\r\n"),
        ("MULTI", "+OK\r\n"),
        ("MULTI", "-ERR MULTI calls can not be nested\r\n"),
        ("SET a 1", queued),
        ("INCR a", queued),
        ("MGET a b", queued),
        ("LPUSH l x y", queued),
        ("LRANGE l 0 -1", queued),
        ("TTL a", queued),
        ("EXISTS a b", queued),
        ("LLEN a", queued),
        (
            "EXEC",
            "*8\r\n+OK\r\n:2\r\n*2\r\n$1\r\n2\r\n$-1\r\n:2\r\n*2\r\n$1\r\ny\r\n$1\r\nx\r\n:-1\r\n:1\r\n",
        ),
        ("", WRONG_TYPE),
        ("MULTI", "+OK\r\n"),
        ("EXEC", "*0\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET a 9", queued),
        ("DISCARD", "+OK\r\n"),
        ("GET a", "$1\r\n2\r\n"),
        ("EXEC x", aborted),
        ("MULTI", "+OK\r\n"),
        ("SET a 9", queued),
        ("EXEC x", aborted),
        ("EXEC", "-ERR EXEC without MULTI\r\n"),
        ("GET a", "$1\r\n2\r\n"),
    ] {
        match line {
            "" => redis.check(b"", expected.as_bytes()),
            _ => redis.line(line, expected),
        }
    }
}

#[test]
fn a_transaction_that_is_refused_does_nothing() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    let queued = "+QUEUED\r\n";
    redis.line("SET a 2", "+OK\r\n");
    redis.line("LPUSH l x", ":1\r\n");
    // One that fails when it is done: nothing is.
    redis.line("MULTI", "+OK\r\n");
    redis.line("SET a 9", queued);
    redis.line("INCR l", queued);
    redis.line("EXEC", WRONG_TYPE);
    redis.line("GET a", "$1\r\n2\r\n");
    // What cannot be queued says so, and nothing is done.
    for (line, expected) in [
        (
            "SET a 9 NX",
            "ERR command 'set' with its condition cannot be queued: a batch takes effect whole or not at all",
        ),
        (
            "MSETNX a 9",
            "ERR command 'msetnx' cannot be queued: a transaction is one batch of a store's operations",
        ),
        (
            "SELECT 4",
            "ERR command 'select' cannot be queued: a transaction is one batch of a store's operations",
        ),
        (
            "SCAN 0",
            "ERR command 'scan' cannot be queued: a transaction is one batch of a store's operations",
        ),
        ("SET a", "ERR wrong number of arguments for 'set' command"),
        ("SET a 9 EX 0", "ERR invalid expire time in 'set' command"),
        ("FOO", "ERR unknown command 'FOO', with args beginning with: "),
    ] {
        redis.line("MULTI", "+OK\r\n");
        redis.line("SET a 8", queued);
        redis.line(line, &format!("-{expected}\r\n"));
        redis.line("SET a 9", queued);
        redis.line(
            "EXEC",
            "-EXECABORT Transaction discarded because of previous errors.\r\n",
        );
        redis.line("GET a", "$1\r\n2\r\n");
    }
    // As much as a frame may hold.
    redis.line("MULTI", "+OK\r\n");
    let large = command(&[b"SET", b"a", &[b'v'; 200_000]]);
    redis.check(&large, queued.as_bytes());
    redis.check(
        &large,
        b"-ERR the transaction has 400026 bytes; at most 262144 are queued (server.frame_bytes_max)\r\n",
    );
    redis.line(
        "EXEC",
        "-EXECABORT Transaction discarded because of previous errors.\r\n",
    );
    // A connection that ends takes what it has queued along.
    redis.line("MULTI", "+OK\r\n");
    redis.line("SET a 9", queued);
    redis.line("RESET", "+RESET\r\n");
    redis.line("EXEC", "-ERR EXEC without MULTI\r\n");
    redis.line("GET a", "$1\r\n2\r\n");
}

#[test]
fn a_transaction_where_nothing_is_selected_is_discarded() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &["ordered.events.resp_database=5"]);
    let mut redis = Redis::connect(&server);
    for (line, expected) in [
        ("MULTI", "+OK\r\n"),
        (
            "SET a 1",
            "-ERR DB 0 holds nothing here; SELECT one of 4, 5 (resp_database of a table or a store)\r\n",
        ),
        (
            "EXEC",
            "-EXECABORT Transaction discarded because of previous errors.\r\n",
        ),
        ("MULTI", "+OK\r\n"),
        ("EXEC", "*0\r\n"),
    ] {
        redis.line(line, expected);
    }
}

#[test]
fn a_transaction_that_stays_open_is_a_request_that_does_not_come_whole() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &["server.request_timeout_s=1"]);
    let mut others = Redis::connect(&server);
    others.line("SET a 1", "+OK\r\n");
    let mut redis = Redis::connect(&server);
    redis.line("MULTI", "+OK\r\n");
    // What is queued gives it no more time.
    let set = command(&[b"SET", b"a", b"2"]);
    let mut replies = 0;
    let is_over = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let mut reply = [0; 9];
        let is_open = redis.0.write_all(&set).is_ok() && redis.0.read_exact(&mut reply).is_ok();
        replies += u32::from(is_open && reply == *b"+QUEUED\r\n");
        !is_open
    });
    assert!(is_over && replies > 0, "{replies} replies");
    // One that has nothing open stays.
    others.line("GET a", "$1\r\n1\r\n");
}

#[test]
fn what_transactions_hold_is_freed_where_there_is_no_room_for_more() {
    let folder = folder("");
    let server = Millpond::start(folder.path(), &["server.unfinished_bytes_max=1048576"]);
    let queued = b"+QUEUED\r\n";
    let set = |bytes: usize| command(&[b"SET", b"a", &vec![b'v'; bytes]]);
    let mut queueing = Vec::new();
    let refused = loop {
        let mut redis = Redis::connect(&server);
        redis.line("MULTI", "+OK\r\n");
        redis.check(&set(200_000), queued);
        // It holds twice as much now; where there is no room for that an error follows, else the next is queued.
        redis.check(b"GET b\r\n", queued);
        redis.0.write_all(b"GET b\r\n").unwrap();
        let mut first = [0; 1];
        redis.0.read_exact(&mut first).unwrap();
        if first == *b"-" {
            break redis;
        }
        redis.check(b"", queued.strip_prefix(b"+").unwrap());
        queueing.push(redis);
        assert!(queueing.len() < 20, "nothing was refused");
    };
    // The refused one is not over yet, and those before it are whole.
    let mut redis = Redis::connect(&server);
    redis.line("MULTI", "+OK\r\n");
    redis.check(&set(100_000), queued);
    redis.line("EXEC", "*1\r\n+OK\r\n");
    for redis in &mut queueing {
        redis.line("EXEC", "*3\r\n+OK\r\n$-1\r\n$-1\r\n");
    }
    let said = String::from_utf8(refused.rest()).unwrap();
    assert!(
        said.starts_with("OVERLOADED requests that have not come whole"),
        "{said}"
    );
}
