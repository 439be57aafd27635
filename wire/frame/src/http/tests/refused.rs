//! Requests that are refused: too large, against the rules, or read differently by different readers.

use super::check;

#[test]
fn doubtful_requests_are_refused() {
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 65\r\n\r\n",
        "body is 65 bytes; the limit is 64",
    );
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616\r\n\r\n",
        "Content-Length is 18446744073709551616, which is more than any body has",
    );
    check(
        &format!(
            "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
            "9".repeat(5000)
        ),
        &format!(
            "Content-Length is {}\u{2026} (5000 digits), which",
            "9".repeat(40)
        ),
    );
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        "not a number",
    );
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "header Content-Length stands twice",
    );
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "both",
    );
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
        "chunked alone",
    );
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
        "body is 65535 bytes",
    );
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "a chunk's size does not begin with a hexadecimal digit",
    );
    check(
        "POST /a HTTP/1.1\r\nHost: h\r\nX-Deadline-Ms: soon\r\n\r\n",
        "X-Deadline-Ms is \"soon\"",
    );
    check("POST /a SPDY/9\r\n\r\n", "bad HTTP request");
    for name in ["Host", "X-Deadline-Ms", "X-Priority"] {
        check(
            &format!("POST /a HTTP/1.1\r\nHost: h\r\n{name}: 5\r\n{name}: 5\r\n\r\n"),
            "stands twice",
        );
    }
    for line in ["2;\nxx", "7;a\nb", "2;a=\"\n\""] {
        check(
            &format!(
                "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{line}\r\n{{}}\r\n0\r\n\r\n"
            ),
            "line end in its extension",
        );
    }
    check(
        &format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(20_000)),
        "the HTTP head is over 16384 bytes; send the payload in the body of a POST",
    );
    check(
        &format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "a: b\r\n".repeat(65)),
        "the HTTP head is over 64 headers; send fewer",
    );
}

#[test]
fn what_stands_around_chunks_is_bounded_like_what_is_in_them() {
    let chunk = |line: usize| format!("1;{}\r\nx\r\n", "e".repeat(line - 4));
    let request = |chunks: &str| {
        format!("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
    };
    check(&request(&chunk(256)), "POST /a \"x\"");
    let long = request(&chunk(257));
    check(&long, "the line of a chunk's size is over 256 bytes");
    // Refused as soon as it is told, however it is cut.
    let line_end = long.find("\r\nx").expect("the line's end");
    check(&long[..line_end + 1], "over 256 bytes");
    // 64 bytes of body are within the limit, and 64 lines of 256 are not within that of a head and as much again.
    check(&request(&chunk(256).repeat(63)), "POST /a");
    check(&request(&chunk(256).repeat(64)), "more bytes around the chunks");
}

/// A chunked request with that body.
fn chunked(body: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
}

#[test]
fn the_sizes_of_chunks_do_not_wrap() {
    // Behind another chunk: the sum of both is 0 modulo 2^64, and the size with its line end is none modulo 2^64.
    for size in [
        "FFFFFFFFFFFFFFFE",
        "FFFFFFFFFFFFFFFF",
        "FFFFFFFFFFFFFFFD",
        "100000000",
        "000000000",
    ] {
        check(
            &chunked(&format!("2\r\n{{}}\r\n{size}\r\n0\r\n\r\n")),
            "a chunk's size has more than 8 digits",
        );
    }
    check(
        &chunked("2\r\n{}\r\nFFFFFFFF\r\n0\r\n\r\n"),
        "body is 4294967297 bytes; the limit is 64",
    );
    check(&chunked("2\r\n{}\r\n3f\r\n"), "body is 65 bytes; the limit is 64");
    check(&chunked("2\r\n{}\r\n3e\r\n"), "partial");
    check(&chunked("00000002\r\n{}\r\n00000000\r\n\r\n"), "POST /a \"{}\"");
}

#[test]
fn the_line_of_a_chunk_is_its_size_and_extensions_alone() {
    check(&chunked("\r\n\r\n"), "a chunk has no size");
    check(&chunked(";a=b\r\n\r\n"), "a chunk has no size");
    for size in ["+2", "-2", " 2"] {
        check(
            &chunked(&format!("{size}\r\n{{}}\r\n")),
            "without sign, space or prefix",
        );
    }
    check("GET  /a HTTP/1.1\r\nHost: h\r\n\r\n", "without further spaces");
    check(
        "GET /a HTTP/1.1\r\nHost : h\r\n\r\n",
        "without a space before the colon",
    );
    check(
        "GET /a HTTP/1.1\r\nHost: h\r\n x\r\n\r\n",
        "at the line's beginning",
    );
    check("FPNN\u{1}\u{40}\u{1}\u{5}", "open another for frames");
    for line in [
        "2 ", "2\t", " 2", "+2", "-2", "0x2", "2 ;a", "2,", "2\u{a0}", "2_", "2h", "\n2",
    ] {
        check(&chunked(&format!("{line}\r\n{{}}\r\n0\r\n\r\n")), "a chunk");
        check(
            &chunked(&format!("{line}\r\n{{}}\r\n0\r\n\r\n")),
            "bad HTTP request",
        );
    }
    for line in ["2\n", "2;a\n", "2\r", "2;a\rb"] {
        check(
            &chunked(&format!("{line}{{}}\r\n0\r\n\r\n")),
            "bad HTTP request: a chunk's",
        );
    }
    check(&chunked("2;a\0b\r\n{}\r\n0\r\n\r\n"), "a control character");
    check(&chunked("2;a=\"b c\";\td\r\n{}\r\n0\r\n\r\n"), "POST /a \"{}\"");
    check(&chunked("2\r\n{}\n0\r\n\r\n"), "not followed by an empty line");
    check(&chunked("2\r\n{}X\r\n0\r\n\r\n"), "not followed by an empty line");
}
