//! HTTP/1.1 requests in, answers out, for the JSON front that shares the native port.
//!
//! Heads are read by `httparse`; lengths, chunks and limits are checked here. It is not a web server: no cookies, no
//! trailers, no upgrade. Its invariant: a request whose length is in doubt is refused, never guessed.
//! Source: RFC 9112 (HTTP/1.1), RFC 9110.

use crate::{HttpError, Limits, Parsed};
use std::borrow::Cow;

/// Bytes of request line and headers accepted.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers accepted.
const HEADERS_MAX: usize = 64;

/// One request, borrowing from the bytes it was read from.
#[derive(Debug, Clone, PartialEq)]
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
    /// `traceparent`.
    pub trace: Option<&'a str>,
    /// The body, with chunks joined.
    pub body: Cow<'a, [u8]>,
}

/// Whether the first bytes choose HTTP; `None` while they could still be either.
pub fn is_http(first: &[u8]) -> Option<bool> {
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

/// Reads the request at the front of `input`.
///
/// # Errors
/// Any [`HttpError`]; the connection cannot go on after it.
pub fn parse_http(input: &[u8], limits: Limits) -> Result<Parsed<HttpRequest<'_>>, HttpError> {
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut slots);
    let head_limit = HttpError::HeadTooLarge {
        limit: HEAD_BYTES_MAX,
        headers: HEADERS_MAX,
    };
    let head_len = match head.parse(input) {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_BYTES_MAX => len,
        Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => {
            return Ok(Parsed::Partial {
                needed: input.len() + 1,
                wants_continue: false,
            });
        }
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(head_limit),
        Err(error) => {
            return Err(HttpError::Malformed {
                detail: error.to_string(),
            });
        }
    };
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
                needed: head_len + bytes,
                wants_continue: wants_continue && rest.is_empty(),
            },
        }),
        Body::Chunked => Ok(match join_chunks(rest, limits.frame_bytes_max)? {
            Some((body, used)) => {
                request.body = Cow::Owned(body);
                Parsed::Whole {
                    message: request,
                    len: head_len + used,
                }
            }
            None => Parsed::Partial {
                needed: input.len() + 1,
                wants_continue: wants_continue && rest.is_empty(),
            },
        }),
    }
}

fn read_head<'a>(head: &httparse::Request<'_, 'a>) -> Result<(HttpRequest<'a>, Body, bool), HttpError> {
    let target = head.path.unwrap_or_default();
    let (path, query) = target
        .split_once('?')
        .map_or((target, None), |(path, query)| (path, Some(query)));
    let mut request = HttpRequest {
        verb: head.method.unwrap_or_default(),
        path,
        query,
        keep_alive: head.version == Some(1),
        deadline_ms: None,
        trace: None,
        body: Cow::Borrowed(&[]),
    };
    let (mut length, mut chunked, mut wants_continue) = (None, false, false);
    for header in head.headers.iter() {
        let text = || {
            let text = std::str::from_utf8(header.value)
                .map_err(|_| malformed(format!("header {} is not UTF-8", header.name)))?;
            Ok(text.trim())
        };
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let bytes = parse_length(text()?)?;
            if length.replace(bytes).is_some_and(|before| before != bytes) {
                return Err(malformed("two different Content-Length headers"));
            }
        } else if is("transfer-encoding") {
            if !text()?.eq_ignore_ascii_case("chunked") {
                return Err(malformed(format!(
                    "Transfer-Encoding {:?}; this server reads chunked alone",
                    text()?
                )));
            }
            chunked = true;
        } else if is("connection") {
            // HTTP/1.0 connections end with their answer, whatever they ask: it would have to be promised in a header.
            let close = |option: &str| option.trim().eq_ignore_ascii_case("close");
            request.keep_alive &= !text()?.split(',').any(close);
        } else if is("expect") {
            wants_continue = text()?.eq_ignore_ascii_case("100-continue");
        } else if is("x-deadline-ms") {
            request.deadline_ms = Some(number(header.name, text()?, u64::MAX)?);
        } else if is("traceparent") {
            request.trace = Some(text()?);
        }
    }
    match (length, chunked) {
        (Some(_), true) => Err(malformed("both Content-Length and Transfer-Encoding")),
        (_, true) => Ok((request, Body::Chunked, wants_continue)),
        (length, false) => Ok((request, Body::Length(length.unwrap_or(0)), wants_continue)),
    }
}

fn parse_length(text: &str) -> Result<usize, HttpError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed(format!("Content-Length {text:?} is not a number")));
    }
    // Digits that overflow are a length beyond any limit; the limit check answers them.
    Ok(text.parse().unwrap_or(usize::MAX))
}

fn number(name: &str, text: &str, max: u64) -> Result<u64, HttpError> {
    match text.parse() {
        Ok(value) if value <= max => Ok(value),
        _ => Err(malformed(format!(
            "header {name} is {text:?}; expected an integer from 0 to {max}"
        ))),
    }
}

fn malformed(detail: impl Into<String>) -> HttpError {
    HttpError::Malformed {
        detail: detail.into(),
    }
}

/// Joins a chunked body: the bytes and the input used, or `None` while it is not whole.
fn join_chunks(input: &[u8], limit: usize) -> Result<Option<(Vec<u8>, usize)>, HttpError> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let (head, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) if rest.len() < 256 => return Ok(None),
            _ => return Err(malformed("a chunk's size is not a number")),
        };
        let bytes = body.len() as u64 + size;
        if bytes > limit as u64 {
            return Err(HttpError::BodyTooLarge { bytes, limit });
        }
        let (from, size) = (at + head, size as usize);
        if size == 0 {
            // No trailers: the last chunk is followed by an empty line.
            return match input.get(from..from + 2) {
                Some(b"\r\n") => Ok(Some((body, from + 2))),
                Some(_) => Err(malformed("trailers behind a chunked body are not read")),
                None => Ok(None),
            };
        }
        let Some(chunk) = input.get(from..from + size + 2) else {
            return Ok(None);
        };
        if &chunk[size..] != b"\r\n" {
            return Err(malformed("a chunk is not followed by an empty line"));
        }
        body.extend_from_slice(&chunk[..size]);
        at = from + size + 2;
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

/// What an HTTP answer says before its body.
#[derive(Debug, Clone, Copy)]
pub struct HttpAnswer<'a> {
    /// 200, 404, …
    pub status: u16,
    /// `application/json`, …
    pub content_type: &'a str,
    /// Whether another request may follow on this connection.
    pub keep_alive: bool,
    /// Leave the body out (an answer to HEAD).
    pub head_only: bool,
}

/// Appends a whole answer to `out`.
pub fn write_http(out: &mut Vec<u8>, answer: HttpAnswer<'_>, body: &[u8]) {
    let mut number = itoa::Buffer::new();
    out.reserve(body.len() + 128);
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(number.format(answer.status).as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(reason(answer.status).as_bytes());
    out.extend_from_slice(b"\r\nContent-Type: ");
    out.extend_from_slice(answer.content_type.as_bytes());
    out.extend_from_slice(b"\r\nContent-Length: ");
    out.extend_from_slice(number.format(body.len()).as_bytes());
    out.extend_from_slice(if answer.keep_alive {
        b"\r\n\r\n"
    } else {
        b"\r\nConnection: close\r\n\r\n"
    });
    if !answer.head_only {
        out.extend_from_slice(body);
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        507 => "Insufficient Storage",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests;
