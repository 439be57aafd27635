//! A chunked body: chunks joined, extensions and trailers dropped.
//!
//! It holds no state between calls. Its invariant: neither the joined body, nor what stands around its chunks, nor the
//! trailers grow past their limits, and how the input was cut never changes the verdict.
//! Source: RFC 9112 section 7.1.

use super::{HEAD_BYTES_MAX, HEADERS_MAX, head_too_large, malformed};
use crate::HttpError;

/// Bytes of the line with a chunk's size and its extensions.
const SIZE_LINE_BYTES_MAX: usize = 256;

/// Joins a chunked body of at most `limit` bytes: the bytes and the input used, or `None` while it is not whole. All of the
/// input is held until it is whole, so what stands around the chunks is bounded like what is in them.
pub(super) fn join_chunks(input: &[u8], limit: usize) -> Result<Option<(Vec<u8>, usize)>, HttpError> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let (head, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete(found)) if found.0 <= SIZE_LINE_BYTES_MAX => found,
            Ok(httparse::Status::Partial) if rest.len() < SIZE_LINE_BYTES_MAX => return Ok(None),
            Ok(_) => return Err(malformed("the line of a chunk's size is over 256 bytes")),
            Err(_) => return Err(malformed("a chunk's size is not a number")),
        };
        let bytes = body.len() as u64 + size;
        if bytes > limit as u64 {
            return Err(HttpError::BodyTooLarge { bytes, limit });
        }
        if at + head - body.len() > limit.saturating_add(HEAD_BYTES_MAX) {
            return Err(malformed(
                "more bytes around the chunks of a body than are accepted in it; send larger chunks",
            ));
        }
        let (from, size) = (at + head, size as usize);
        if size == 0 {
            return Ok(skip_trailers(input.get(from..).unwrap_or_default())?.map(|len| (body, from + len)));
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

/// The bytes of the trailers and of the empty line that ends them, or `None` while it has not come. As much is accepted as
/// of a head, read by the same rules and dropped (RFC 9112 section 7.1.2): nothing here has a use for a trailer.
fn skip_trailers(input: &[u8]) -> Result<Option<usize>, HttpError> {
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let len = match httparse::parse_headers(input, &mut slots) {
        Ok(httparse::Status::Complete((len, _))) if len <= HEAD_BYTES_MAX => len,
        Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(head_too_large()),
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
