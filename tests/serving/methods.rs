//! Methods of one's own: echo and constant, in both encodings, by frame and by HTTP.

use crate::harness::{Frames, Http, Millpond};
use millpond_wire_frame::Encoding;
use serde_json::json;

const OWN: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 2
[admin]
listen = "127.0.0.1:0"
[methods.echo]
kind = "echo"
[methods."two way demo"]
answer = { Simple = "one", Simple2 = 2 }
"#;

fn start(more: &str) -> (tempfile::TempDir, Millpond) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), format!("{OWN}{more}")).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    (folder, server)
}

#[test]
fn a_constant_is_fpnns_answer_byte_for_byte() {
    let (_folder, server) = start("");
    let mut frames = Frames::connect(&server.addr);
    let answer = frames.call("two way demo", Encoding::Msgpack, b"\x81\xa5quest\xa3one");
    assert_eq!(answer, (0, b"\x82\xa6Simple\xa3one\xa7Simple2\x02".to_vec()));
    let (status, bytes) = frames.call("two way demo", Encoding::Json, br#"{"quest": "one"}"#);
    assert_eq!(
        (status, bytes.as_slice()),
        (0, &br#"{"Simple":"one","Simple2":2}"#[..])
    );
    let mut http = Http::connect(&server.addr);
    let expected = json!({"Simple": "one", "Simple2": 2});
    let (status, text) = http.send("GET /service/two%20way%20demo HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((status, text.as_str()), (200, r#"{"Simple":"one","Simple2":2}"#));
    assert_eq!(http.call("two%20way%20demo", &json!({"a": 1})), (200, expected));
}

#[test]
fn an_echo_is_what_came_byte_for_byte() {
    let (_folder, server) = start("");
    let mut frames = Frames::connect(&server.addr);
    // Forms that no encoder of ours would choose: they come back as they are.
    for payload in [
        &b"\x80"[..],
        b"\xde\x00\x01\xd9\x01a\xcd\x00\x05",
        b"\x82\xa1b\xc4\x02\x01\x02\xa1a\xca\x3f\x80\x00\x00",
        b"\x81\xac_deadline_ms\xcd\x0f\xff",
    ] {
        assert_eq!(
            frames.call("echo", Encoding::Msgpack, payload),
            (0, payload.to_vec())
        );
    }
    for payload in ["{}", r#"{"b" : 1.50, "a":[ "\u00e9", null]}"#] {
        let answer = frames.call("echo", Encoding::Json, payload.as_bytes());
        assert_eq!(answer, (0, payload.as_bytes().to_vec()));
        let length = payload.len();
        let request = format!(
            "POST /service/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{payload}"
        );
        let answer = Http::connect(&server.addr).send(&request);
        assert_eq!(answer, (200, payload.to_owned()));
    }
}

#[test]
fn what_is_no_map_is_not_echoed() {
    let (_folder, server) = start("");
    let mut frames = Frames::connect(&server.addr);
    for (encoding, payload, word) in [
        (Encoding::Msgpack, &b"\x93\x01\x02\x03"[..], "root is an array"),
        (Encoding::Msgpack, b"\x80\x80", "more bytes follow"),
        (Encoding::Msgpack, b"\x81\xa1a", "not valid msgpack"),
        (Encoding::Json, b"{\"a\":nan}", "not valid JSON"),
        (Encoding::Json, b"{\"_deadline_ms\":\"x\"}", "_deadline_ms"),
        (Encoding::Json, b"{\"_deadline_ms\":0}", "deadline"),
        (
            Encoding::Json,
            b"{\"_priority\":10}",
            "key \\\"_priority\\\" is 10",
        ),
    ] {
        let (status, answer) = frames.call("echo", encoding, payload);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            status == 1 && answer.contains(word),
            "{word:?} is not in {answer}"
        );
    }
    let (status, answer) = server.call("ecko", &json!({}));
    let ex = answer["ex"].as_str().unwrap();
    assert!(status == 404 && ex.contains("two way demo"), "{ex}");
}
