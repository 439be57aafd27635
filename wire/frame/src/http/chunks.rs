//! A chunked body: chunks joined, extensions and trailers dropped.
//!
//! What it knows of a body between its pieces is [`Walked`], so that a body that comes byte by byte is walked once and copied
//! once. Its invariant: neither the joined body, nor what stands around its chunks, nor the trailers grow past their limits,
//! and how the input was cut never changes the verdict.
//! Source: RFC 9112 section 7.1.

use super::{HEAD_BYTES_MAX, HEADERS_MAX, head_too_large, malformed, too_many_headers};
use crate::HttpError;

/// Bytes of the line with a chunk's size and its extensions.
const SIZE_LINE_BYTES_MAX: usize = 256;
const TRAILERS: &str = "the trailers behind a chunked body are";

/// How far a chunked body was walked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Walked {
    /// Where the first chunk begins that was not whole, or the last one.
    pub(super) at: usize,
    /// Bytes of the chunks before it.
    joined: usize,
}

/// What walking found.
pub(super) enum Walk {
    /// The body is whole in so many bytes of input.
    Whole(usize),
    /// The body has this many bytes of input at least.
    Partial { needed: usize },
}

/// Walks on over the chunks of a body of at most `limit` bytes. All of the input is held until it is whole, so what stands
/// around the chunks is bounded like what is in them.
pub(super) fn walk_chunks(input: &[u8], limit: usize, walked: &mut Walked) -> Result<Walk, HttpError> {
    loop {
        let at = walked.at;
        let rest = input.get(at..).unwrap_or_default();
        let Some((head, size)) = size_line(rest)? else {
            return Ok(Walk::Partial {
                needed: input.len() + 1,
            });
        };
        let bytes = walked.joined as u64 + size;
        if bytes > limit as u64 {
            return Err(HttpError::BodyTooLarge { bytes, limit });
        }
        if at + head - walked.joined > limit.saturating_add(HEAD_BYTES_MAX) {
            return Err(malformed(
                "more bytes around the chunks of a body than are accepted in it; send larger chunks",
            ));
        }
        let (from, size) = (at + head, size as usize);
        if size == 0 {
            return Ok(match skip_trailers(input.get(from..).unwrap_or_default())? {
                Some(len) => Walk::Whole(from + len),
                None => Walk::Partial {
                    needed: input.len() + 1,
                },
            });
        }
        let end = from + size + 2;
        match input.get(from + size..end) {
            Some(b"\r\n") => {}
            Some(_) => return Err(malformed("a chunk is not followed by an empty line")),
            None => return Ok(Walk::Partial { needed: end }),
        }
        *walked = Walked {
            at: end,
            joined: walked.joined + size,
        };
    }
}

/// The chunks of a body that was walked to its end, joined.
pub(super) fn join_chunks(input: &[u8], walked: Walked) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::with_capacity(walked.joined);
    let mut rest = input.get(..walked.at).unwrap_or_default();
    while let Some((head, size)) = size_line(rest)? {
        let (from, size) = (head, size as usize);
        body.extend_from_slice(rest.get(from..from + size).unwrap_or_default());
        rest = rest.get(from + size + 2..).unwrap_or_default();
    }
    Ok(body)
}

/// The length of the line with a chunk's size, and that size; `None` while the line is not whole.
fn size_line(input: &[u8]) -> Result<Option<(usize, u64)>, HttpError> {
    match httparse::parse_chunk_size(input) {
        Ok(httparse::Status::Complete(found)) if found.0 <= SIZE_LINE_BYTES_MAX => {
            // To some readers a lone LF in an extension ends the line, and what follows is the chunk.
            match input.get(..found.0 - 2).unwrap_or_default().contains(&b'\n') {
                true => Err(malformed("a chunk's line has a line end in its extension")),
                false => Ok(Some(found)),
            }
        }
        Ok(httparse::Status::Partial) if input.len() < SIZE_LINE_BYTES_MAX => Ok(None),
        Ok(_) => Err(malformed("the line of a chunk's size is over 256 bytes")),
        Err(_) => Err(malformed("a chunk's size is not a number")),
    }
}

/// The bytes of the trailers and of the empty line that ends them, or `None` while it has not come. As much is accepted as
/// of a head, read by the same rules and dropped (RFC 9112 section 7.1.2): nothing here has a use for a trailer.
fn skip_trailers(input: &[u8]) -> Result<Option<usize>, HttpError> {
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let len = match httparse::parse_headers(input, &mut slots) {
        Ok(httparse::Status::Complete((len, _))) if len <= HEAD_BYTES_MAX => len,
        Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(_) => return Err(head_too_large(TRAILERS, "send less in them")),
        Err(httparse::Error::TooManyHeaders) => return Err(too_many_headers(TRAILERS)),
        Err(error) => {
            return Err(malformed(format!(
                "in the trailers behind a chunked body: {error}"
            )));
        }
    };
    // A lone LF ends a line to some readers and not to others, and with it the request.
    let section = input.get(..len).unwrap_or_default();
    let mut lines = section.split_inclusive(|byte| *byte == b'\n');
    if !lines.all(|line| line.ends_with(b"\r\n")) {
        return Err(malformed(
            "a trailer line behind a chunked body does not end in CRLF",
        ));
    }
    Ok(Some(len))
}
