//! Requests whole, partial, chunked and against the rules.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

fn check(input: &str, expected: &str) {
    let found = match parse_http(input.as_bytes(), Limits { frame_bytes_max: 64 }) {
        Ok(Parsed::Whole { message, len }) => {
            format!(
                "{} {} {:?} {len}/{}",
                message.verb,
                message.path,
                String::from_utf8_lossy(&message.body),
                input.len()
            )
        }
        Ok(Parsed::Partial {
            needed,
            wants_continue,
        }) => format!("partial {needed} {wants_continue}"),
        Err(error) => error.to_string(),
    };
    assert!(
        found.contains(expected),
        "{found:?} does not contain {expected:?}"
    );
}

#[test]
fn lengths_and_chunks_are_read() {
    check(
        "POST /service/infer HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}X",
        "POST /service/infer \"{}\" 53/54",
    );
    check(
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n",
        "POST /a \"{}\"",
    );
    check("GET /a HTTP/1.1\r\n\r\n", "GET /a \"\"");
}

#[test]
fn partial_requests_say_what_they_need() {
    check(
        "POST /a HTTP/1.1\r\nContent-Length: 20\r\n\r\n{}",
        "partial 60 false",
    );
    check(
        "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
        "partial 70 true",
    );
    check("POST /a HT", "partial");
    check(
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        "partial",
    );
}

#[test]
fn doubtful_requests_are_refused() {
    check(
        "POST /a HTTP/1.1\r\nContent-Length: 65\r\n\r\n",
        "body is 65 bytes; the limit is 64",
    );
    check(
        "POST /a HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "the limit is 64",
    );
    check("POST /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "not a number");
    check(
        "POST /a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "two different",
    );
    check(
        "POST /a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "both",
    );
    check(
        "POST /a HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "chunked alone",
    );
    check(
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
        "body is 65535 bytes",
    );
    check(
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "size is not a number",
    );
    check(
        "POST /a HTTP/1.1\r\nX-Deadline-Ms: soon\r\n\r\n",
        "X-Deadline-Ms is \"soon\"",
    );
    check("POST /a SPDY/9\r\n\r\n", "bad HTTP request");
    check(
        &format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000)),
        "head is over",
    );
    check(
        &format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65)),
        "head is over",
    );
}

#[test]
fn paths_name_methods() {
    assert_eq!(
        service_method("/service/two%20way%20demo").unwrap(),
        "two way demo"
    );
    assert_eq!(service_method("/service/"), None);
    assert_eq!(service_method("/service/a/b"), None);
    assert_eq!(service_method("/v2/health/live"), None);
    assert_eq!(
        service_payload(Some("x=1&fpnn=%7B%22a%22%3A1%7D")).as_ref(),
        b"{\"a\":1}"
    );
    assert_eq!(service_payload(None).as_ref(), b"{}");
}

#[test]
fn the_first_bytes_choose_the_protocol() {
    assert_eq!(is_http(b"GET /"), Some(true));
    assert_eq!(is_http(b"P"), None);
    assert_eq!(is_http(b"FPNN"), Some(false));
    assert_eq!(is_http(b"PX"), Some(false));
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120), chunked: bool) {
        let mut input = b"POST /a HTTP/1.1\r\n".to_vec();
        input.extend_from_slice(if chunked { b"Transfer-Encoding: chunked\r\n\r\n" } else { b"" });
        input.extend_from_slice(&tail);
        let _ = parse_http(&input, Limits { frame_bytes_max: 64 });
    }
}

#[test]
fn connections_end_when_asked_to_and_always_in_1_0() {
    let check = |input: &str, expected: bool| match parse_http(input.as_bytes(), Limits::default()) {
        Ok(Parsed::Whole { message, .. }) => assert_eq!(message.keep_alive, expected, "{input}"),
        other => panic!("{input}: {other:?}"),
    };
    check("GET / HTTP/1.1\r\n\r\n", true);
    check("GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n", true);
    check("GET / HTTP/1.1\r\nConnection: upgrade, Close\r\n\r\n", false);
    check("GET / HTTP/1.0\r\n\r\n", false);
    check("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false);
}
