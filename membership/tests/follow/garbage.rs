//! Answers that are none of etcd's: an error that says so, the last map kept, and no more memory than one answer may take.

use crate::fake::{Fake, Mode, http};
use crate::heard::{Heard, quick};
use millpond_membership::{Error, Event, Options};
use std::time::Duration;

/// A follower that has heard the map and the node of a good answer.
fn following(fake: &Fake) -> Heard {
    let heard = Heard::of(quick(&fake.url()));
    heard.map(1);
    heard.up("a");
    heard
}

#[test]
fn garbage_is_an_error_and_the_last_map_stays() {
    let deep = "[".repeat(100_000);
    let many = format!(
        r#"{{"header":{{"revision":"2"}},"kvs":[{}],"more":true}}"#,
        "{},".repeat(99) + "{}"
    );
    let cases: [(&str, Vec<u8>, &str); 11] = [
        ("no HTTP", b"\x00\xff garbage\r\n\r\n".to_vec(), "broke off"),
        ("nothing", Vec::new(), "broke off"),
        (
            "half a head",
            b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(),
            "broke off",
        ),
        (
            "half an answer",
            http(&"x".repeat(1000))[..200].to_vec(),
            "broke off",
        ),
        (
            "half a chunk",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{".to_vec(),
            "broke off",
        ),
        ("no JSON", http("garbage"), "cannot be read"),
        ("other JSON", http("{}"), "missing field `header`"),
        ("deep JSON", http(&deep), "cannot be read"),
        (
            "a number that is none",
            http(r#"{"header":{"revision":"1e99"}}"#),
            "cannot be read",
        ),
        ("more than may be", http(&many), "more than 4096 keys"),
        (
            "a page of a proxy",
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>".to_vec(),
            "status 502",
        ),
    ];
    let fake = Fake::start(Mode::Good);
    let heard = following(&fake);
    for (name, bytes, expected) in cases {
        fake.set(Mode::Bytes(bytes));
        let error = heard.lost().to_string();
        assert!(
            error.contains(expected) && error.contains(&fake.url()),
            "{name}: {error}"
        );
        fake.set(Mode::Good);
        let back = heard.connected();
        assert_eq!(back.len(), 1, "{name}: {back:?}");
    }
}

#[test]
fn a_watch_that_says_garbage_is_begun_anew() {
    let fake = Fake::start(Mode::Good);
    let heard = following(&fake);
    let cases = [
        ("garbage\n", "cannot be read"),
        ("{}\n", "cannot be read"),
        (
            "{\"result\":{\"events\":[{\"type\":\"OTHER\"}]}}\n",
            "unknown variant",
        ),
        (
            "{\"result\":{\"canceled\":true,\"compact_revision\":\"9\"}}\n",
            "revisions below 9 are compacted",
        ),
        (
            "{\"result\":{\"canceled\":true,\"cancel_reason\":\"no leader\"}}\n",
            "no leader",
        ),
        (
            "{\"error\":{\"grpc_code\":14,\"message\":\"stopped\"}}\n",
            "stopped",
        ),
    ];
    for (line, expected) in cases {
        fake.set(Mode::InWatch(line.into()));
        let error = heard.lost().to_string();
        assert!(error.contains(expected), "{line}: {error}");
        let back = heard.connected();
        assert_eq!(back.len(), 1, "{line}: {back:?}");
    }
    // What a newer etcd may add means nothing, nor does an empty line; messages need not be chunks.
    let delete = concat!(
        "{\"result\":{\"header\":{},\"new\":1}}\n\n{\"result\":{\"events\":[{\"type\":\"DELETE\",",
        "\"kv\":{\"key\":\"L21pbGxwb25kL3Rlc3Qvbm9kZXMvYQ==\"}}]}}\n{\"resu"
    );
    fake.set(Mode::InWatch(delete.into()));
    heard.down("a");
    // The listing still has it, so the watch has missed something.
    let error = heard.lost().to_string();
    assert!(error.contains("it misses changes"), "{error}");
    heard.up("a");
}

#[test]
fn slow_answers_are_given_up() {
    let fake = Fake::start(Mode::Good);
    let heard = following(&fake);
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
    for mode in [Mode::Drip(head), Mode::Drip(Vec::new())] {
        fake.set(mode);
        let error = heard.lost();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        fake.set(Mode::Good);
        heard.connected();
    }
}

#[test]
fn endless_answers_are_cut() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 65_536], b"\r\n"].concat();
    let fake = Fake::start(Mode::Endless(chunked, chunk));
    // So that no call is given up before it is cut.
    let patient = |fake: &Fake| Options {
        lease_ttl: Duration::from_secs(120),
        call_timeout: Duration::from_secs(60),
        ..quick(&fake.url())
    };
    let error = Heard::of(patient(&fake)).lost();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
    let fake = Fake::start(Mode::Endless(
        b"HTTP/1.1 200 OK\r\n".to_vec(),
        b"X-A: aaaaaaaaaaaaaaaa\r\n".to_vec(),
    ));
    let error = Heard::of(patient(&fake)).lost();
    assert!(matches!(error, Error::Broken { .. }), "{error}");
    let fake = Fake::start(Mode::Good);
    let heard = Heard::of(patient(&fake));
    heard.map(1);
    fake.set(Mode::EndlessWatch(vec![b'x'; 65_536]));
    let heard = heard.until("that etcd is lost", |event| matches!(event, Event::Lost(_)));
    assert!(
        matches!(heard.last(), Some(Event::Lost(Error::TooLong { .. }))),
        "{heard:?}"
    );
}
