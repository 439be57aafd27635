//! A chunked body: chunks joined, extensions and trailers dropped.
//!
//! What it knows of a body between its pieces is [`Walked`], so that a body that comes byte by byte is walked once and copied
//! once. Its invariant: neither the joined body, nor what stands around its chunks, nor the trailers grow past their limits,
//! and how the input was cut never changes the verdict; a size is compared with what is left of the limit before it is added to
//! anything.
//! Source: RFC 9112 section 7.1.

use super::{HEAD_BYTES_MAX, HEADERS_MAX, ends_in_crlf, head_too_large, malformed, too_many_headers};
use crate::{HttpError, Parsed};
use std::borrow::Cow;

/// Bytes of the line with a chunk's size and its extensions.
const SIZE_LINE_BYTES_MAX: usize = 256;
/// Hexadecimal digits of a chunk's size, leading zeros among them: up to 4 GiB, which no body may have.
const SIZE_DIGITS_MAX: usize = 8;
const LINE_END: &[u8] = b"\r\n";
const TRAILERS: &str = "the trailers behind a chunked body are";

/// How far a chunked body was walked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Walked {
    /// Where the first chunk begins that was not whole, or the last one.
    pub(super) at: usize,
    /// Bytes of the chunks before it.
    joined: usize,
}

/// Walks on over the chunks of a body of at most `limit` bytes, and joins them when it is whole. All of the input is held until
/// then, so what stands around the chunks is bounded like what is in them.
pub(super) fn read_chunks<'a>(
    input: &[u8],
    limit: usize,
    walked: &mut Walked,
) -> Result<Parsed<Cow<'a, [u8]>>, HttpError> {
    let needed = input.len().saturating_add(1);
    let one_more = Parsed::Partial { needed };
    loop {
        let at = walked.at;
        let Some((head, size)) = size_line(input.get(at..).unwrap_or_default())? else {
            return Ok(one_more);
        };
        // A size is anything that its digits can say: it meets no sum before it is known to be within the limit.
        let size = match usize::try_from(size) {
            Ok(size) if size <= limit.saturating_sub(walked.joined) => size,
            _ => {
                let bytes = u64::from(size).saturating_add(walked.joined as u64);
                return Err(HttpError::BodyTooLarge { bytes, limit });
            }
        };
        let from = at + head;
        if from - walked.joined > limit.saturating_add(HEAD_BYTES_MAX) {
            return Err(malformed(
                "more bytes around the chunks of a body than are accepted in it; send larger chunks",
            ));
        }
        let behind = input.get(from..).unwrap_or_default();
        if size == 0 {
            return Ok(match skip_trailers(behind)? {
                Some(len) => Parsed::Whole {
                    message: Cow::Owned(join_chunks(input, *walked)?),
                    len: from + len,
                },
                None => one_more,
            });
        }
        let needed = from.saturating_add(size).saturating_add(LINE_END.len());
        match behind.get(size..).and_then(|rest| rest.get(..LINE_END.len())) {
            Some(end) if end == LINE_END => {}
            Some(_) => return Err(malformed("a chunk is not followed by an empty line")),
            None => return Ok(Parsed::Partial { needed }),
        }
        *walked = Walked {
            at: needed,
            joined: walked.joined + size,
        };
    }
}

/// The chunks of a body that was walked to its end, joined.
fn join_chunks(input: &[u8], walked: Walked) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::with_capacity(walked.joined);
    let mut rest = input.get(..walked.at).unwrap_or_default();
    while let Some((head, size)) = size_line(rest)? {
        let chunk = rest.get(head..).unwrap_or_default();
        let Some((chunk, behind)) = chunk.split_at_checked(size as usize) else {
            break;
        };
        body.extend_from_slice(chunk);
        rest = behind.get(LINE_END.len()..).unwrap_or_default();
    }
    Ok(body)
}

/// The length of the line with a chunk's size, and that size; `None` while the line is not whole.
///
/// Forms that some readers take and others do not are refused: no size, spaces beside it, more digits than any body needs, a
/// line that does not end in CRLF. Extensions hold what a header's value may.
fn size_line(input: &[u8]) -> Result<Option<(usize, u32)>, HttpError> {
    let line = input.get(..SIZE_LINE_BYTES_MAX).unwrap_or(input);
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits > SIZE_DIGITS_MAX {
        return Err(malformed("a chunk's size has more than 8 digits"));
    }
    let (size, rest) = line.split_at(digits);
    let is_end = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    let end = match rest {
        [] => None,
        [b'\r' | b'\n' | b';', ..] if digits == 0 => {
            return Err(malformed("a chunk has no size; expected hexadecimal digits"));
        }
        _ if digits == 0 => {
            return Err(malformed(
                "a chunk's size does not begin with a hexadecimal digit; write it without sign, space or prefix",
            ));
        }
        [b'\r', ..] => Some(0),
        [b';', ..] => rest.iter().position(is_end),
        _ => return Err(malformed("a chunk's size is not a number")),
    };
    match end.map(|end| rest.get(end..).unwrap_or_default()) {
        Some([b'\r', b'\n', ..]) => {
            let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or_default();
            let size = size.iter().fold(0, |size, byte| size << 4 | digit(byte));
            Ok(Some((digits + end.unwrap_or_default() + LINE_END.len(), size)))
        }
        None | Some([] | [b'\r']) if input.len() < SIZE_LINE_BYTES_MAX => Ok(None),
        None | Some([] | [b'\r']) => Err(malformed("the line of a chunk's size is over 256 bytes")),
        Some([b'\r' | b'\n', ..]) => Err(malformed("a chunk's line has a line end in its extension")),
        Some(_) => Err(malformed(
            "a chunk's line has a control character in its extension",
        )),
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
    if !ends_in_crlf(input.get(..len).unwrap_or_default()) {
        return Err(malformed(
            "a trailer line behind a chunked body does not end in CRLF",
        ));
    }
    Ok(Some(len))
}
