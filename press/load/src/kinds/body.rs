//! Where an HTTP/1.1 answer ends, and its body. No input or output, no state: the whole answer is looked at again when more
//! of it has come, which touches the head and the chunk sizes alone.
//!
//! Its invariant: no body over the limit is ever awaited, and no head over 16 KiB.

use crate::protocol::{Input, Malformed};

/// The largest head of an answer, and the longest size line or trailer of a chunked one.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most header lines of an answer.
const HEADERS_MAX: usize = 64;

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Parsed<'b> {
    pub(crate) status: u16,
    pub(crate) body: &'b [u8],
    pub(crate) used: usize,
    /// Whether the server closes the connection after it.
    pub(crate) closes: bool,
}

/// The outcome of looking.
#[derive(Debug)]
pub(crate) enum Read<'b> {
    Whole(Parsed<'b>),
    /// At least so many bytes are needed in all.
    Needs(usize),
}

/// How long the body is.
enum Length {
    Sized(usize),
    Chunked,
    UntilEnd,
}

struct Head {
    status: u16,
    closes: bool,
    bytes: usize,
    length: Length,
}

/// Looks for one answer at the start of the bytes; `is_head`: to a request whose answer has no body.
pub(crate) fn read(input: Input<'_>, is_head: bool) -> Result<Read<'_>, Malformed> {
    let Input {
        bytes,
        ended,
        bytes_max: body_bytes_max,
        scratch,
    } = input;
    let mut start = 0;
    let head = loop {
        match read_head(&bytes[start..])? {
            // 1xx says that the answer is still to come.
            Some(head) if (100..200).contains(&head.status) => start += head.bytes,
            Some(head) => break head,
            None if bytes.len() - start > HEAD_BYTES_MAX => {
                return Err(Malformed::garbage(format!(
                    "no end of the head within {HEAD_BYTES_MAX} bytes"
                )));
            }
            None => return Ok(Read::Needs(bytes.len() + 1)),
        }
    };
    let start = start + head.bytes;
    let whole = |body, used| {
        Ok(Read::Whole(Parsed {
            status: head.status,
            body,
            used,
            closes: head.closes,
        }))
    };
    let body = &bytes[start..];
    match head.length {
        _ if is_head || matches!(head.status, 204 | 304) => whole(&[], start),
        Length::Sized(size) if size > body_bytes_max => Err(Malformed::TooLarge(body_bytes_max)),
        Length::Sized(size) => match body.get(..size) {
            Some(body) => whole(body, start + size),
            None => Ok(Read::Needs(start + size)),
        },
        Length::Chunked => match join_chunks(body, body_bytes_max, scratch)? {
            Chunks::Whole(used) => whole(scratch, start + used),
            Chunks::Needs(needed) => Ok(Read::Needs(start + needed)),
        },
        Length::UntilEnd if body.len() > body_bytes_max => Err(Malformed::TooLarge(body_bytes_max)),
        Length::UntilEnd if ended => whole(body, bytes.len()),
        Length::UntilEnd => Ok(Read::Needs(bytes.len() + 1)),
    }
}

fn read_head(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut answer = httparse::Response::new(&mut headers);
    let size = match answer.parse(bytes) {
        Ok(httparse::Status::Complete(size)) => size,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(Malformed::garbage(format!("not an HTTP answer ({error})"))),
    };
    // HTTP/1.0 closes unless it says otherwise.
    let mut closes = answer.version == Some(0);
    let (mut length, mut chunked) = (None, false);
    for header in answer.headers.iter() {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            length = Some(content_length(value, length)?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed::garbage("a Transfer-Encoding other than chunked"));
            }
            chunked = true;
        } else if header.name.eq_ignore_ascii_case("connection") {
            let names = |name: &[u8]| {
                let mut words = value.split(|&b| b == b',');
                words.any(|word| word.trim_ascii().eq_ignore_ascii_case(name))
            };
            closes = names(b"close") || (closes && !names(b"keep-alive"));
        }
    }
    let status = answer.code.unwrap_or(0);
    let length = match (chunked, length) {
        (true, _) => Length::Chunked,
        (false, Some(length)) => Length::Sized(length),
        (false, None) => Length::UntilEnd,
    };
    let bodiless = matches!(status, 100..=199 | 204 | 304);
    Ok(Some(Head {
        status,
        closes: closes || (matches!(length, Length::UntilEnd) && !bodiless),
        bytes: size,
        length,
    }))
}

fn content_length(value: &[u8], earlier: Option<usize>) -> Result<usize, Malformed> {
    let parsed = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse::<usize>().ok());
    parsed
        .filter(|&parsed| earlier.is_none_or(|earlier| earlier == parsed))
        .ok_or_else(|| Malformed::garbage("a Content-Length that is no number, or two of them"))
}

enum Chunks {
    Whole(usize),
    Needs(usize),
}

/// Walks over the chunks; joins them once the last one is there.
fn join_chunks(bytes: &[u8], body_bytes_max: usize, joined: &mut Vec<u8>) -> Result<Chunks, Malformed> {
    let mut chunks = Vec::new();
    let (mut at, mut total) = (0, 0usize);
    loop {
        let seen = &bytes[at..];
        let (line, size) = match httparse::parse_chunk_size(seen) {
            Ok(httparse::Status::Complete(found)) => found,
            // A size line is short; more without an end is no chunk.
            Ok(httparse::Status::Partial) if seen.len() <= HEAD_BYTES_MAX => {
                return Ok(Chunks::Needs(bytes.len() + 1));
            }
            _ => return Err(Malformed::garbage("a chunk without a size")),
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        total = total.saturating_add(size);
        if total > body_bytes_max {
            return Err(Malformed::TooLarge(body_bytes_max));
        }
        let start = at + line;
        if size == 0 {
            return Ok(match after_trailer(bytes, start)? {
                Some(end) => {
                    joined.clear();
                    chunks
                        .into_iter()
                        .for_each(|chunk: &[u8]| joined.extend_from_slice(chunk));
                    Chunks::Whole(end)
                }
                None => Chunks::Needs(bytes.len() + 1),
            });
        }
        let Some(after) = bytes.get(start + size..start + size + 2) else {
            return Ok(Chunks::Needs(start + size + 2));
        };
        if after != b"\r\n" {
            return Err(Malformed::garbage("a chunk that does not end where it says"));
        }
        chunks.push(&bytes[start..start + size]);
        at = start + size + 2;
    }
}

/// Trailer lines follow the last chunk, up to an empty one. They are skipped.
fn after_trailer(bytes: &[u8], start: usize) -> Result<Option<usize>, Malformed> {
    let mut at = start;
    loop {
        let seen = &bytes[at..];
        let line = seen.windows(2).position(|pair| pair == b"\r\n");
        if at - start > HEAD_BYTES_MAX || (line.is_none() && seen.len() > HEAD_BYTES_MAX) {
            return Err(Malformed::garbage("a trailer without an end"));
        }
        let Some(line) = line else {
            return Ok(None);
        };
        at += line + 2;
        if line == 0 {
            return Ok(Some(at));
        }
    }
}

#[cfg(test)]
mod tests;
