//! HTTP/1.1 requests in, answers out, for the JSON front that shares the native port.
//!
//! Heads are read by `httparse`; lengths, chunks and limits are checked here. It is not a web server: no cookies, trailers
//! are dropped, WebSocket is the one upgrade. Its invariant: a request whose length is in doubt is refused, never guessed.
//! Source: RFC 9112 (HTTP/1.1), RFC 9110.

mod answer;
mod chunks;
mod head;

use crate::{HttpError, Limits, Parsed};
use chunks::{Walk, Walked, join_chunks, walk_chunks};
use head::read_head;
use std::borrow::Cow;
use std::fmt;

pub use answer::{HttpAnswer, write_http, write_preflight, write_switching};

/// Bytes of request line and headers accepted.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers accepted.
const HEADERS_MAX: usize = 64;
const HEAD_HINT: &str = "send the payload in the body of a POST, and shorter headers";

/// One request, borrowing from the bytes it was read from.
#[derive(Clone, PartialEq)]
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
    /// `Authorization`, scheme and credentials; a secret, left out of `Debug`.
    pub authorization: Option<&'a str>,
    /// The body, with chunks joined.
    pub body: Cow<'a, [u8]>,
}

impl fmt::Debug for HttpRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart by name, so that a new field is shown or left out on purpose.
        let HttpRequest {
            verb,
            path,
            query,
            keep_alive,
            deadline_ms,
            trace,
            upgrade_websocket,
            origin,
            other_site,
            host,
            authorization,
            body,
        } = self;
        f.debug_struct("HttpRequest")
            .field("verb", verb)
            .field("path", path)
            .field("query", query)
            .field("keep_alive", keep_alive)
            .field("deadline_ms", deadline_ms)
            .field("trace", trace)
            .field("upgrade_websocket", upgrade_websocket)
            .field("origin", origin)
            .field("other_site", other_site)
            .field("host", host)
            .field("authorization", &authorization.map(|_| "(not shown)"))
            .field("body", body)
            .finish()
    }
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
    walked: Walked,
}

/// Reads the request at the front of `input`, behind one empty line at most.
///
/// # Errors
/// Any [`HttpError`]; the connection cannot go on after it.
pub fn parse_http(input: &[u8], limits: Limits) -> Result<Parsed<HttpRequest<'_>>, HttpError> {
    parse_http_on(input, limits, &mut HttpProgress::default())
}

/// As [`parse_http`], going on from what was found in the first bytes of the same request; a whole request leaves `progress`
/// ready for the next.
///
/// # Errors
/// As [`parse_http`].
pub fn parse_http_on<'a>(
    input: &'a [u8],
    limits: Limits,
    progress: &mut HttpProgress,
) -> Result<Parsed<HttpRequest<'a>>, HttpError> {
    let (skipped, rest) = match input {
        [b'\r'] => {
            return Ok(Parsed::Partial {
                needed: 2,
                wants_continue: false,
            });
        }
        [b'\r', b'\n', rest @ ..] => (2, rest),
        _ => (0, input),
    };
    if let [b'\r' | b'\n', ..] = rest {
        return Err(malformed("more than one empty line before the request"));
    }
    Ok(match parse_request(rest, limits, &mut progress.walked)? {
        Parsed::Whole { message, len } => Parsed::Whole {
            message,
            len: skipped + len,
        },
        Parsed::Partial {
            needed,
            wants_continue,
        } => Parsed::Partial {
            needed: skipped.saturating_add(needed),
            wants_continue,
        },
    })
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

fn parse_request<'a>(
    input: &'a [u8],
    limits: Limits,
    walked: &mut Walked,
) -> Result<Parsed<HttpRequest<'a>>, HttpError> {
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut slots);
    let head_len = match head.parse(input) {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_BYTES_MAX => len,
        Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => {
            return Ok(Parsed::Partial {
                needed: input.len() + 1,
                wants_continue: false,
            });
        }
        Ok(_) => return Err(head_too_large("the HTTP head is", HEAD_HINT)),
        Err(httparse::Error::TooManyHeaders) => return Err(too_many_headers("the HTTP head is")),
        Err(error) => return Err(malformed(bad_head(error, input))),
    };
    if !ends_in_crlf(input.get(..head_len).unwrap_or_default()) {
        return Err(malformed("a line of the head does not end in CRLF"));
    }
    let (mut request, body, wants_continue) = read_head(&head)?;
    let rest = input.get(head_len..).unwrap_or_default();
    match body {
        Body::Length(bytes) if bytes > limits.frame_bytes_max => Err(HttpError::BodyTooLarge {
            bytes: bytes as u64,
            limit: limits.frame_bytes_max,
        }),
        Body::Length(bytes) => Ok(match rest.get(..bytes) {
            Some(body) => {
                request.body = Cow::Borrowed(body);
                Parsed::Whole {
                    message: request,
                    len: head_len + bytes,
                }
            }
            None => Parsed::Partial {
                needed: head_len.saturating_add(bytes),
                wants_continue: wants_continue && rest.is_empty(),
            },
        }),
        Body::Chunked => Ok(match walk_chunks(rest, limits.frame_bytes_max, walked)? {
            Walk::Whole(used) => {
                request.body = Cow::Owned(join_chunks(rest, std::mem::take(walked))?);
                Parsed::Whole {
                    message: request,
                    len: head_len + used,
                }
            }
            Walk::Partial { needed } => Parsed::Partial {
                needed: head_len.saturating_add(needed),
                wants_continue: wants_continue && rest.is_empty(),
            },
        }),
    }
}

/// Whether every line ends in CRLF: a lone LF ends one to some readers and not to others, and with it the request.
fn ends_in_crlf(lines: &[u8]) -> bool {
    let mut lines = lines.split_inclusive(|byte| *byte == b'\n');
    lines.all(|line| line.ends_with(b"\r\n"))
}

fn malformed(detail: impl Into<String>) -> HttpError {
    HttpError::Malformed {
        detail: detail.into(),
    }
}

fn head_too_large(part: &'static str, hint: &'static str) -> HttpError {
    HttpError::HeadTooLarge {
        part,
        limit: HEAD_BYTES_MAX,
        unit: "bytes",
        hint,
    }
}

fn too_many_headers(part: &'static str) -> HttpError {
    HttpError::HeadTooLarge {
        part,
        limit: HEADERS_MAX,
        unit: "headers",
        hint: "send fewer",
    }
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
