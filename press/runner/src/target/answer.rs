//! Answers of HTTP/1.1, put together from whatever pieces arrive. No I/O.
//!
//! Its invariant: the memory it holds is bounded by the largest accepted answer and one head.

use std::ops::Range;

/// The largest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most header lines of an answer.
const HEADERS_MAX: usize = 64;
/// What the buffer starts with; most answers fit, and a read that does not fill it saves a system call.
const BUFFER_BYTES: usize = 4 << 10;

/// Why the bytes are not an answer that is accepted.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("{0}")]
    Garbage(String),
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the connection ended after {0} bytes of the answer")]
    Ended(usize),
}

#[derive(Debug, Clone, Copy)]
enum Body {
    Sized {
        end: usize,
    },
    /// The next chunk's size line begins at `at`.
    Chunked {
        at: usize,
    },
    UntilEnd,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    status: u16,
    closes: bool,
    bytes: usize,
    body: Body,
}

/// Reads one answer after the other from one connection.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    buffer: Vec<u8>,
    filled: usize,
    head: Option<Head>,
    /// The body of a chunked answer, put together.
    joined: Vec<u8>,
    body_bytes_max: usize,
}

impl AnswerReader {
    pub(crate) fn new(body_bytes_max: usize) -> AnswerReader {
        AnswerReader {
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            head: None,
            joined: Vec::new(),
            body_bytes_max,
        }
    }

    /// Forgets the last answer.
    pub(crate) fn restart(&mut self) {
        self.filled = 0;
        self.head = None;
        self.joined.clear();
    }

    /// Where to read into; never empty.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// Takes the `count` bytes just read into [`AnswerReader::space`]; 0 is the end of the connection. True when the answer
    /// is whole.
    pub(crate) fn advance(&mut self, count: usize) -> Result<bool, Malformed> {
        self.filled += count;
        let ended = count == 0;
        if self.head.is_none() {
            self.head = self.read_head()?;
        }
        let Some(head) = self.head else {
            if ended {
                return Err(Malformed::Ended(self.filled));
            }
            if self.filled > HEAD_BYTES_MAX {
                return Err(Malformed::Garbage(format!(
                    "no end of the head within {HEAD_BYTES_MAX} bytes"
                )));
            }
            return Ok(false);
        };
        let end = match head.body {
            Body::Sized { end } => (self.filled >= end).then_some(end),
            Body::Chunked { at } => self.read_chunks(at)?,
            Body::UntilEnd => {
                if self.filled - head.bytes > self.body_bytes_max {
                    return Err(Malformed::TooLarge(self.body_bytes_max));
                }
                ended.then_some(self.filled)
            }
        };
        match end {
            Some(end) if end < self.filled => Err(Malformed::Garbage(format!(
                "{} bytes follow the answer",
                self.filled - end
            ))),
            Some(_) => Ok(true),
            None if ended => Err(Malformed::Ended(self.filled)),
            None => Ok(false),
        }
    }

    /// The status of the whole answer, 0 before there is one.
    pub(crate) fn status(&self) -> u16 {
        self.head.map_or(0, |head| head.status)
    }

    /// Whether the server closes the connection after this answer.
    pub(crate) fn closes(&self) -> bool {
        self.head.is_none_or(|head| head.closes)
    }

    /// The body of the whole answer.
    pub(crate) fn body(&self) -> &[u8] {
        match self.head {
            Some(Head {
                body: Body::Chunked { .. },
                ..
            }) => &self.joined,
            Some(head) => &self.buffer[head.bytes..self.filled],
            None => &[],
        }
    }

    fn read_head(&self) -> Result<Option<Head>, Malformed> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut answer = httparse::Response::new(&mut headers);
        let garbage = |what: String| Malformed::Garbage(what);
        let bytes = match answer.parse(&self.buffer[..self.filled]) {
            Ok(httparse::Status::Complete(bytes)) => bytes,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(garbage(format!("not an HTTP answer ({error})"))),
        };
        let status = answer.code.unwrap_or(0);
        // HTTP/1.0 closes unless it says otherwise.
        let mut closes = answer.version == Some(0);
        let (mut length, mut chunked) = (None, false);
        for header in answer.headers.iter() {
            let value = header.value.trim_ascii();
            if header.name.eq_ignore_ascii_case("content-length") {
                let parsed = std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.parse::<usize>().ok());
                let Some(parsed) = parsed.filter(|&parsed| length.is_none_or(|other| other == parsed)) else {
                    return Err(garbage(
                        "a Content-Length that is no number, or two of them".into(),
                    ));
                };
                length = Some(parsed);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(garbage("a Transfer-Encoding other than chunked".into()));
                }
                chunked = true;
            } else if header.name.eq_ignore_ascii_case("connection") {
                let names = |name: &[u8]| {
                    value
                        .split(|&b| b == b',')
                        .any(|v| v.trim_ascii().eq_ignore_ascii_case(name))
                };
                closes = names(b"close") || (closes && !names(b"keep-alive"));
            }
        }
        let body = match (chunked, length) {
            (true, _) => Body::Chunked { at: bytes },
            (false, Some(length)) if length > self.body_bytes_max => {
                return Err(Malformed::TooLarge(self.body_bytes_max));
            }
            (false, Some(length)) => Body::Sized { end: bytes + length },
            (false, None) if matches!(status, 204 | 304) => Body::Sized { end: bytes },
            (false, None) => Body::UntilEnd,
        };
        let closes = closes || matches!(body, Body::UntilEnd);
        Ok(Some(Head {
            status,
            closes,
            bytes,
            body,
        }))
    }

    /// Joins the chunks that are whole, from `at` on; gives the end of the answer when the last one is there.
    fn read_chunks(&mut self, mut at: usize) -> Result<Option<usize>, Malformed> {
        let end = loop {
            let seen = &self.buffer[at..self.filled];
            let (line, size) = match httparse::parse_chunk_size(seen) {
                Ok(httparse::Status::Complete(found)) => found,
                // A size line is short; more without an end is no chunk.
                Ok(httparse::Status::Partial) if seen.len() <= HEAD_BYTES_MAX => break None,
                _ => return Err(Malformed::Garbage("a chunk without a size".into())),
            };
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            if size > self.body_bytes_max - self.joined.len().min(self.body_bytes_max) {
                return Err(Malformed::TooLarge(self.body_bytes_max));
            }
            if size == 0 {
                break self.after_trailer(at, at + line)?;
            }
            let chunk: Range<usize> = at + line..at + line + size;
            let Some(after) = self.buffer[..self.filled].get(chunk.end..chunk.end + 2) else {
                break None;
            };
            if after != b"\r\n" {
                return Err(Malformed::Garbage(
                    "a chunk that does not end where it says".into(),
                ));
            }
            self.joined.extend_from_slice(&self.buffer[chunk.clone()]);
            at = chunk.end + 2;
        };
        if let Some(Head { body, .. }) = &mut self.head {
            *body = Body::Chunked { at };
        }
        // What is joined need not be kept twice; only an answer of many chunks is worth the move.
        if end.is_none() && at > HEAD_BYTES_MAX {
            self.drop_before(at);
        }
        Ok(end)
    }

    /// Trailer lines follow the last chunk, up to an empty one. They are skipped.
    fn after_trailer(&self, last: usize, mut at: usize) -> Result<Option<usize>, Malformed> {
        loop {
            if at - last > HEAD_BYTES_MAX {
                return Err(Malformed::Garbage("a trailer without an end".into()));
            }
            let seen = &self.buffer[at..self.filled];
            let Some(line) = seen.windows(2).position(|pair| pair == b"\r\n") else {
                let too_long = seen.len() > HEAD_BYTES_MAX;
                return if too_long {
                    Err(Malformed::Garbage("a trailer without an end".into()))
                } else {
                    Ok(None)
                };
            };
            at += line + 2;
            if line == 0 {
                return Ok(Some(at));
            }
        }
    }

    fn drop_before(&mut self, at: usize) {
        self.buffer.copy_within(at..self.filled, 0);
        self.filled -= at;
        if let Some(head) = &mut self.head {
            head.bytes = 0;
            head.body = Body::Chunked { at: 0 };
        }
    }
}

#[cfg(test)]
mod tests;
