//! HTTP/1.1 requests: `parse_http` and the answers written to them.
//!
//! The first byte chooses the limit of a body, the rest is a stream of requests. What must hold: a wait is for more than is
//! there and for no more than head and body may have; how a request is cut never changes what it is; no value of a request
//! ends a line of the answer; and whatever is taken as a request is that request, with that body and that end, to a reader of
//! its own ([`crate::strict`]).

use crate::cuts::{pieces, settings};
use crate::memory::within;
use crate::strict;
use millpond_wire_frame::{
    Encoding, HttpAnswer, HttpProgress, HttpRequest, Limits, Parsed, is_http, parse_http, service_method,
    service_payload, write_http, write_preflight, write_switching,
};
use millpond_wire_payload::decode_map;

/// Bytes of a request line with its headers, and as many of trailers.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Feeds requests; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn http(data: &[u8]) {
    let ([choice, seed], stream) = settings(data);
    let limits = Limits {
        frame_bytes_max: [16, 64, 1 << 10, 1 << 13][usize::from(choice % 4)],
    };
    within((1 << 18) + 16 * data.len(), || requests(limits, seed, stream));
}

fn requests(limits: Limits, seed: u8, mut rest: &[u8]) {
    let _ = is_http(rest);
    loop {
        let parsed = parse_http(rest, limits, &mut HttpProgress::default());
        check_cuts(limits, seed, rest, &parsed);
        match parsed {
            Ok(Parsed::Whole { message, len }) => {
                assert!(message.body.len() <= limits.frame_bytes_max);
                let read = strict::read(&rest[..len]);
                let taken = strict::Request {
                    body: message.body.to_vec(),
                    len,
                };
                assert_eq!(
                    read,
                    Ok(taken),
                    "what {:?} is",
                    rest[..len].escape_ascii().to_string()
                );
                answer(&message);
                rest = &rest[len..];
            }
            Ok(Parsed::Partial { needed }) => {
                assert!(needed > rest.len(), "waits for {needed} and has {}", rest.len());
                // The empty line, the head, the body with as much around its chunks, the trailers.
                let most = 2 + 2 * HEAD_BYTES_MAX + 2 * limits.frame_bytes_max + HEAD_BYTES_MAX;
                assert!(needed <= most, "waits for {needed}, where {most} is the most");
                return;
            }
            Err(_) => return,
        }
    }
}

/// What a prefix may be: not whole yet, or refused like the whole.
fn check_cuts<E: std::fmt::Debug>(
    limits: Limits,
    seed: u8,
    bytes: &[u8],
    whole: &Result<Parsed<HttpRequest<'_>>, E>,
) {
    let len = match whole {
        Ok(Parsed::Whole { len, .. }) => *len,
        _ => bytes.len(),
    };
    let (mut cut, mut progress) = (0, HttpProgress::default());
    for piece in pieces(seed, &bytes[..len]).iter().take(32) {
        cut += piece.len();
        if cut >= len {
            return;
        }
        let prefix = parse_http(&bytes[..cut], limits, &mut HttpProgress::default());
        let gone_on = parse_http(&bytes[..cut], limits, &mut progress);
        assert_eq!(
            format!("{prefix:?}"),
            format!("{gone_on:?}"),
            "read at once, and in pieces"
        );
        match (prefix, whole) {
            (Ok(Parsed::Partial { needed }), Ok(Parsed::Whole { len, .. })) => {
                assert!(needed > cut && needed <= *len, "waits for {needed} of {len}");
            }
            (Ok(Parsed::Partial { .. }), _) | (Err(_), Err(_)) => {}
            (prefix, whole) => {
                panic!("the first {cut} bytes are {prefix:?}, and all of them are {whole:?}")
            }
        }
    }
}

/// Does with a request what a connection does.
fn answer(request: &HttpRequest<'_>) {
    if let Some(method) = service_method(request.path) {
        assert!(
            !method.is_empty() || request.path.contains('%'),
            "a method without a name"
        );
    }
    let _ = decode_map(Encoding::Json, &service_payload(request.query));
    let head = HttpAnswer {
        status: 200,
        content_type: "application/json",
        keep_alive: request.keep_alive,
        head_only: false,
        allow_origin: request.origin,
        allow: None,
    };
    let mut out = Vec::new();
    write_http(&mut out, head, b"{}");
    // A tab may stand in a header, and no origin has one: such a one is left out.
    let has_origin = request.origin.is_some_and(|origin| !origin.contains('\t'));
    let lines = 3 + 2 * usize::from(has_origin) + usize::from(!request.keep_alive);
    check_head(&out, lines, b"{}");
    out.clear();
    write_preflight(&mut out, request.origin, request.keep_alive);
    let lines = 1 + 5 * usize::from(has_origin) + usize::from(!request.keep_alive);
    check_head(&out, lines, b"");
    if let Some(key) = request.upgrade_websocket {
        out.clear();
        write_switching(&mut out, key);
        check_head(&out, 4, b"");
    }
}

/// A head of so many lines, an empty one, and the body.
fn check_head(out: &[u8], lines: usize, body: &[u8]) {
    let Some(head) = out
        .strip_suffix(body)
        .and_then(|out| out.strip_suffix(b"\r\n\r\n"))
    else {
        panic!("{:?} has no end", String::from_utf8_lossy(out));
    };
    let text = String::from_utf8_lossy(head);
    assert_eq!(text.split("\r\n").count(), lines, "{text:?}");
    let line_ends = head.iter().filter(|byte| matches!(byte, b'\r' | b'\n')).count();
    assert_eq!(line_ends, 2 * (lines - 1), "{text:?}");
}
