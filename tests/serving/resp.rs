//! RESP through the real binary, byte by byte: rows, pipelines, bounds and refusals.

use crate::harness::Millpond;
use millpond_engines_features::{Column, Keys, Numbers, Schema, write::Writer};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// Rows of each table, whose keys are 1 and so on.
pub const ROWS: u64 = 100;

pub(super) const CONFIG: &str = r#"
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

pub(super) fn make_version(tables: &Path, name: &str, version: u64, numbers: Numbers) {
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
pub(super) fn row(key: u64) -> Vec<u8> {
    let numbers = [key as f32, 0.5].map(f32::to_le_bytes);
    [b"$8\r\n", numbers.as_flattened(), b"\r\n"].concat()
}

pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend(format!("${}\r\n", word.len()).into_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// A connection of commands.
pub struct Redis(pub(super) TcpStream);

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

    /// Sends bytes, and reads nothing.
    pub fn send(&mut self, sent: &[u8]) {
        self.0.write_all(sent).unwrap();
    }

    /// The text that a line is replied.
    pub fn bulk(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes());
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let len: usize = head.trim().strip_prefix('$').unwrap().parse().unwrap();
        let mut text = vec![0; len + 2];
        self.0.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// The text of a status that comes.
    pub fn status(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        line.trim_end().strip_prefix('+').unwrap().to_owned()
    }

    /// The same with words for a line.
    pub fn line(&mut self, line: &str, expected: &str) {
        self.check(format!("{line}\r\n").as_bytes(), expected.as_bytes());
    }

    /// What comes until the server closes the connection.
    pub(super) fn rest(mut self) -> Vec<u8> {
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
                b"-ERR 'x' is no key of table 'films'; expected digits of a number up to 18446744073709551615 (if its keys are texts, set features.films.resp_keys = \"text\")\r\n"
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
        ("SELECT one", "ERR value is not an integer or out of range"),
        ("SELECT +0", "ERR value is not an integer or out of range"),
        ("SELECT 00", "ERR value is not an integer or out of range"),
        ("SELECT 1", "ERR DB index is out of range"),
        ("SELECT -1", "ERR DB index is out of range"),
        (
            "GET 18446744073709551616",
            "ERR '18446744073709551616' is no key of table 'films'; expected digits of a number up to 18446744073709551615 (if its keys are texts, set features.films.resp_keys = \"text\")",
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
        (
            "COMMAND COUNT x",
            "ERR wrong number of arguments for 'command|count' command",
        ),
        ("COMMAND LIST x", "ERR syntax error"),
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
        "-ERR '7' is no key of table 'small'; expected 8 bytes, as resp_keys = \"raw\" has them (if its keys are texts, set features.small.resp_keys = \"text\")\r\n",
    );
    redis.line("PING", "+PONG\r\n");
}
