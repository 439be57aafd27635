//! Requests that two readers read differently: the cases of the public literature, each refused for its own reason.
//!
//! Each row names where the case is from. Its invariant: a row that is accepted after a change is a way past the proxy before
//! this server.

use super::check;

/// Where it was found, the headers behind `Host`, the body, and a part of the refusal.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// A body that is a request to whoever takes the length for 0, and a chunk to whoever takes it for chunked.
const INSIDE: &str = "1c\r\nGET /admin HTTP/1.1\r\nX: y\r\n\r\n0\r\n\r\n";

/// Which length counts (RFC 9112 sections 6.1, 6.3 and 11.2).
#[rustfmt::skip]
const LENGTHS: &[Row] = &[
    ("RFC 9112 6.3 (CL.TE)", "Content-Length: 6\r\nTransfer-Encoding: chunked", INSIDE, "both Content-Length"),
    ("RFC 9112 6.3 (TE.CL)", "Transfer-Encoding: chunked\r\nContent-Length: 4", INSIDE, "both Content-Length"),
    ("RFC 9112 6.3", "Content-Length: 3\r\nContent-Length: 4", "abcd", "header Content-Length stands twice"),
    ("RFC 9112 6.3", "Content-Length: 3\r\nContent-Length: 3", "abcd", "header Content-Length stands twice"),
    ("RFC 9112 6.3", "Content-Length: 3, 3", "abcd", "\"3, 3\" is not a number"),
    ("RFC 9112 6.3", "Content-Length: 3 4", "abcd", "\"3 4\" is not a number"),
    ("RUSTSEC-2021-0078 (hyper)", "Content-Length: +3", "abcd", "\"+3\" is not a number"),
    ("CVE-2018-7159 (http_parser)", "Content-Length: 1 2", "abcd", "is not a number"),
    ("CVE-2024-27982 (llhttp)", " Content-Length: 3", "abcd", "invalid header name"),
    ("RFC 9110 8.6", "Content-Length: -3", "abcd", "is not a number"),
    ("RFC 9110 8.6", "Content-Length: 0x3", "abcd", "is not a number"),
    ("RFC 9110 8.6", "Content-Length:", "abcd", "is not a number"),
    ("RFC 9110 5.6.3", "Content-Length: \u{a0}3", "abcd", "is not a number"),
    ("RFC 9110 5.6.3", "Content-Length: 3\u{a0}", "abcd", "is not a number"),
    ("RFC 9110 5.6.3", "Content-Length: 3\u{2003}", "abcd", "is not a number"),
    ("RFC 9110 8.6", "Content-Length: \u{663}", "abcd", "is not a number"),
    ("RFC 9110 8.6", "Content-Length: 18446744073709551619", "abcd", "more than any body"),
];

/// Whether the body is in chunks (RFC 9112 section 6.1).
#[rustfmt::skip]
const CODINGS: &[Row] = &[
    ("CVE-2022-32215 (llhttp)", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", INSIDE, "header Transfer-Encoding stands twice"),
    ("CVE-2020-8287 (Node)", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", INSIDE, "\"identity\"; this server reads chunked alone"),
    ("CVE-2020-8287 (Node)", "Transfer-Encoding: eee\r\nTransfer-Encoding: chunked", INSIDE, "reads chunked alone"),
    ("CVE-2022-32213 (llhttp)", "Transfer-Encoding: chunkedchunked", INSIDE, "reads chunked alone"),
    ("RFC 9112 6.1", "Transfer-Encoding: chunked, chunked", INSIDE, "reads chunked alone"),
    ("RFC 9112 6.1", "Transfer-Encoding: gzip, chunked", INSIDE, "reads chunked alone"),
    ("RFC 9112 6.1", "Transfer-Encoding: chunked, gzip", INSIDE, "reads chunked alone"),
    ("RFC 9110 5.6.1", "Transfer-Encoding: ,chunked", INSIDE, "reads chunked alone"),
    ("RFC 9112 6.1", "Transfer-Encoding:", INSIDE, "reads chunked alone"),
    ("Kettle 2019", "Transfer-Encoding: xchunked", INSIDE, "reads chunked alone"),
    ("Kettle 2019", "Transfer-Encoding: \"chunked\"", INSIDE, "reads chunked alone"),
    ("Kettle 2019, CVE-2021-22959 (llhttp)", "Transfer-Encoding : chunked", INSIDE, "invalid header name"),
    ("Kettle 2019", "Transfer-Encoding\t: chunked", INSIDE, "invalid header name"),
    ("Kettle 2019", "X: y\nTransfer-Encoding: chunked", INSIDE, "does not end in CRLF"),
    ("Kettle 2019", "Transfer-Encoding\n: chunked", INSIDE, "invalid header name"),
    ("Kettle 2019", " Transfer-Encoding: chunked", INSIDE, "invalid header name"),
    ("CVE-2019-15605 (http_parser)", "Transfer-Encoding: \u{b}chunked", INSIDE, "invalid header value"),
    ("CVE-2019-15605 (http_parser)", "Transfer-Encoding: chunked\u{c}", INSIDE, "invalid header value"),
    ("RFC 9110 5.6.3", "Transfer-Encoding: \u{a0}chunked", INSIDE, "reads chunked alone"),
    ("RFC 9110 5.6.3", "Transfer-Encoding: chunked\u{a0}", INSIDE, "reads chunked alone"),
    ("RFC 9110 5.6.3", "Transfer-Encoding: chunked\u{85}", INSIDE, "reads chunked alone"),
    ("CVE-2022-32215 (llhttp)", "Transfer-Encoding:\r\n chunked", INSIDE, "invalid header name"),
    ("CVE-2022-32215 (llhttp)", "Transfer-Encoding: chunked\r\n , identity", INSIDE, "invalid header name"),
];

/// Where a line ends, and where the head does (RFC 9112 section 2.2).
#[rustfmt::skip]
const LINES: &[Row] = &[
    ("CVE-2022-35256 (llhttp)", "Content-Length: 3\nX: y", "abc", "does not end in CRLF"),
    ("CVE-2022-32214 (llhttp)", "X: y\rContent-Length: 3", "abc", "invalid header value"),
    ("CVE-2023-30589 (llhttp)", "X:\rContent-Length: 3", "abc", "invalid header value"),
    ("CVE-2019-9740", "X: y\0\r\nContent-Length: 3", "abc", "invalid header value"),
    ("RFC 9112 5.2 (obs-fold)", "X: y\r\n Content-Length: 3", "abc", "invalid header name"),
    ("CVE-2023-25725 (HAProxy)", ": y\r\nContent-Length: 3", "abc", "invalid header name"),
    ("RFC 9112 5", "Content-Length 3", "abc", "invalid header name"),
    ("RFC 9110 5.6.2", "Content\u{a0}Length: 3", "abc", "invalid header name"),
];

/// How large a chunk is, and where it ends (RFC 9112 section 7.1).
#[rustfmt::skip]
const CHUNKS: &[Row] = &[
    ("RUSTSEC-2021-0079 (hyper)", "Transfer-Encoding: chunked", "10000000000000003\r\nabc\r\n0\r\n\r\n", "more than 8 digits"),
    ("CVE-2013-2028 (nginx)", "Transfer-Encoding: chunked", "ffffffffffffffed\r\nabc\r\n0\r\n\r\n", "more than 8 digits"),
    ("behind another chunk", "Transfer-Encoding: chunked", "2\r\n{}\r\nFFFFFFFFFFFFFFFE\r\n0\r\n\r\n", "more than 8 digits"),
    ("RFC 9112 7.1", "Transfer-Encoding: chunked", "\r\n\r\n", "a chunk has no size"),
    ("RFC 9112 7.1", "Transfer-Encoding: chunked", "3\r\nabc\r\n\r\n\r\n", "a chunk has no size"),
    ("RFC 9112 7.1", "Transfer-Encoding: chunked", "0x3\r\nabc\r\n0\r\n\r\n", "size is not a number"),
    ("CVE-2021-22960 (llhttp)", "Transfer-Encoding: chunked", "3 a\r\nabc\r\n0\r\n\r\n", "size is not a number"),
    ("llhttp, spaces behind the size", "Transfer-Encoding: chunked", "3 \r\nabc\r\n0\r\n\r\n", "size is not a number"),
    ("llhttp, chunk without CR", "Transfer-Encoding: chunked", "3\nabc\r\n0\r\n\r\n", "size is not a number"),
    ("Jeppe 2025 (TERM.EXT)", "Transfer-Encoding: chunked", "3;a\nabc\r\n0\r\n\r\n", "line end in its extension"),
    ("Jeppe 2025 (EXT.TERM)", "Transfer-Encoding: chunked", "3;\nxx\r\nabc\r\n0\r\n\r\n", "line end in its extension"),
    ("Jeppe 2025", "Transfer-Encoding: chunked", "3;\rxx\r\nabc\r\n0\r\n\r\n", "line end in its extension"),
    ("Jeppe 2025 (SPILL)", "Transfer-Encoding: chunked", "3\r\nabcXX0\r\n\r\n", "not followed by an empty line"),
    ("llhttp, chunk data without CRLF", "Transfer-Encoding: chunked", "3\r\nabc0\r\n\r\n", "not followed by an empty line"),
    ("llhttp, chunk data and LF", "Transfer-Encoding: chunked", "3\r\nabc\n0\r\n\r\n", "not followed by an empty line"),
    ("RFC 9112 7.1.2", "Transfer-Encoding: chunked", "0\r\nA: b\n\r\n", "does not end in CRLF"),
    ("RFC 9112 7.1.2", "Transfer-Encoding: chunked", "0\r\n\n", "does not end in CRLF"),
    ("RFC 9112 7.1.2", "Transfer-Encoding: chunked", "0\r\nA : b\r\n\r\n", "in the trailers"),
];

#[test]
fn what_two_readers_read_differently_is_refused() {
    for (source, headers, body, why) in [LENGTHS, CODINGS, LINES, CHUNKS].concat() {
        println!("{source}: {headers:?} {body:?}");
        check(
            &format!("POST /a HTTP/1.1\r\nHost: h\r\n{headers}\r\n\r\n{body}"),
            why,
        );
    }
}

#[test]
fn a_request_is_for_one_host() {
    for (start, hosts, why) in [
        // RFC 9112 section 3.2.
        ("GET /a HTTP/1.1", "", "HTTP/1.1 without Host"),
        (
            "GET /a HTTP/1.1",
            "Host: a\r\nHost: a\r\n",
            "header Host stands twice",
        ),
        (
            "GET /a HTTP/1.0",
            "Host: a\r\nHost: b\r\n",
            "header Host stands twice",
        ),
        (
            "GET /a HTTP/1.1",
            "Host: a b\r\n",
            "no host with or without a port",
        ),
        (
            "GET /a HTTP/1.1",
            "Host: a, b\r\n",
            "no host with or without a port",
        ),
        (
            "GET /a HTTP/1.1",
            "Host: me@a\r\n",
            "no host with or without a port",
        ),
        (
            "GET /a HTTP/1.1",
            "Host: a/b\r\n",
            "no host with or without a port",
        ),
        (
            "GET /a HTTP/1.1",
            "Host: a:8o\r\n",
            "no host with or without a port",
        ),
        (
            "GET /a HTTP/1.1",
            "Host: a:80:80\r\n",
            "no host with or without a port",
        ),
        (
            "GET /a HTTP/1.1",
            "Host: ::1\r\n",
            "no host with or without a port",
        ),
        (
            "GET /a HTTP/1.1",
            "Host: [::1\r\n",
            "no host with or without a port",
        ),
        (
            "GET /a HTTP/1.1",
            "Host: []:80\r\n",
            "no host with or without a port",
        ),
        (
            "GET /a HTTP/1.1",
            "Host: \u{a0}a\r\n",
            "no host with or without a port",
        ),
        // RFC 9112 section 3.2.2: the target's host counts, to those who look.
        (
            "GET http://a/a HTTP/1.1",
            "Host: b\r\n",
            "the target's host is \"a\" and Host is \"b\"",
        ),
        ("GET http://a:80/a HTTP/1.1", "Host: a\r\n", "expected the same"),
        ("GET http://me@a/a HTTP/1.1", "Host: a\r\n", "expected the same"),
        (
            "GET http://a?b HTTP/1.1",
            "Host: a?b\r\n",
            "no host with or without a port",
        ),
        // RFC 9112 section 6.1.
        (
            "GET /a HTTP/1.0",
            "Transfer-Encoding: chunked\r\n",
            "Transfer-Encoding in HTTP/1.0",
        ),
        // RFC 9112 sections 2.3 and 3.
        ("GET /a HTTP/1.2", "Host: a\r\n", "invalid HTTP version"),
        ("GET /a  HTTP/1.1", "Host: a\r\n", "invalid"),
        ("GET  /a HTTP/1.1", "Host: a\r\n", "invalid"),
        ("GET /a\tHTTP/1.1", "Host: a\r\n", "invalid token"),
        ("GET /a HTTP/1.1 ", "Host: a\r\n", "invalid"),
        ("GET /a\u{b}b HTTP/1.1", "Host: a\r\n", "invalid"),
        ("GET /a", "Host: a\r\n", "invalid"),
    ] {
        check(&format!("{start}\r\n{hosts}\r\n"), why);
    }
    check("GET /a HTTP/1.1\nHost: a\r\n\r\n", "does not end in CRLF");
    check("GET /a HTTP/1.1\r\nHost: a\n\r\n", "does not end in CRLF");
    check("GET /a HTTP/1.1\r\nHost: a\r\n\n", "does not end in CRLF");
    check("GET /a HTTP/1.1\r\nHost: a\n\n", "does not end in CRLF");
}

#[test]
fn what_all_readers_read_alike_is_served() {
    for (start, headers, rest) in [
        ("GET /a HTTP/1.0", "", ""),
        ("GET /a HTTP/1.0", "Host: a\r\n", ""),
        ("GET /a HTTP/1.1", "Host:\r\n", ""),
        ("GET /a HTTP/1.1", "hOST:\t a.example:13500 \r\n", ""),
        ("GET /a HTTP/1.1", "Host: [::1]:80\r\n", ""),
        ("GET /a HTTP/1.1", "Host: a:\r\n", ""),
        ("GET http://A.example/a HTTP/1.1", "Host: a.example\r\n", ""),
        ("POST /a HTTP/1.1", "Host: a\r\nContent-Length:\t3 \r\n", "abc"),
        ("POST /a HTTP/1.1", "Host: a\r\nContent-Length: 0003\r\n", "abc"),
        (
            "POST /a HTTP/1.1",
            "Host: a\r\nTRANSFER-ENCODING:\tChunked \r\n",
            "3;a=\"b\"\r\nabc\r\n0\r\nA: b\r\n\r\n",
        ),
    ] {
        let (verb, _) = start.split_once(' ').unwrap();
        let body = if rest.is_empty() { "" } else { "abc" };
        check(
            &format!("{start}\r\n{headers}\r\n{rest}"),
            &format!("{verb} /a {body:?}"),
        );
    }
}
