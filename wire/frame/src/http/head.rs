//! A request's head: its target and the headers that this server acts on; others pass unread.
//!
//! It reads no body. Its invariant: a header that may stand once and stands twice is refused, never chosen from.
//! Source: RFC 9110, RFC 9112 section 6 (lengths), RFC 6455 section 4.2.1 (upgrade).

use super::{Body, HttpRequest, malformed};
use crate::HttpError;
use millpond_wire_payload::{Hidden, kept_trace};

/// Characters of a `Sec-WebSocket-Key`: 16 bytes in base64.
const WEBSOCKET_KEY_CHARS: usize = 24;

/// Digits of a length that cannot be counted which its refusal shows.
const LENGTH_SHOWN_MAX: usize = 40;

/// What the headers said, as far as they were read.
#[derive(Default)]
struct Headers<'a> {
    request: HttpRequest<'a>,
    length: Option<usize>,
    /// `Transfer-Encoding`, which is `chunked`.
    transfer_encoding: Option<&'a str>,
    wants_continue: bool,
    /// `Upgrade` lists `websocket`.
    upgrade_lists_websocket: bool,
    /// `Connection` lists `Upgrade`; without it the header of that name is for somebody before us.
    connection_lists_upgrade: bool,
    websocket_version: Option<&'a str>,
    websocket_key: Option<&'a str>,
}

/// The request without its body, how long that is, and whether the peer waits for `100 Continue`.
///
/// # Errors
/// [`HttpError::Malformed`], [`HttpError::Length`], and [`HttpError::UpgradeVersion`].
pub(super) fn read_head<'a>(
    head: &httparse::Request<'_, 'a>,
) -> Result<(HttpRequest<'a>, Body, bool), HttpError> {
    let (authority, target) = origin_form(head.path.unwrap_or_default());
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let is_1_1 = head.version == Some(1);
    let mut headers = Headers {
        request: HttpRequest {
            verb: head.method.unwrap_or_default(),
            path,
            query,
            keep_alive: is_1_1,
            ..HttpRequest::default()
        },
        ..Headers::default()
    };
    for header in head.headers.iter() {
        headers.read(header)?;
    }
    headers.check_host(authority, is_1_1)?;
    if !is_1_1 && headers.transfer_encoding.is_some() {
        // RFC 9112 section 6.1: its framing is faulty; readers of 1.0 take no chunks.
        return Err(malformed("Transfer-Encoding in HTTP/1.0"));
    }
    // An upgrade in HTTP/1.0 must be ignored (RFC 9110 section 7.8), and one that asks for more than a GET may be.
    if is_1_1 && headers.request.verb == "GET" {
        headers.request.upgrade_websocket = headers.websocket_upgrade()?;
    }
    let body = match (headers.length, headers.transfer_encoding) {
        (Some(_), Some(_)) => return Err(malformed("both Content-Length and Transfer-Encoding")),
        (None, Some(_)) => Body::Chunked,
        (length, None) => Body::Length(length.unwrap_or(0)),
    };
    // HTTP/1.0 has no such answer (RFC 9110 section 10.1.1).
    Ok((headers.request, body, headers.wants_continue && is_1_1))
}

impl<'a> Headers<'a> {
    fn read(&mut self, header: &httparse::Header<'a>) -> Result<(), HttpError> {
        let text = || text_of(header);
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            once(&mut self.length, header.name, parse_length(text()?)?)?;
        } else if is("transfer-encoding") {
            let coding = text()?;
            if !coding.eq_ignore_ascii_case("chunked") {
                return Err(malformed(format!(
                    "Transfer-Encoding {coding:?}; this server reads chunked alone"
                )));
            }
            once(&mut self.transfer_encoding, header.name, coding)?;
        } else if is("connection") {
            // HTTP/1.0 connections end with their answer, whatever they ask: it would have to be promised in a header.
            self.request.keep_alive &= !lists(text()?, "close");
            self.connection_lists_upgrade |= lists(text()?, "upgrade");
        } else if is("expect") {
            self.wants_continue |= text()?.eq_ignore_ascii_case("100-continue");
        } else if is("x-deadline-ms") {
            once(
                &mut self.request.deadline_ms,
                header.name,
                number(header.name, text()?)?,
            )?;
        } else if is("x-priority") {
            once(&mut self.request.priority, header.name, text()?)?;
        } else if is("host") {
            once(&mut self.request.host, header.name, text()?)?;
        } else if is("traceparent") {
            self.request.trace = Some(kept_trace(text()?));
        } else if is("origin") {
            once(&mut self.request.origin, header.name, text()?)?;
        } else if is("sec-fetch-site") {
            self.request.other_site |= ["cross-site", "same-site"].contains(&text()?);
        } else if is("authorization") {
            once(&mut self.request.authorization, header.name, Hidden(text()?))?;
        } else if is("upgrade") {
            self.upgrade_lists_websocket |= lists(text()?, "websocket");
        } else if is("sec-websocket-version") {
            once(&mut self.websocket_version, header.name, text()?)?;
        } else if is("sec-websocket-key") {
            once(&mut self.websocket_key, header.name, text()?)?;
        }
        Ok(())
    }

    /// Refuses a request of which readers may disagree for whom it is (RFC 9112 sections 3.2 and 3.2.2).
    fn check_host(&self, authority: Option<&str>, is_1_1: bool) -> Result<(), HttpError> {
        let Some(host) = self.request.host else {
            return match is_1_1 {
                true => Err(malformed(
                    "HTTP/1.1 without Host; name one, as in \"Host: localhost\"",
                )),
                false => Ok(()),
            };
        };
        if !is_authority(host) {
            return Err(malformed(format!(
                "Host {host:?} is no host with or without a port"
            )));
        }
        match authority {
            Some(authority) if !authority.eq_ignore_ascii_case(host) => Err(malformed(format!(
                "the target's host is {authority:?} and Host is {host:?}; expected the same"
            ))),
            _ => Ok(()),
        }
    }

    /// The key of a WebSocket upgrade, where one is asked for.
    fn websocket_upgrade(&self) -> Result<Option<&'a str>, HttpError> {
        if !self.upgrade_lists_websocket || !self.connection_lists_upgrade {
            return Ok(None);
        }
        if self.websocket_version != Some("13") {
            let found = self.websocket_version.unwrap_or_default();
            return Err(HttpError::UpgradeVersion(found.to_owned()));
        }
        match self.websocket_key {
            Some(key) if is_websocket_key(key) => Ok(Some(key)),
            Some(_) => Err(malformed("Sec-WebSocket-Key is not 16 bytes in base64")),
            None => Err(malformed("an upgrade to websocket without Sec-WebSocket-Key")),
        }
    }
}

fn text_of<'a>(header: &httparse::Header<'a>) -> Result<&'a str, HttpError> {
    match std::str::from_utf8(header.value) {
        Ok(text) => Ok(trimmed(text)),
        Err(_) => Err(malformed(format!("header {} is not UTF-8", header.name))),
    }
}

/// Without the white space that HTTP has around values: spaces and tabs alone (RFC 9110 section 5.6.3). A reader that takes more,
/// as Unicode has more, finds another value than those before it.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Keeps the value of a header that may stand once.
fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), HttpError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(malformed(format!("header {name} stands twice; expected one"))),
    }
}

/// The authority and the path with the query of a target; the authority, and the scheme before it, stand there when it is sent to a
/// proxy (RFC 9112 section 3.2.2).
fn origin_form(target: &str) -> (Option<&str>, &str) {
    let schemes = ["http://", "https://"];
    let behind = schemes.iter().find_map(|scheme| target.strip_prefix(scheme));
    match behind {
        Some(behind) => {
            let end = behind.find(['/', '?']).unwrap_or(behind.len());
            let (authority, path) = behind.split_at(end);
            (Some(authority), if path.is_empty() { "/" } else { path })
        }
        None => (None, target),
    }
}

/// Whether a `Host` is a name or an address, and perhaps a port; it may be empty (RFC 9110 section 7.2).
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rfind(']') {
        Some(end) => text.split_at(end + 1),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_number);
    // RFC 3986 section 3.2.2: unreserved, percent-encoded, sub-delims; in brackets colons besides.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => !address.is_empty() && address.bytes().all(|byte| is_name(byte) || byte == b':'),
        None => host.bytes().all(is_name),
    };
    is_host && is_port
}

/// Whether a comma-separated list holds `option`, in any case.
fn lists(list: &str, option: &str) -> bool {
    list.split(',')
        .any(|entry| trimmed(entry).eq_ignore_ascii_case(option))
}

/// Whether this has the form of 16 bytes in base64; nobody needs them decoded.
fn is_websocket_key(key: &str) -> bool {
    let digits = key.strip_suffix("==").unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    key.len() == WEBSOCKET_KEY_CHARS && digits.bytes().all(is_digit)
}

fn parse_length(text: &str) -> Result<usize, HttpError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed(format!("Content-Length {text:?} is not a number")));
    }
    text.parse().map_err(|_| match text.get(..LENGTH_SHOWN_MAX) {
        Some(digits) if digits.len() < text.len() => {
            HttpError::Length(format!("{digits}\u{2026} ({} digits)", text.len()))
        }
        _ => HttpError::Length(text.to_owned()),
    })
}

fn number(name: &str, text: &str) -> Result<u64, HttpError> {
    let expected = format_args!("an integer from 0 to {}", u64::MAX);
    text.parse()
        .map_err(|_| malformed(format!("header {name} is {text:?}; expected {expected}")))
}
