//! HTTP/1.1 requests in, answers out, for the JSON front that shares the native port.
//!
//! Heads are read by `httparse`; lengths, chunks and limits are checked here. It is not a web server: no cookies, trailers
//! are dropped, WebSocket is the one upgrade. Its invariant: a request whose length is in doubt is refused, never guessed.
//! Source: RFC 9112 (HTTP/1.1), RFC 9110.

mod answer;
mod chunks;
mod head;

use crate::{HttpError, Limits, Parsed};
use chunks::{Walked, read_chunks};
use head::read_head;
use millpond_wire_payload::Hidden;
use std::borrow::Cow;

pub use answer::{HttpAnswer, write_http, write_preflight, write_switching};

/// Bytes of request line and headers accepted.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers accepted.
const HEADERS_MAX: usize = 64;
const HEAD_HINT: &str = "send the payload in the body of a POST, and shorter headers";

/// One request, borrowing from the bytes it was read from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HttpRequest<'a> {
    /// GET, POST, …
    pub verb: &'a str,
    /// The target before `?`, still percent-encoded.
    pub path: &'a str,
    /// The target behind `?`.
    pub query: Option<&'a str>,
    /// Whether the connection serves another request after this one.
    pub keep_alive: bool,
    /// `X-Deadline-Ms`.
    pub deadline_ms: Option<u64>,
    /// `X-Priority`, as it stands there.
    pub priority: Option<&'a str>,
    /// `traceparent`; cut after 128 bytes.
    pub trace: Option<&'a str>,
    /// `Sec-WebSocket-Key` of a request to go on as a WebSocket of version 13 (RFC 6455 section 4.2.1): the bytes behind
    /// this request are WebSocket frames if it is granted with [`write_switching`].
    pub upgrade_websocket: Option<&'a str>,
    /// `Origin`: the web page that calls, as its browser names it; without CR or LF.
    pub origin: Option<&'a str>,
    /// `Sec-Fetch-Site` says that a page of another origin asks: browsers name no origin for images, links and other GETs.
    /// Source: Fetch Metadata Request Headers (W3C), section 2.4.
    pub other_site: bool,
    /// `Host`: what the caller takes this server for, a name or an address, and perhaps a port. HTTP/1.1 always has one.
    pub host: Option<&'a str>,
    /// `Authorization`, scheme and credentials.
    pub authorization: Option<Hidden<'a>>,
    /// The body, with chunks joined.
    pub body: Cow<'a, [u8]>,
}

/// Whether the first bytes choose HTTP; `None` while they could still be either. One empty line (CRLF) may stand before a
/// request (RFC 9112 section 2.2).
#[inline]
pub fn is_http(first: &[u8]) -> Option<bool> {
    // Most connections are no HTTP, and are asked this once a request.
    match first.first_chunk() {
        Some(b"FPNN") => Some(false),
        _ => might_be_http(first),
    }
}

fn might_be_http(first: &[u8]) -> Option<bool> {
    let first = match first {
        b"\r" => return None,
        _ => first.strip_prefix(b"\r\n").unwrap_or(first),
    };
    const VERBS: [&[u8]; 7] = [b"GET ", b"POST", b"PUT ", b"PATC", b"DELE", b"HEAD", b"OPTI"];
    match first.first_chunk::<4>() {
        Some(four) => Some(VERBS.iter().any(|verb| *verb == four)),
        None if VERBS.iter().any(|verb| verb.starts_with(first)) => None,
        None => Some(false),
    }
}

/// How long the body is said to be.
#[derive(Clone, Copy, PartialEq)]
enum Body {
    Length(usize),
    Chunked,
}

/// What is known of a request that is not whole yet, so that what was read is not read again with every piece: the head is,
/// the chunks of a body are not.
#[derive(Debug, Clone, Copy, Default)]
pub struct HttpProgress {
    /// The peer waits for `100 Continue` before it sends the rest.
    pub wants_continue: bool,
    walked: Walked,
}

/// What is wrong with a head, and what to write instead.
fn bad_head(error: httparse::Error, input: &[u8]) -> String {
    let hint = match error {
        _ if input.starts_with(b"FPNN") => {
            return "a frame; this connection speaks HTTP since its first request: open another for frames"
                .into();
        }
        httparse::Error::Token => {
            "; the request line is VERB, a space, the path, a space and HTTP/1.1, without further spaces"
        }
        httparse::Error::HeaderName => {
            "; a header is NAME: VALUE on one line, without a space before the colon or at the line's beginning"
        }
        _ => "",
    };
    format!("{error}{hint}")
}

/// Reads the request at the front of `input`, behind one empty line at most, going on from what was found in the first bytes of
/// the same request; a whole request leaves `progress` ready for the next.
///
/// # Errors
/// Any [`HttpError`]; the connection cannot go on after it.
pub fn parse_http<'a>(
    input: &'a [u8],
    limits: Limits,
    progress: &mut HttpProgress,
) -> Result<Parsed<HttpRequest<'a>>, HttpError> {
    let skipped = if input.starts_with(b"\r\n") { 2 } else { 0 };
    let rest = match &input[skipped..] {
        b"\r" if skipped == 0 => return Ok(Parsed::Partial { needed: 2 }),
        [b'\r' | b'\n', ..] => return Err(malformed("more than one empty line before the request")),
        rest => rest,
    };
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut slots);
    let head_len = match head.parse(rest) {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_BYTES_MAX => skipped + len,
        Ok(httparse::Status::Partial) if rest.len() < HEAD_BYTES_MAX => {
            let needed = input.len() + 1;
            return Ok(Parsed::Partial { needed });
        }
        Ok(_) => return Err(head_too_large("the HTTP head is", HEAD_HINT)),
        Err(httparse::Error::TooManyHeaders) => return Err(too_many_headers("the HTTP head is")),
        Err(error) => return Err(malformed(bad_head(error, rest))),
    };
    let (lines, rest) = input.split_at(head_len);
    if !ends_in_crlf(lines) {
        return Err(malformed("a line of the head does not end in CRLF"));
    }
    let (request, body, wants_continue) = read_head(&head)?;
    let limit = limits.frame_bytes_max;
    let body = match body {
        Body::Length(bytes) if bytes > limit => {
            let bytes = bytes as u64;
            return Err(HttpError::BodyTooLarge { bytes, limit });
        }
        Body::Length(len) => match rest.get(..len) {
            Some(body) => Parsed::Whole {
                message: Cow::Borrowed(body),
                len,
            },
            None => Parsed::Partial { needed: len },
        },
        Body::Chunked => read_chunks(rest, limit, &mut progress.walked)?,
    };
    Ok(match body {
        Parsed::Whole { message: body, len } => {
            *progress = HttpProgress::default();
            Parsed::Whole {
                message: HttpRequest { body, ..request },
                len: head_len + len,
            }
        }
        Parsed::Partial { needed } => {
            progress.wants_continue = wants_continue && rest.is_empty();
            let needed = head_len.saturating_add(needed);
            Parsed::Partial { needed }
        }
    })
}

/// Whether every line ends in CRLF: a lone LF ends one to some readers and not to others, and with it the request.
fn ends_in_crlf(lines: &[u8]) -> bool {
    let mut lines = lines.split_inclusive(|byte| *byte == b'\n');
    lines.all(|line| line.ends_with(b"\r\n"))
}

fn malformed(detail: impl Into<String>) -> HttpError {
    HttpError::Malformed(detail.into())
}

fn head_too_large(part: &str, hint: &str) -> HttpError {
    HttpError::HeadTooLarge(format!("{part} over {HEAD_BYTES_MAX} bytes; {hint}"))
}

fn too_many_headers(part: &str) -> HttpError {
    HttpError::HeadTooLarge(format!("{part} over {HEADERS_MAX} headers; send fewer"))
}

/// The method that `/service/METHOD` names, percent-decoded; `None` for any other path.
pub fn service_method(path: &str) -> Option<Cow<'_, str>> {
    let name = path.strip_prefix("/service/")?;
    if name.is_empty() || name.contains('/') {
        return None;
    }
    percent_encoding::percent_decode_str(name).decode_utf8().ok()
}

/// The JSON of `?fpnn=…` (an empty map where it is missing), as FPNN's GET form has it.
pub fn service_payload(query: Option<&str>) -> Cow<'_, [u8]> {
    let pairs = query.unwrap_or_default().split('&');
    let fpnn = pairs.filter_map(|pair| pair.strip_prefix("fpnn=")).next();
    match fpnn {
        None | Some("") => Cow::Borrowed(b"{}"),
        Some(text) if text.contains('+') => {
            Cow::Owned(percent_encoding::percent_decode_str(&text.replace('+', " ")).collect())
        }
        Some(text) => percent_encoding::percent_decode_str(text).into(),
    }
}

#[cfg(test)]
mod tests;
