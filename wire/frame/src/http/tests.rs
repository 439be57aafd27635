//! Requests whole, partial, chunked and against the rules.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

mod refused;
mod smuggling;

fn parse_at_once(input: &[u8], limits: Limits) -> Result<Parsed<HttpRequest<'_>>, HttpError> {
    parse_http(input, limits, &mut HttpProgress::default())
}

fn check(input: &str, expected: &str) {
    let mut progress = HttpProgress::default();
    let found = match parse_http(input.as_bytes(), Limits { frame_bytes_max: 64 }, &mut progress) {
        Ok(Parsed::Whole { message, len }) => {
            format!(
                "{} {} {:?} {len}/{}",
                message.verb,
                message.path,
                String::from_utf8_lossy(&message.body),
                input.len()
            )
        }
        Ok(Parsed::Partial { needed }) => format!("partial {needed} {}", progress.wants_continue),
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
        "POST /service/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}X",
        "POST /service/infer \"{}\" 62/63",
    );
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n",
        "POST /a \"{}\"",
    );
    check("GET /a HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a \"\"");
}

#[test]
fn partial_requests_say_what_they_need() {
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n{}",
        "partial 69 false",
    );
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
        "partial 79 true",
    );
    check("POST /a HT", "partial");
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        "partial",
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
        let mut input = b"POST /a HTTP/1.1\r\nHost: h\r\n".to_vec();
        input.extend_from_slice(if chunked { b"Transfer-Encoding: chunked\r\n\r\n" } else { b"" });
        input.extend_from_slice(&tail);
        let _ = parse_at_once(&input, Limits { frame_bytes_max: 64 });
        let _ = (is_http(&tail), parse_at_once(&tail, Limits { frame_bytes_max: 64 }));
    }
}

#[test]
fn connections_end_when_asked_to_and_always_in_1_0() {
    let check = |input: &str, expected: bool| match parse_at_once(input.as_bytes(), Limits::default()) {
        Ok(Parsed::Whole { message, .. }) => assert_eq!(message.keep_alive, expected, "{input}"),
        other => panic!("{input}: {other:?}"),
    };
    check("GET / HTTP/1.1\r\nHost: h\r\n\r\n", true);
    check(
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n",
        true,
    );
    check(
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade, Close\r\n\r\n",
        false,
    );
    check("GET / HTTP/1.0\r\n\r\n", false);
    check("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false);
}

#[test]
fn trailers_are_read_and_dropped() {
    let head = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n";
    let with = |trailers: &str| format!("{head}{trailers}");
    check(
        &with("A: b\r\nContent-Length: 9\r\n\r\nX"),
        "POST /a \"{}\" 94/95",
    );
    check(&with("A: b\r\n"), "partial");
    check(&with("\n"), "does not end in CRLF");
    check(&with("A: b\n\r\n"), "does not end in CRLF");
    check(&with("A b\r\n\r\n"), "in the trailers");
    check(
        &with(&format!("A: {}\r\n\r\n", "a".repeat(20_000))),
        "the trailers behind a chunked body are over 16384 bytes; send less",
    );
    check(&with(&"a".repeat(20_000)), "body are over 16384 bytes");
    check(
        &with(&format!("{}\r\n", "a: b\r\n".repeat(65))),
        "body are over 64 headers; send fewer",
    );
}

#[test]
fn one_empty_line_before_a_request_is_skipped() {
    check("\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a \"\" 30/30");
    check(
        "\r\nPOST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n{}",
        "partial 71 false",
    );
    check("\r", "partial 2");
    check("\r\n", "partial 3");
    check(
        "\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n",
        "more than one empty line",
    );
    check("\r\n\r", "more than one empty line");
    check("\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n", "more than one empty line");
    assert_eq!(is_http(b"\r"), None);
    assert_eq!(is_http(b"\r\n"), None);
    assert_eq!(is_http(b"\r\nGE"), None);
    assert_eq!(is_http(b"\r\nGET "), Some(true));
    assert_eq!(is_http(b"\r\nFPNN"), Some(false));
    assert_eq!(is_http(b"\r\n\r\nGET "), Some(false));
    assert_eq!(is_http(b"\rGET"), Some(false));
}

/// A request whose head ends in `headers`.
fn with_headers<T>(
    start: &str,
    headers: &str,
    read: impl FnOnce(Result<HttpRequest<'_>, HttpError>) -> T,
) -> T {
    let input = format!("{start}\r\nHost: h\r\n{headers}\r\n");
    match parse_at_once(input.as_bytes(), Limits::default()) {
        Ok(Parsed::Whole { message, len }) => {
            assert_eq!(len, input.len());
            read(Ok(message))
        }
        Ok(partial) => panic!("{input:?}: {partial:?}"),
        Err(error) => read(Err(error)),
    }
}

#[test]
fn an_upgrade_is_recognised_where_it_is_whole() {
    const GET: &str = "GET /service/any HTTP/1.1";
    const ALL: &str = "Upgrade: h2c, WebSocket\r\nConnection: keep-alive, upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let check = |start: &str, headers: &str, expected: &str| {
        let found = with_headers(start, headers, |read| match read {
            Ok(request) => format!("{:?}", request.upgrade_websocket),
            Err(error) => error.to_string(),
        });
        assert!(
            found.contains(expected),
            "{start:?} {headers:?}: {found:?} does not contain {expected:?}"
        );
    };
    check(GET, ALL, "Some(\"dGhlIHNhbXBsZSBub25jZQ==\")");
    check("POST /a HTTP/1.1", ALL, "None");
    check("GET /a HTTP/1.0", ALL, "None");
    check(GET, &ALL.replace("WebSocket\r\n", "h3\r\n"), "None");
    check(GET, &ALL.replace("keep-alive, upgrade", "keep-alive"), "None");
    check(
        GET,
        &ALL.replace("13", "8"),
        "Sec-WebSocket-Version is \"8\"; this server speaks 13",
    );
    check(
        GET,
        &ALL.replace("Sec-WebSocket-Version", "X"),
        "is \"\"; this server",
    );
    check(
        GET,
        &ALL.replace("Sec-WebSocket-Key", "X"),
        "without Sec-WebSocket-Key",
    );
    check(GET, &ALL.replace("dGhl", "dGh"), "not 16 bytes in base64");
    check(GET, &ALL.replace("dGhl", "dG.l"), "not 16 bytes in base64");
    check(
        GET,
        &format!("{ALL}sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
        "header sec-websocket-key stands twice",
    );
}

#[test]
fn credentials_are_read_and_never_shown() {
    let headers = "Authorization:  Bearer s3cret \r\nOrigin: https://a.example\r\n";
    with_headers("GET /a HTTP/1.1", headers, |read| {
        let request = read.unwrap();
        assert_eq!(request.authorization, Some(Hidden("Bearer s3cret")));
        assert_eq!(request.origin, Some("https://a.example"));
        let shown = format!("{request:?} {request:#?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("https://a.example"), "{shown}");
    });
    with_headers("GET /a HTTP/1.1", &headers.repeat(2), |read| {
        let error = read.unwrap_err();
        assert_eq!(
            error.to_string(),
            "bad HTTP request: header Authorization stands twice; expected one"
        );
    });
}

#[test]
fn browsers_say_that_another_origin_s_page_asks() {
    let other = |sites: &[&str]| {
        let headers: String = sites
            .iter()
            .map(|site| format!("Sec-Fetch-Site: {site}\r\n"))
            .collect();
        let mut found = None;
        with_headers("GET /a HTTP/1.1", &headers, |read| {
            found = Some(read.unwrap().other_site);
        });
        found.unwrap()
    };
    assert!(other(&["cross-site"]) && other(&["same-site"]));
    // One that stands twice hides nothing.
    assert!(other(&["cross-site", "none"]) && other(&["none", "cross-site"]));
    // A page of the same origin, what a user types, no browser.
    assert!(!other(&["same-origin"]) && !other(&["none"]) && !other(&[]));
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn answers_say_who_may_read_them_and_what_is_spoken() {
    let answer = HttpAnswer {
        status: 200,
        content_type: "application/json",
        keep_alive: true,
        head_only: false,
        allow_origin: None,
        allow: None,
    };
    let check = |answer: HttpAnswer<'_>, expected: &str| {
        assert_eq!(written(|out| write_http(out, answer, b"{}")), expected);
    };
    check(
        answer,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    );
    let allow_origin = Some("https://a.example");
    check(
        HttpAnswer {
            allow_origin,
            keep_alive: false,
            ..answer
        },
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
         Access-Control-Allow-Origin: https://a.example\r\nVary: Origin\r\nConnection: close\r\n\r\n{}",
    );
    check(
        HttpAnswer {
            status: 426,
            keep_alive: false,
            ..answer
        },
        "HTTP/1.1 426 Upgrade Required\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nConnection: Upgrade, close\r\n\r\n{}",
    );
    check(
        HttpAnswer {
            status: 401,
            ..answer
        },
        "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
         WWW-Authenticate: Bearer realm=\"millpond\"\r\n\r\n{}",
    );
    check(
        HttpAnswer {
            status: 405,
            allow: Some("GET, POST"),
            ..answer
        },
        "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
         Allow: GET, POST\r\n\r\n{}",
    );
    let allow_origin = Some("https://a.example\r\nSet-Cookie: a=b");
    check(
        HttpAnswer {
            allow_origin,
            ..answer
        },
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    );
}

#[test]
fn upgrades_and_preflights_are_answered_without_a_body() {
    assert_eq!(
        written(|out| write_switching(out, "dGhlIHNhbXBsZSBub25jZQ==")),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    );
    assert_eq!(
        written(|out| write_preflight(out, Some("https://a.example"), true)),
        "HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: https://a.example\r\nVary: Origin\r\n\
         Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n\
         Access-Control-Allow-Headers: Content-Type, Authorization, X-Deadline-Ms, X-Priority, traceparent\r\n\
         Access-Control-Max-Age: 86400\r\n\r\n"
    );
    assert_eq!(
        written(|out| write_preflight(out, None, false)),
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    );
}

proptest::proptest! {
    #[test]
    fn no_echoed_value_holds_the_end_of_a_line(value in "[ -~\r\n\t\\x00\\x7f\\x80-\\xff]{0,20}") {
        let input = format!("GET / HTTP/1.1\r\nHost: h\r\nOrigin: {value}\r\n\r\n");
        if let Ok(Parsed::Whole { message, .. }) = parse_at_once(input.as_bytes(), Limits::default()) {
            let origin = message.origin.unwrap_or_default();
            proptest::prop_assert!(!origin.contains(['\r', '\n', '\0']), "{origin:?}");
        }
    }

    #[test]
    fn every_part_of_a_request_is_partial_and_says_what_it_needs(
        empty_line: bool,
        chunks in proptest::collection::vec("[a-z\r\n]{1,20}", 0..4),
        trailers in proptest::collection::vec("[A-Za-z]{1,9}: [a-z ]{0,9}\r\n", 0..4),
        behind in "[ -~]{0,9}",
    ) {
        let mut input = String::from(if empty_line { "\r\n" } else { "" });
        input += "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nOrigin: http://a\r\n\r\n";
        for chunk in &chunks {
            input += &format!("{:x}\r\n{chunk}\r\n", chunk.len());
        }
        input += &format!("0\r\n{}\r\n", trailers.concat());
        let whole = input.len();
        input += &behind;
        for cut in 0..whole {
            match parse_at_once(&input.as_bytes()[..cut], Limits::default()) {
                Ok(Parsed::Partial { needed }) => proptest::prop_assert!(cut < needed && needed <= whole),
                other => panic!("{cut} of {input:?}: {other:?}"),
            }
        }
        match parse_at_once(input.as_bytes(), Limits::default()) {
            Ok(Parsed::Whole { message, len }) => {
                proptest::prop_assert_eq!(len, whole);
                proptest::prop_assert_eq!(String::from_utf8_lossy(&message.body), chunks.concat());
            }
            other => panic!("{input:?}: {other:?}"),
        }
    }
}

/// Every piece is read where the one before it ended: a body that comes byte by byte costs no more than its bytes.
#[test]
fn chunks_are_walked_once_and_give_what_they_give_at_once() {
    let head = "POST /service/echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let input = format!("{head}3\r\n{{ \r\r\n2;a=b\r\n\t}}\r\n0\r\nTrailer: t\r\n\r\n");
    let ends = [head.len() + 8, head.len() + 19];
    let mut progress = HttpProgress::default();
    for cut in head.len()..input.len() {
        let found = parse_http(&input.as_bytes()[..cut], Limits::default(), &mut progress);
        let Ok(Parsed::Partial { needed }) = found else {
            panic!("{cut} bytes: {found:?}");
        };
        assert!(needed > cut && needed <= input.len(), "{needed} of {cut}");
        let walked = ends
            .iter()
            .rfind(|end| **end <= cut)
            .map_or(0, |end| end - head.len());
        assert_eq!(progress.walked.at, walked, "of {cut} bytes");
    }
    match parse_http(input.as_bytes(), Limits::default(), &mut progress) {
        Ok(Parsed::Whole { message, len }) => {
            assert_eq!((message.body.as_ref(), len), (&b"{ \r\t}"[..], input.len()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(progress.walked.at, 0, "the next request begins anew");
}

#[test]
fn a_traceparent_is_cut() {
    for (len, kept) in [(55, 55), (128, 128), (129, 128), (4000, 128)] {
        let input = format!(
            "GET /a HTTP/1.1\r\nHost: h\r\ntraceparent: {}\r\n\r\n",
            "a".repeat(len)
        );
        let Ok(Parsed::Whole { message, .. }) = parse_at_once(input.as_bytes(), Limits::default()) else {
            panic!("{len}");
        };
        assert_eq!(message.trace.map(str::len), Some(kept), "{len}");
    }
}
