//! HTTP/1.1 requests on kept connections, one outstanding on each.
//!
//! Requests lie ready as whole byte strings, heads included. Its invariant: an answer is counted by its status, never by its
//! words alone.

use serde::Deserialize;

use super::body::{self, Parsed};
use super::{Answer, Found, Malformed, NOT_READY, OVERLOADED, Prepared, Protocol, Read, Said};

/// One request before it is written out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) verb: &'a str,
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
}

/// The prepared requests.
pub(crate) struct Http {
    requests: Prepared,
    /// Whether the request of that number is a HEAD, whose answer has no body. Empty when none is.
    heads: Vec<bool>,
    answer_bytes_max: usize,
}

impl Http {
    /// Begins a set for a host, with header lines of the scenario's own.
    pub(crate) fn builder(host: &str, headers: &str, answer_bytes_max: usize) -> HttpBuilder {
        HttpBuilder {
            host: host.to_owned(),
            headers: headers.to_owned(),
            http: Http {
                requests: Prepared::default(),
                heads: Vec::new(),
                answer_bytes_max,
            },
        }
    }
}

/// Requests being put together.
pub(crate) struct HttpBuilder {
    host: String,
    /// Header lines of the scenario's own, each with its line end.
    headers: String,
    http: Http,
}

impl HttpBuilder {
    pub(crate) fn push(&mut self, request: Request<'_>) {
        let (host, headers) = (&self.host, &self.headers);
        self.http
            .requests
            .push(|out| write_request(request, host, headers, out));
        self.http.heads.push(request.verb == "HEAD");
    }

    pub(crate) fn finish(mut self) -> Http {
        if !self.http.heads.contains(&true) {
            self.http.heads = Vec::new();
        }
        self.http
    }
}

/// Writes one request; `Content-Type` is JSON where a body is sent and the headers name none.
pub(crate) fn write_request(request: Request<'_>, host: &str, headers: &str, out: &mut Vec<u8>) {
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
    const NUMBERED: bool = false;

    fn requests(&self) -> &Prepared {
        &self.requests
    }

    fn read<'b>(
        &self,
        index: usize,
        bytes: &'b [u8],
        ended: bool,
        scratch: &'b mut Vec<u8>,
    ) -> Result<Read<'b>, Malformed> {
        let is_head = self.heads.get(index).copied().unwrap_or(false);
        let parsed = match body::read(bytes, ended, is_head, self.answer_bytes_max, scratch)? {
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
        let mut builder = Http::builder("h:1", "", 1_000);
        builder.push(Request {
            verb: "POST",
            path: "/x",
            body: b"{}",
        });
        let mut scratch = Vec::new();
        match builder
            .finish()
            .read(0, answer.as_bytes(), false, &mut scratch)
            .unwrap()
        {
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
