//! Bad requests: each gets its error, and the next request on the server is served.

use crate::harness::{Frames, Http, Millpond, r1_folder};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::{Encoder, decode_map};
use millpond_wire_schema::Status;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn served(server: &Millpond) {
    let (status, answer) = server.call("infer", &json!({"samples": [["v1", "v2"]]}));
    assert_eq!(status, 200, "{answer}");
}

/// Sends one native call and reads its error, if the connection gives one.
fn native(server: &Millpond, bytes: &[u8]) -> Option<Status> {
    let mut stream = TcpStream::connect(&server.addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(bytes).unwrap();
    let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut chunk).unwrap_or(0);
        answer.extend_from_slice(&chunk[..read]);
        match parse_frame(&answer, Limits::default()) {
            Ok(Parsed::Whole { message, .. }) => {
                assert!(matches!(message.kind, FrameKind::Answer { status: 1, .. }));
                return Some(Status::decode(
                    &decode_map(message.encoding, message.payload).unwrap(),
                ));
            }
            _ if read == 0 => return None,
            _ => {}
        }
    }
}

fn quest(method: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(
        &mut bytes,
        Encoding::Msgpack,
        FrameKind::Twoway { method, seq: 1 },
        payload,
    )
    .unwrap();
    bytes
}

#[test]
fn frames() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &["server.frame_bytes_max=65536"]);
    let check = |bytes: &[u8], code: u32, words: &str| {
        let status =
            native(&server, bytes).unwrap_or_else(|| panic!("closed without an answer; expected {words:?}"));
        assert_eq!(status.code.number(), code, "{status}");
        assert!(status.ex.contains(words), "{status}");
        served(&server);
    };
    assert!(
        native(&server, b"XPNN\x01\x80\x01\x04").is_none(),
        "a wrong magic is closed"
    );
    check(&quest("infer", &vec![0x80; 70_000]), 30110, "the limit is 65536");
    check(&quest("nope", &[0x80]), 20004, "unknown method \"nope\"");
    check(&quest("infer", &[0x93, 1, 2, 3]), 10006, "root is an array");
    check(
        &quest("infer", &[0x81, 0xa1, b'a', 0xdd, 0xff, 0xff, 0xff, 0xff]),
        20006,
        "not valid msgpack",
    );
    check(&quest("infer", &[0x81, 0xa1]), 20006, "not valid msgpack");
    let mut flags = quest("infer", &[0x80]);
    flags[5] = 0xc0;
    check(&flags, 10003, "frame flags");
    // A frame cut short and abandoned.
    let mut stream = TcpStream::connect(&server.addr).unwrap();
    stream.write_all(&quest("infer", &[0x80; 100])[..50]).unwrap();
    drop(stream);
    served(&server);
    // The log says so, once the server has seen the end and the line is written.
    let log = || std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    let said = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        log().contains("in the middle of a request")
    });
    assert!(said && log().contains("not a frame"), "{}", log());
}

/// Calls that must each be refused with this status, code and words.
struct Refused<'s> {
    server: &'s Millpond,
    http: Http,
}

impl Refused<'_> {
    fn check(&mut self, method: &str, payload: Value, status: u16, code: u64, words: &str) {
        let (found, answer) = self.http.call(method, &payload);
        let expected = (status, Some(code));
        assert_eq!(
            (found, answer["code"].as_u64()),
            expected,
            "{method} {payload}: {answer}"
        );
        let ex = answer["ex"].as_str().unwrap();
        assert!(ex.contains(words), "{ex:?} does not contain {words:?}");
        assert!(!ex.contains(".rs"), "no file of the program is named: {ex}");
        served(self.server);
    }
}

fn refused(server: &Millpond) -> Refused<'_> {
    Refused {
        server,
        http: Http::connect(&server.addr),
    }
}

#[test]
fn infer_payloads() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut calls = refused(&server);
    let mut check =
        |method: &str, payload, status, code, words: &str| calls.check(method, payload, status, code, words);
    let x = |data: Value| json!({"inputs": {"x": {"shape": [1, 16], "type": "f32", "data": data}}});
    check("infer", json!({}), 400, 10009, "\"inputs\" is missing");
    check(
        "infer",
        json!({"samples": [["a", "b"]], "smaples": 1}),
        400,
        30104,
        "\"smaples\" is unknown",
    );
    check("infer", json!({"samples": [["a"]]}), 400, 30104, "samples[0]");
    check(
        "infer",
        json!({"samples": [["a", 2]]}),
        400,
        30104,
        "samples[0][1]",
    );
    check(
        "infer",
        json!({"samples": [["a", "b"]], "model": "none"}),
        404,
        30105,
        "none",
    );
    check(
        "infer",
        json!({"model": "none", "inputs": {}}),
        404,
        30105,
        "there are [\"mlp\"]",
    );
    check(
        "infer",
        json!({"version": 3, "inputs": {}}),
        410,
        30106,
        "serves version 1",
    );
    check("infer", x(json!([1, 2])), 400, 30104, "inputs.x.data");
    check(
        "infer",
        json!({"inputs": {"y": {"shape": [1], "type": "f32", "data": [1]}}}),
        400,
        30104,
        "y",
    );
    check(
        "infer",
        json!({"inputs": {"x": {"shape": [1, 3], "type": "f32", "data": [1, 2, 3]}}}),
        400,
        30104,
        "x",
    );
}

#[test]
fn a_batch_without_rows() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let x = |shape: Value| json!({"inputs": {"x": {"shape": shape, "type": "f32", "data": []}}});
    let mut calls = refused(&server);
    let none = "input `x` has 0 rows; send at least one";
    calls.check("infer", x(json!([0, 16])), 400, 30104, none);
    let other = "input `x` must have shape [N, 16], found [0, 3]";
    calls.check("infer", x(json!([0, 3])), 400, 30104, other);
}

#[test]
fn keyed_payloads() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut calls = refused(&server);
    let mut check =
        |method: &str, payload, status, code, words: &str| calls.check(method, payload, status, code, words);
    check(
        "features.lookup",
        json!({"table": "none", "keys": [1]}),
        404,
        30105,
        "there are [\"embeddings\"]",
    );
    check(
        "features.lookup",
        json!({"table": "embeddings", "keys": [1], "at_version": 7}),
        410,
        30106,
        "version 1 serves",
    );
    check(
        "features.lookup",
        json!({"table": "embeddings", "keys": vec![1; 300_000]}),
        413,
        30110,
        "fewer keys",
    );
    check("ordered.scan", json!({"limit": 20_000}), 400, 30104, "10000");
    check("ordered.scan", json!({"limit": 0}), 400, 30104, "from 1 to 10000");
    check(
        "ordered.scan",
        json!({"limit": -1}),
        400,
        30104,
        "is a negative integer",
    );
    check("*ping", json!({"loud": true}), 400, 30104, "\"loud\"");
    let many = vec![["v1", "v2"]; 10_001];
    check("infer", json!({"samples": many}), 400, 30104, "at most 10000");
    check(
        "ordered.put",
        json!({"entries": []}),
        400,
        30104,
        "nothing to write",
    );
    check(
        "ordered.put",
        json!({"entries": [["a"]]}),
        400,
        30104,
        "entries[0]",
    );
    check(
        "ordered.get",
        json!({"table": "none", "keys": []}),
        404,
        30105,
        "there are [\"events\"]",
    );
}

/// A lookup whose `keys` are these bytes of msgpack.
fn lookup_of(keys: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut out = Encoder::new(&mut payload, Encoding::Msgpack, false);
    out.map(|out| {
        out.key("table");
        out.text("embeddings");
        out.key("keys");
        out.raw(keys);
    });
    payload
}

/// The most memory that the server has had, in bytes.
fn memory_peak(server: &Millpond) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB"))
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap()
        * 1024
}

#[test]
fn key_blocks() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut frames = Frames::connect(&server.addr);
    let mut check = |keys: &[u8], code: u32, words: &[&str]| {
        let (failed, answer) = frames.call("features.lookup", Encoding::Msgpack, &lookup_of(keys));
        assert_eq!(failed, 1, "{}", answer.escape_ascii());
        let status = Status::decode(&decode_map(Encoding::Msgpack, &answer).unwrap());
        assert_eq!(status.code.number(), code, "{status}");
        for word in words {
            assert!(status.ex.contains(word), "{word:?} is not in {status}");
        }
        // The connection stays.
        let one = [&[0xc4, 8][..], &7_u64.to_le_bytes()].concat();
        let (failed, answer) = frames.call("features.lookup", Encoding::Msgpack, &lookup_of(&one));
        assert_eq!(failed, 0, "{}", answer.escape_ascii());
    };
    let in_eights = "u64 values: bin of 8 bytes each";
    for bytes in [1, 7, 12] {
        let block = [&[0xc4, bytes][..], &vec![0; usize::from(bytes)]].concat();
        check(&block, 30104, &["keys", &format!("{bytes} bytes"), in_eights]);
    }
    // What a payload of a few bytes announces is refused before there is memory for it: 2^32 keys have 32 GiB.
    let before = memory_peak(&server);
    check(&[0xdd, 0xff, 0xff, 0xff, 0xff, 7], 20006, &["not valid msgpack"]);
    check(&[0xc6, 0xff, 0xff, 0xff, 0xff, 7], 20006, &["not valid msgpack"]);
    let gained = memory_peak(&server) - before;
    assert!(gained < 64 << 20, "{gained} bytes");

    let mut calls = refused(&server);
    let payload = |keys: &str| json!({"table": "embeddings", "keys": keys, "base64": true});
    // 12 bytes, and text that is no base64.
    let twelve = ["AAAAAAAAAAAAAAAA", "12 bytes"];
    calls.check("features.lookup", payload(twelve[0]), 400, 30104, "keys");
    calls.check("features.lookup", payload(twelve[0]), 400, 30104, twelve[1]);
    calls.check("features.lookup", payload("AAAA*"), 400, 30104, "bad base64");
}

#[test]
fn not_a_number_is_named() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut values = [0.5_f32; 16];
    values[5] = f32::NAN;
    let bin: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut payload = Vec::new();
    let mut out = Encoder::new(&mut payload, Encoding::Msgpack, false);
    out.map(|out| {
        out.key("inputs");
        out.map(|out| {
            out.key("x");
            out.map(|out| {
                out.key("shape");
                out.items([1, 16].into_iter(), |out, size| out.uint(size));
                out.key("type");
                out.text("f32");
                out.key("data");
                out.bytes(&bin);
            });
        });
    });
    let status = native(&server, &quest("infer", &payload)).unwrap();
    assert_eq!(status.code.number(), 30104, "{status}");
    assert!(
        status.ex.contains('x') && status.ex.contains("NaN") && status.ex.contains('5'),
        "{status}"
    );
    served(&server);
}

#[test]
fn paths_and_verbs() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let (status, body) = http.send("GET /service/*ping HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(status == 200 && body.starts_with("{\"ts\":"), "{body}");
    assert_eq!(
        http.send("GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").0,
        404
    );
    assert_eq!(
        http.send("DELETE /service/infer HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .0,
        405
    );
    assert_eq!(
        http.send("PATCH /service/infer HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .0,
        405
    );
    assert_eq!(
        http.send("GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .0,
        200
    );
    assert_eq!(
        http.send("POST /service/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n{x}")
            .0,
        400
    );
    assert_eq!(server.admin_get("/nowhere").0, 404);
    assert_eq!(server.admin_get("/healthz").0, 200);
}
