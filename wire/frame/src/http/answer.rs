//! HTTP/1.1 answers: a head and a body, the leave to go on as a WebSocket, the answer to a CORS preflight.
//!
//! It decides nothing, least of all which origins may call. Its invariant: no value of a caller ends its own header line.
//! Source: RFC 9110, RFC 9112; CORS: the WHATWG Fetch standard, section 3.3.

use crate::websocket::accept_key;

/// What an HTTP answer says before its body.
#[derive(Debug, Clone, Copy)]
pub struct HttpAnswer<'a> {
    /// 200, 404, …; 426 also says that WebSocket version 13 is spoken, and 401 that a bearer token is asked for.
    pub status: u16,
    /// `application/json`, …
    pub content_type: &'a str,
    /// Whether another request may follow on this connection.
    pub keep_alive: bool,
    /// Leave the body out (an answer to HEAD).
    pub head_only: bool,
    /// The request's `Origin` where it may read the answer, or `*`; whether it may is the caller's decision.
    pub allow_origin: Option<&'a str>,
    /// The verbs that are served there, as in `GET, POST`: what an answer of 405 must say (RFC 9110 section 15.5.6).
    pub allow: Option<&'static str>,
}

/// Appends a whole answer to `out`.
pub fn write_http(out: &mut Vec<u8>, answer: HttpAnswer<'_>, body: &[u8]) {
    out.reserve(body.len() + 128);
    write_status(out, answer.status);
    write_header(out, "Content-Type", answer.content_type);
    write_header(out, "Content-Length", itoa::Buffer::new().format(body.len()));
    write_origin(out, answer.allow_origin);
    if let Some(verbs) = answer.allow {
        write_header(out, "Allow", verbs);
    }
    if answer.status == 401 {
        // RFC 9110 section 15.5.2; the scheme's own word is RFC 6750, section 3.
        out.extend_from_slice(b"WWW-Authenticate: Bearer realm=\"millpond\"\r\n");
    }
    let is_upgrade = answer.status == 426;
    if is_upgrade {
        // RFC 9110 section 15.5.22 and RFC 6455 section 4.4.
        out.extend_from_slice(b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
    }
    out.extend_from_slice(match (is_upgrade, answer.keep_alive) {
        (false, true) => b"\r\n",
        (false, false) => b"Connection: close\r\n\r\n",
        (true, true) => b"Connection: Upgrade\r\n\r\n",
        (true, false) => b"Connection: Upgrade, close\r\n\r\n",
    });
    if !answer.head_only {
        out.extend_from_slice(body);
    }
}

/// Appends the answer that turns the connection into a WebSocket: 101 with the accept key of `sec_websocket_key`, the
/// request's [`crate::HttpRequest::upgrade_websocket`]. No subprotocol and no extension is agreed on. RFC 6455 section 4.2.2.
pub fn write_switching(out: &mut Vec<u8>, sec_websocket_key: &str) {
    write_status(out, 101);
    out.extend_from_slice(b"Upgrade: websocket\r\nConnection: Upgrade\r\n");
    write_header(out, "Sec-WebSocket-Accept", &accept_key(sec_websocket_key));
    out.extend_from_slice(b"\r\n");
}

/// Appends the answer to an OPTIONS request by which a browser asks whether a page may call: 204 without a body.
/// `allow_origin` is as in [`HttpAnswer`]; without it nothing is allowed, and the browser keeps the page from calling.
pub fn write_preflight(out: &mut Vec<u8>, allow_origin: Option<&str>, keep_alive: bool) {
    write_status(out, 204);
    if write_origin(out, allow_origin) {
        out.extend_from_slice(
            b"Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n\
              Access-Control-Allow-Headers: Content-Type, Authorization, X-Deadline-Ms, X-Priority, traceparent\r\n\
              Access-Control-Max-Age: 86400\r\n",
        );
    }
    out.extend_from_slice(if keep_alive {
        b"\r\n"
    } else {
        b"Connection: close\r\n\r\n"
    });
}

/// Appends what lets a page of this origin read the answer, and keeps caches from showing it to another; whether it did.
/// A value that would end the line is left out: none comes from [`crate::parse_http`].
fn write_origin(out: &mut Vec<u8>, allow_origin: Option<&str>) -> bool {
    let is_one_line = |origin: &&str| !origin.bytes().any(|byte| byte.is_ascii_control());
    let Some(origin) = allow_origin.filter(is_one_line) else {
        return false;
    };
    write_header(out, "Access-Control-Allow-Origin", origin);
    write_header(out, "Vary", "Origin");
    true
}

fn write_header(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn write_status(out: &mut Vec<u8>, status: u16) {
    for part in [
        "HTTP/1.1 ",
        itoa::Buffer::new().format(status),
        " ",
        reason(status),
        "\r\n",
    ] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        507 => "Insufficient Storage",
        _ => "Unknown",
    }
}
