//! Every answer is read whole, byte by byte and in random pieces, with the same outcome.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use proptest::prelude::*;

const BODY_MAX: usize = 64 << 10;

/// What became of the bytes.
#[derive(Debug, PartialEq)]
enum Trouble {
    Malformed(Malformed),
    Ended,
}

/// Feeds `bytes` in pieces of the given sizes (the rest byte by byte), then the end of the connection.
fn feed(bytes: &[u8], pieces: &[usize]) -> Result<(u16, bool, Vec<u8>), Trouble> {
    let mut pieces = pieces.iter().copied();
    let (mut seen, mut needed, mut scratch) = (0, 1, Vec::new());
    loop {
        let ended = seen == bytes.len();
        seen = bytes
            .len()
            .min(seen.saturating_add(pieces.next().unwrap_or(1).max(1)));
        if seen < needed && !ended {
            continue;
        }
        let input = Input {
            bytes: &bytes[..seen],
            ended,
            bytes_max: BODY_MAX,
            scratch: &mut scratch,
        };
        match read(input, false).map_err(Trouble::Malformed)? {
            Read::Whole(parsed) => {
                assert_eq!(parsed.used, seen, "what is used is what was needed");
                return Ok((parsed.status, parsed.closes, parsed.body.to_vec()));
            }
            Read::Needs(_) if ended => return Err(Trouble::Ended),
            Read::Needs(more) => {
                assert!(more > seen, "{more} bytes are there already");
                needed = more;
            }
        }
    }
}

fn check(text: &str, expected: Result<(u16, bool, &str), Trouble>) {
    let expected = expected.map(|(status, closes, body)| (status, closes, body.as_bytes().to_vec()));
    assert_eq!(feed(text.as_bytes(), &[usize::MAX]), expected, "{text:?} at once");
    assert_eq!(feed(text.as_bytes(), &[]), expected, "{text:?} byte by byte");
}

#[test]
fn answers_of_every_framing() {
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        Ok((200, false, "{}")),
    );
    check(
        "HTTP/1.1 429 X\r\nconnection: Close\r\ncontent-length:0\r\n\r\n",
        Ok((429, true, "")),
    );
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n",
        Ok((200, false, "{}")),
    );
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\nC: d\r\n\r\n",
        Ok((200, false, "")),
    );
    check("HTTP/1.1 200 OK\r\n\r\nto the end", Ok((200, true, "to the end")));
    check("HTTP/1.1 204 No Content\r\n\r\n", Ok((204, false, "")));
    check(
        "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        Ok((200, true, "x")),
    );
    check(
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        Ok((200, false, "x")),
    );
}

#[test]
fn answers_that_are_told_to_come_are_skipped() {
    check(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        Ok((200, false, "x")),
    );
}

#[test]
fn what_is_no_answer_is_refused() {
    let kind = |text: &str| match feed(text.as_bytes(), &[usize::MAX]) {
        Err(Trouble::Malformed(Malformed::Garbage(_))) => "garbage",
        Err(Trouble::Malformed(Malformed::TooLarge(_))) => "too large",
        Err(Trouble::Ended) => "ended",
        Ok(_) => "accepted",
    };
    assert_eq!(kind(""), "ended");
    assert_eq!(kind("HTTP/1.1 200 OK\r\nContent-Le"), "ended");
    assert_eq!(kind("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), "ended");
    assert_eq!(
        kind("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
        "ended"
    );
    assert_eq!(kind("SSH-2.0-OpenSSH\r\n"), "garbage");
    assert_eq!(kind("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), "garbage");
    assert_eq!(
        kind("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        "garbage"
    );
    assert_eq!(
        kind("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"),
        "garbage"
    );
    assert_eq!(
        kind("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        "garbage"
    );
    assert_eq!(
        kind("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"),
        "garbage"
    );
    assert_eq!(
        kind("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"),
        "too large"
    );
    assert_eq!(
        kind("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n"),
        "too large"
    );
    assert_eq!(
        kind(&format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(BODY_MAX + 1))),
        "too large"
    );
    assert_eq!(
        kind(&format!("HTTP/1.1 200 OK\r\n{}", "A: b\r\n".repeat(4_000))),
        "garbage"
    );
}

proptest! {
    #[test]
    fn chunks_and_pieces_do_not_change_a_body(
        body in prop::collection::vec(any::<u8>(), 0..40_000),
        chunks in prop::collection::vec(1usize..30_000, 1..8),
        pieces in prop::collection::vec(1usize..5_000, 0..40),
    ) {
        let mut wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        let mut rest = &body[..];
        for size in chunks.iter().cycle() {
            if rest.is_empty() { break; }
            let (chunk, after) = rest.split_at((*size).min(rest.len()));
            wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            wire.extend_from_slice(chunk);
            wire.extend_from_slice(b"\r\n");
            rest = after;
        }
        wire.extend_from_slice(b"0\r\n\r\n");
        prop_assert_eq!(feed(&wire, &pieces).unwrap(), (200, false, body));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), pieces in prop::collection::vec(1usize..50, 0..20)) {
        let input = Input {
            ended: true,
            ..Input::of(&bytes, BODY_MAX)
        };
        let _ = read(input, false);
        let mut started = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        started.extend_from_slice(&bytes);
        for cut in pieces.iter().map(|cut| started.len().saturating_sub(*cut)) {
            let _ = read(Input::of(&started[..cut], BODY_MAX), false);
        }
    }
}
