//! HTTP/1.1 requests on kept connections, one outstanding on each.
//!
//! Requests lie ready as whole byte strings, heads included. Its invariant: an answer is counted by its status, never by its
//! words alone.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::body::{self, Parsed};
use crate::TargetKind;
use crate::check::Answer;
use crate::kind::{Given, Takes, first_words};
use crate::protocol::{
    Found, Input, Malformed, NOT_READY, OVERLOADED, Prepared, Protocol, Read, Said, on_wire,
};

pub(super) const KIND: TargetKind = TargetKind {
    in_words: |target| match target.operations.first() {
        None => target.method_and_path().1,
        Some(first) => first_words(first),
    },
    texts: |target, operation| {
        let path = operation.path.clone().or_else(|| {
            let method = operation.method.as_deref().or(target.method);
            method.map(|method| format!("/service/{method}"))
        });
        let path = path.or(target.path.map(str::to_owned)).ok_or("path")?;
        let default = if operation.body.is_some() { "POST" } else { "GET" };
        let verb = operation.verb.as_deref().unwrap_or(default);
        let first = format!("{verb} {path}");
        Ok(vec![first, operation.body.clone().unwrap_or_default()])
    },
    ..on_wire::<Http>(&["http"])
};

/// One request before it is written out.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Such as `POST`.
    pub verb: &'a str,
    /// From its first `/` on.
    pub path: &'a str,
    /// JSON, unless the headers say otherwise.
    pub body: &'a [u8],
}

impl Request<'_> {
    /// The request as it is sent.
    pub fn written(self, host: &str) -> Vec<u8> {
        let mut written = Vec::new();
        write_request(self, host, "", &mut written);
        written
    }
}

struct Http;

/// A connection that is kept for one request at a time; blocking, and each exchange is bounded in time and size.
pub struct Connection {
    stream: TcpStream,
    /// What came of the answer, with nothing behind it.
    bytes: Vec<u8>,
    /// Where an answer in pieces is joined.
    scratch: Vec<u8>,
    timeout: Duration,
    bytes_max: usize,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(address: SocketAddr, (timeout, bytes_max): (Duration, usize)) -> Result<Connection, String> {
        let words = |error: std::io::Error| error.to_string();
        let stream = TcpStream::connect_timeout(&address, timeout).map_err(words)?;
        stream.set_nodelay(true).map_err(words)?;
        stream.set_write_timeout(Some(timeout)).map_err(words)?;
        Ok(Connection {
            stream,
            bytes: Vec::new(),
            scratch: Vec::new(),
            timeout,
            bytes_max,
        })
    }

    /// Sends a request as it is written, and gives status and body.
    ///
    /// # Errors
    /// Nothing that is an answer came in time; the message says what came instead.
    pub fn exchange(&mut self, written: &[u8]) -> Result<(u16, Vec<u8>), String> {
        let words = |error: std::io::Error| error.to_string();
        let deadline = Instant::now() + self.timeout;
        self.stream.write_all(written).map_err(words)?;
        self.bytes.clear();
        let (mut buffer, mut ended) = ([0; 4096], false);
        loop {
            let input = Input {
                bytes: &self.bytes,
                ended,
                bytes_max: self.bytes_max,
                scratch: &mut self.scratch,
            };
            match body::read(input, false).map_err(|why| why.to_string())? {
                body::Read::Whole(parsed) => return Ok((parsed.status, parsed.body.to_vec())),
                body::Read::Needs(_) if ended => return Err("the connection ended before the answer".into()),
                body::Read::Needs(_) => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("no answer within {} s", self.timeout.as_secs()));
            }
            self.stream.set_read_timeout(Some(left)).map_err(words)?;
            let count = self.stream.read(&mut buffer).map_err(words)?;
            ended = count == 0;
            self.bytes.extend_from_slice(&buffer[..count]);
            if self.bytes.len() > 2 * self.bytes_max {
                return Err("the answer has no end".into());
            }
        }
    }
}

/// Writes one request; `Content-Type` is JSON where a body is sent and the headers name none.
fn write_request(request: Request<'_>, host: &str, headers: &str, out: &mut Vec<u8>) {
    let Request { verb, path, body } = request;
    out.extend_from_slice(format!("{verb} {path} HTTP/1.1\r\nHost: {host}\r\n").as_bytes());
    let is_named = headers.to_ascii_lowercase().contains("content-type:");
    if !body.is_empty() && !is_named {
        out.extend_from_slice(b"Content-Type: application/json\r\n");
    }
    if !body.is_empty() || !matches!(verb, "GET" | "HEAD" | "DELETE" | "OPTIONS") {
        out.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    out.extend_from_slice(headers.as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

impl Protocol for Http {
    type State = ();
    const TAKES: Takes = Takes {
        tls: true,
        json: true,
        path: true,
        ..Takes::NONE
    };

    fn prepare(given: &Given<'_>, requests: &mut Prepared) -> Result<Http, String> {
        let target = &given.target;
        let lines = |(name, value): (&String, &String)| format!("{name}: {value}\r\n");
        let headers: String = target.headers.iter().map(lines).collect();
        let verb = if given.is_empty { "GET" } else { "POST" };
        let first = format!("{verb} {}", target.method_and_path().1);
        given.each_body(&first, |first, body| {
            let (verb, path) = first.split_once(' ').unwrap_or(("GET", first));
            let request = Request { verb, path, body };
            requests.push(|out| write_request(request, target.address, &headers, out));
            Ok(())
        })?;
        Ok(Http)
    }

    fn read<'b>(&self, (): &mut (), request: &[u8], input: Input<'b>) -> Result<Read<'b>, Malformed> {
        // The answer to a HEAD has no body.
        let is_head = request.starts_with(b"HEAD ");
        let parsed = match body::read(input, is_head)? {
            body::Read::Whole(parsed) => parsed,
            body::Read::Needs(needed) => return Ok(Read::Needs(needed)),
        };
        Ok(Read::Found(Found {
            used: parsed.used,
            serial: 0,
            said: judge(&parsed),
            closes: parsed.closes,
        }))
    }
}

/// Any status of the 200s is an answer. Others carry their code as JSON, by this product and its like.
fn judge<'b>(parsed: &Parsed<'b>) -> Said<'b> {
    #[derive(Deserialize)]
    struct Words {
        code: Option<u32>,
        ex: Option<String>,
    }
    let status = parsed.status;
    if (200..300).contains(&status) {
        return Said::Answer(Answer::Json(parsed.body));
    }
    let words = serde_json::from_slice(parsed.body).unwrap_or(Words { code: None, ex: None });
    match words.code {
        Some(code @ (OVERLOADED | NOT_READY)) if matches!(status, 429 | 503) => Said::Refused {
            code,
            whole_connection: parsed.closes,
        },
        None if matches!(status, 429 | 503) => Said::Refused {
            code: u32::from(status),
            whole_connection: parsed.closes,
        },
        code => Said::Failed {
            code: code.unwrap_or(u32::from(status)),
            why: format!(
                "HTTP status {status}: {}",
                words.ex.unwrap_or_else(|| "no reason given".into())
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn said(answer: &str) -> String {
        let input = Input::of(answer.as_bytes(), 1_000);
        match Http.read(&mut (), b"POST /x HTTP/1.1", input).unwrap() {
            Read::Found(found) => format!("{:?}, closes {}", found.said, found.closes),
            Read::Needs(needed) => format!("needs {needed}"),
        }
    }

    #[test]
    fn requests_say_what_they_carry() {
        let written = |verb: &str, body: &[u8], headers: &str| {
            let mut out = Vec::new();
            write_request(
                Request {
                    verb,
                    path: "/a?b",
                    body,
                },
                "h:1",
                headers,
                &mut out,
            );
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written("GET", b"", ""), "GET /a?b HTTP/1.1\r\nHost: h:1\r\n\r\n");
        assert_eq!(
            written("POST", b"{}", "X-A: 1\r\n"),
            "POST /a?b HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\nContent-Length: 2\r\nX-A: 1\r\n\r\n{}"
        );
        assert!(written("POST", b"", "").contains("Content-Length: 0"));
        assert!(!written("PUT", b"x", "content-type: text/plain\r\n").contains("json"));
    }

    #[test]
    fn the_status_decides() {
        assert!(said("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").starts_with("Answer(Json"));
        assert!(said("HTTP/1.1 204 No Content\r\n\r\n").starts_with("Answer"));
        let busy = "HTTP/1.1 429 X\r\nContent-Length: 14\r\nConnection: close\r\n\r\n{\"code\":30101}";
        assert_eq!(
            said(busy),
            "Refused { code: 30101, whole_connection: true }, closes true"
        );
        assert!(said("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n").starts_with("Refused { code: 503"));
        assert!(said("HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n").contains("code: 404"));
        assert_eq!(said("HTTP/1.1 200"), "needs 13");
    }
}
