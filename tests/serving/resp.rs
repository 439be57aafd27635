//! RESP through the real binary, byte by byte: rows, pipelines, cursors, refusals, and what ends a connection.

use crate::harness::Millpond;
use millpond_engines_features::{Column, Keys, Numbers, Schema, write::Writer};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// Rows of each table, whose keys are 1 and so on.
pub const ROWS: u64 = 100;

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 1
frame_bytes_max = 65536
[server.resp]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[features.films]
path = "tables/films"
resp_database = 0
[features.small]
path = "tables/small"
resp_database = 3
resp_keys = "raw"
[features.unseen]
path = "tables/films"
"#;

/// A folder with tables `films`, of two 32-bit floats a row, and `small`, of two 16-bit ones.
pub fn folder(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), config).unwrap();
    make(&folder.path().join("tables"), "films", Numbers::F32);
    make(&folder.path().join("tables"), "small", Numbers::F16);
    folder
}

fn make(tables: &Path, name: &str, numbers: Numbers) {
    make_version(tables, name, 1, numbers);
}

fn make_version(tables: &Path, name: &str, version: u64, numbers: Numbers) {
    let schema = Schema {
        columns: vec![Column {
            name: "vector".to_owned(),
            numbers,
            dim: 2,
        }],
        ..Schema::floats(2)
    };
    let mut writer = Writer::create(&tables.join(name), name, version, schema, 2).unwrap();
    for key in 1..=ROWS {
        writer.push(key, &[key as f32, 0.5]).unwrap();
    }
    writer.finish().unwrap();
}

/// The row of a key of `films`, as a bulk string.
fn row(key: u64) -> Vec<u8> {
    let numbers = [key as f32, 0.5].map(f32::to_le_bytes);
    [b"$8\r\n", numbers.as_flattened(), b"\r\n"].concat()
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend(format!("${}\r\n", word.len()).into_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// A connection of commands.
pub struct Redis(TcpStream);

impl Redis {
    pub fn connect(server: &Millpond) -> Redis {
        let stream = TcpStream::connect(server.resp.as_ref().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Redis(stream)
    }

    /// Sends bytes, and reads as many as are expected.
    pub fn check(&mut self, sent: &[u8], expected: &[u8]) {
        self.0.write_all(sent).unwrap();
        let mut found = vec![0; expected.len()];
        if let Err(error) = self.0.read_exact(&mut found) {
            panic!("{}: {error} behind {}", sent.escape_ascii(), found.escape_ascii());
        }
        let texts = [&found[..], expected].map(|bytes| bytes.escape_ascii().to_string());
        assert_eq!(texts[0], texts[1], "answer to {}", sent.escape_ascii());
    }

    /// The same with words for a line.
    pub fn line(&mut self, line: &str, expected: &str) {
        self.check(format!("{line}\r\n").as_bytes(), expected.as_bytes());
    }

    /// What comes until the server closes the connection.
    fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        rest
    }
}

#[test]
fn texts_are_keys_of_a_table_of_texts() {
    let folder = folder(&format!(
        "{CONFIG}\n[features.genres]\npath = \"tables/genres\"\nresp_database = 5\nresp_keys = \"text\"\n"
    ));
    let schema = Schema {
        keys: Keys::Text {
            slot: "genre".to_owned(),
        },
        ..Schema::floats(2)
    };
    let mut writer = Writer::create(&folder.path().join("tables/genres"), "genres", 1, schema, 2).unwrap();
    let long = "long".repeat(2_000);
    for (number, text) in ["drama", "", "7", "a b", &long].into_iter().enumerate() {
        writer.push_text(text, &[number as f32, 0.5]).unwrap();
    }
    writer.finish().unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    redis.line("SELECT 5", "+OK\r\n");
    let rows = [&b"*4\r\n"[..], &row(4), b"$-1\r\n", &row(1), &row(0)].concat();
    redis.check(
        &command(&[b"MGET", long.as_bytes(), b"war", b"", b"drama"]),
        &rows,
    );
    // A pipeline is joined to one lookup.
    let gets = [
        command(&[b"GET", b"a b"]),
        command(&[b"GET", &[0xff]]),
        command(&[b"GET", b"7"]),
    ]
    .concat();
    redis.check(&gets, &[&row(3)[..], b"$-1\r\n", &row(2)].concat());
    redis.line("DBSIZE", ":5\r\n");
    redis.line(
        "SCAN 0",
        "-ERR table 'genres' has the hashes of its keys and not their texts, so SCAN cannot list them\r\n",
    );
    redis.line("SELECT 0", "+OK\r\n");
    redis.check(&command(&[b"GET", b"7"]), &row(7));
}

#[test]
fn what_one_command_takes_is_bounded() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    let pattern = "*".repeat(257);
    redis.line(
        &format!("SCAN 0 MATCH {pattern}"),
        "-ERR the pattern has 257 bytes; at most 256 are matched\r\n",
    );
    // Of another type there is no key, so nothing is looked at.
    redis.line("SCAN 0 COUNT 10 TYPE hash", "*2\r\n$1\r\n0\r\n*0\r\n");
    for (words, name) in [
        ("COMMAND DOCS", "command"),
        ("CONFIG GET", "config"),
        ("INFO", "info"),
    ] {
        let many = " get".repeat(300);
        let count = words.split(' ').count() + 300;
        redis.line(
            &format!("{words}{many}"),
            &format!("-ERR '{name}' has {count} words; at most 256 are read\r\n"),
        );
    }
    // Keys are words of another kind.
    let keys = " 1".repeat(1000);
    redis.line(&format!("EXISTS{keys}"), ":1000\r\n");
}

#[test]
fn an_address_that_is_not_allowed_is_answered_nothing_else() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &["access.ip_allow=[\"10.0.0.0/8\"]"]);
    let mut redis = Redis::connect(&server);
    let refused = "-NOPERM this server takes no calls from this address; its operator lists addresses in access.ip_allow\r\n";
    for command in [
        "ECHO a",
        "COMMAND COUNT",
        "CONFIG GET save",
        "CLIENT ID",
        "HELLO 3",
        "PING",
        "GET 1",
    ] {
        redis.line(command, refused);
    }
}

#[test]
fn rows_are_strings_of_their_stored_bytes() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    redis.check(&command(&[b"GET", b"7"]), &row(7));
    redis.check(&command(&[b"get", b"007"]), &row(7));
    redis.line("GET 101", "$-1\r\n");
    let rows = [&b"*3\r\n"[..], &row(2), b"$-1\r\n", &row(1)].concat();
    redis.check(&command(&[b"MGET", b"2", b"1000", b"1"]), &rows);
    redis.line("EXISTS 1 1 2 1000", ":3\r\n");
    redis.line("STRLEN 1", ":8\r\n");
    redis.line("STRLEN 1000", ":0\r\n");
    redis.line("TYPE 1", "+string\r\n");
    redis.line("TYPE 1000", "+none\r\n");
    redis.line("DBSIZE", ":100\r\n");
    // Sixteen bits a number, and keys of eight bytes.
    redis.line("SELECT 3", "+OK\r\n");
    let halves = [b"$4\r\n", &[0x00_u8, 0x40, 0x00, 0x38][..], b"\r\n"].concat();
    redis.check(&command(&[b"GET", &2_u64.to_le_bytes()]), &halves);
    redis.check(&command(&[b"GET", &1000_u64.to_le_bytes()]), b"$-1\r\n");
}

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let folder = folder(CONFIG);
    // Alone, and some in one lookup.
    for frame_bytes_max in ["65536", "8388608"] {
        let set = format!("server.frame_bytes_max={frame_bytes_max}");
        check_pipeline(&Millpond::start(folder.path(), &[&set]));
    }
}

fn check_pipeline(server: &Millpond) {
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    for number in 0..256_u64 {
        let key = number % (ROWS + 20) + 1;
        let (words, answer): (&[&[u8]], Vec<u8>) = match number % 32 {
            9 => (&[b"ECHO", b"between"], b"$7\r\nbetween\r\n".to_vec()),
            12 => (
                &[b"GET", b"x"],
                b"-ERR key 'x' of table 'films' is none; expected digits of a number up to 18446744073709551615\r\n"
                    .to_vec(),
            ),
            17 => (&[b"GET"], b"-ERR wrong number of arguments for 'get' command\r\n".to_vec()),
            21 => (&[b"PING"], b"+PONG\r\n".to_vec()),
            25 => (&[b"SET", b"1", b"2"], b"-READONLY You can't write against a read only replica: DB 0 is feature table 'films'\r\n".to_vec()),
            _ => (
                &[b"GET", &key.to_string().into_bytes()],
                if key <= ROWS { row(key) } else { b"$-1\r\n".to_vec() },
            ),
        };
        sent.extend(command(words));
        expected.extend(answer);
    }
    Redis::connect(server).check(&sent, &expected);
    // In pieces that end anywhere.
    let mut redis = Redis::connect(server);
    let (last, pieces) = sent
        .chunks(7)
        .collect::<Vec<_>>()
        .split_last()
        .map(|(last, rest)| (*last, rest.to_vec()))
        .unwrap();
    for piece in pieces {
        redis.0.write_all(piece).unwrap();
    }
    redis.check(last, &expected);
}

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
        "-ERR the cursor is of another version of table \"films\" than 1, which serves now; begin again without one\r\n",
    );
}

/// The cursor and the keys of one page.
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
        "-ERR the cursor is of another version of table \"films\" than 65537, which serves now; begin again without one\r\n",
    );
    let (begun, keys) = scan(&mut one, "0");
    assert!(begun != "0" && !keys.is_empty());
}

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

#[test]
fn a_connection_has_a_version_a_name_and_a_database() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    redis.line("PING", "+PONG\r\n");
    redis.line("PING 'a b'", "$3\r\na b\r\n");
    redis.line("CLIENT GETNAME", "$-1\r\n");
    redis.line("CLIENT SETNAME one", "+OK\r\n");
    redis.line("CLIENT GETNAME", "$3\r\none\r\n");
    redis.line("CLIENT SETINFO lib-name probe", "+OK\r\n");
    redis.line("CLIENT NO-EVICT ON", "+OK\r\n");
    redis.line("CLIENT NO-TOUCH OFF", "+OK\r\n");
    redis.line("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    redis.line("CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
    redis.line("CONFIG GET nothing", "*0\r\n");
    redis.line("SELECT 3", "+OK\r\n");
    let hello = "%7\r\n$6\r\nserver\r\n$8\r\nmillpond\r\n$7\r\nversion\r\n";
    redis.line("HELLO 3 SETNAME two", hello);
    // Version and number of the connection, up to the modules, of which there are none.
    let (mut rest, mut byte) = (Vec::new(), [0]);
    while !rest.ends_with(b"$7\r\nmodules\r\n*0\r\n") {
        redis.0.read_exact(&mut byte).unwrap();
        rest.push(byte[0]);
    }
    assert!(
        rest.windows(11).any(|part| part == b"proto\r\n:3\r\n"),
        "{}",
        rest.escape_ascii()
    );
    redis.line("CLIENT GETNAME", "$3\r\ntwo\r\n");
    // What is not there has a type of its own in RESP3.
    redis.check(&command(&[b"GET", &1000_u64.to_le_bytes()]), b"_\r\n");
    redis.line("CONFIG GET save", "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
    redis.line("RESET", "+RESET\r\n");
    redis.line("CLIENT GETNAME", "$-1\r\n");
    redis.check(b"GET 7\r\n", &row(7));
    redis.line("COMMAND COUNT", ":");
    redis.line("", "57\r\n");
    redis.line("COMMAND INFO get nothing", "*2\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*1\r\n+@read\r\n*0\r\n*0\r\n*0\r\n$-1\r\n");
    redis.line(
        "INFO keyspace",
        "$80\r\n# Keyspace\r\ndb0:keys=100,expires=0,avg_ttl=0\r\ndb3:keys=100,expires=0,avg_ttl=0\r\n\r\n",
    );
    redis.line("QUIT", "+OK\r\n");
    assert_eq!(redis.rest(), b"");
}

#[test]
fn what_is_not_served_is_refused_in_the_words_of_redis() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    for (line, expected) in [
        (
            "FOO a b",
            "ERR unknown command 'FOO', with args beginning with: 'a' 'b' ",
        ),
        ("GET", "ERR wrong number of arguments for 'get' command"),
        ("GET 1 2", "ERR wrong number of arguments for 'get' command"),
        ("MGET", "ERR wrong number of arguments for 'mget' command"),
        ("SELECT one", "ERR invalid DB index"),
        ("SELECT 1", "ERR DB index is out of range"),
        ("SELECT -1", "ERR DB index is out of range"),
        (
            "GET 18446744073709551616",
            "ERR key '18446744073709551616' of table 'films' is none; expected digits of a number up to 18446744073709551615",
        ),
        (
            "DEL 1",
            "READONLY You can't write against a read only replica: DB 0 is feature table 'films'",
        ),
        (
            "FLUSHALL",
            "READONLY You can't write against a read only replica: DB 0 is feature table 'films'",
        ),
        ("HELLO 4", "NOPROTO unsupported protocol version"),
        (
            "HELLO x",
            "ERR Protocol version is not an integer or out of range",
        ),
        ("HELLO 3 NAME x", "ERR Syntax error in HELLO option 'NAME'"),
        ("CLIENT KILL", "ERR unknown subcommand 'KILL'. Try CLIENT HELP."),
        (
            "CLIENT SETNAME 'a b'",
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ),
        (
            "CONFIG SET save x",
            "ERR unknown subcommand 'SET'. Try CONFIG HELP.",
        ),
        (
            "AUTH x",
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct? (access.tokens)",
        ),
    ] {
        redis.line(line, &format!("-{expected}\r\n"));
    }
    redis.line("SELECT 3", "+OK\r\n");
    redis.line(
        "GET 7",
        "-ERR key '7' of table 'small' is none; expected 8 bytes, as resp_keys = \"raw\" has them\r\n",
    );
    redis.line("PING", "+PONG\r\n");
}

#[test]
fn what_is_no_command_ends_its_connection() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    let ends = |sent: &[u8], expected: &str| {
        let mut redis = Redis::connect(&server);
        redis.0.write_all(sent).unwrap();
        assert_eq!(
            String::from_utf8(redis.rest()).unwrap(),
            expected,
            "{}",
            sent.escape_ascii()
        );
    };
    ends(
        b"*x\r\nPING\r\n",
        "-ERR Protocol error: invalid multibulk length\r\n",
    );
    ends(b"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n");
    // A command may take as many bytes as a frame.
    ends(
        b"*2\r\n$3\r\nGET\r\n$65536\r\n",
        "-ERR Protocol error: invalid bulk length\r\n",
    );
    ends(b"*20000\r\n", "-ERR Protocol error: invalid multibulk length\r\n");
    ends(b"*1\r\n*1\r\n", "-ERR Protocol error: expected '$', got '*'\r\n");
    ends(
        b"GET \"1\r\n",
        "-ERR Protocol error: unbalanced quotes in request\r\n",
    );
    ends(&[b'x'; 70_000], "-ERR Protocol error: too big inline request\r\n");
    ends(
        b"PING\r\n*1\r\n:1\r\nPING\r\n",
        "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n",
    );
    // A page of any site can have a browser send these.
    ends(b"POST / HTTP/1.1\r\nHost: a\r\n\r\nPING\r\n", "");
    ends(
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPING\r\n",
        "-ERR wrong number of arguments for 'get' command\r\n",
    );
    ends(&command(&[b"host:", b"a"]), "");
}

#[test]
fn a_token_is_brought_by_auth_or_hello() {
    let folder = folder(&format!(
        "{CONFIG}[access.tokens.ranking]\ntoken = \"s3cret-1\"\nmethods = [\"features.*\"]\n\
         [access.tokens.other]\ntoken = \"s3cret-2\"\nmethods = [\"ordered.*\"]\n"
    ));
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    const NONE: &str = "-NOAUTH Authentication required.\r\n";
    redis.line("PING", "+PONG\r\n");
    redis.line("GET 7", NONE);
    redis.line("DBSIZE", NONE);
    // Of a pipeline each has its answer.
    redis.line("GET 7\r\nGET 8", &NONE.repeat(2));
    redis.line("AUTH s3cret", WRONG);
    redis.line("AUTH other s3cret-1", WRONG);
    redis.line("AUTH a b c", "-ERR syntax error\r\n");
    redis.line("HELLO 3 AUTH default s3cret SETNAME x", WRONG);
    redis.line("CLIENT GETNAME", "$-1\r\n");
    redis.line("AUTH s3cret-2", "+OK\r\n");
    redis.line(
        "GET 7",
        "-NOPERM the token does not open features.lookup; send one that does\r\n",
    );
    redis.line("AUTH ranking s3cret-1", "+OK\r\n");
    redis.check(b"GET 7\r\n", &row(7));
    redis.line("RESET", "+RESET\r\n");
    redis.line("GET 7", NONE);
    redis.line("HELLO 2 AUTH default s3cret-1", "*14\r\n");
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn a_connection_over_the_limit_is_told_so() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &["server.connections_max=1"]);
    let mut first = Redis::connect(&server);
    first.line("PING", "+PONG\r\n");
    for line in ["GET 7", "ECHO a"] {
        let mut second = Redis::connect(&server);
        second.line(line, "-OVERLOADED the connection limit of 1 is reached; ");
        assert!(second.rest().ends_with(b"server.connections_max\r\n"));
    }
    first.check(b"GET 7\r\n", &row(7));
}

#[test]
fn a_unix_socket_serves_too() {
    let folder = folder(&CONFIG.replace(
        "[server.resp]\n",
        "[server.resp]\nlisten_also = [\"unix:resp.sock\"]\n",
    ));
    let _server = Millpond::start(folder.path(), &[]);
    let mut stream = std::os::unix::net::UnixStream::connect(folder.path().join("resp.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET 7\r\nQUIT\r\n").unwrap();
    let mut found = Vec::new();
    stream.read_to_end(&mut found).unwrap();
    assert_eq!(found, [&row(7)[..], b"+OK\r\n"].concat());
}
