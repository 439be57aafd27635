//! FPNN frames, version 1: header, method, payload.
//!
//! ```text
//! off size field    off size field
//!   0    4 magic      7    1 ss     quest: method bytes; answer: status
//!   4    1 version    8    4 psize  payload bytes
//!   5    1 flag      12    4 seq    twoway and answer only
//!   6    1 mtype         ss method, psize payload
//! ```
//! It is not the payload's decoder. Its invariant: a frame's length is checked before any of it is used.
//! Source: the FPNN wire protocol as captured from its 1.3.1 client and server.

use crate::{Encoding, FrameError, FrameProblem, Limits, Parsed};

const MAGIC: [u8; 4] = *b"FPNN";
const VERSION: u8 = 1;
const FLAG_MSGPACK: u8 = 0x80;
const FLAG_JSON: u8 = 0x40;
const HEADER_BYTES: usize = 12;

/// What a frame is, and the fields that only that kind has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind<'a> {
    /// A call without an answer.
    Oneway {
        /// The method's name.
        method: &'a str,
    },
    /// A call that is answered under the same sequence number.
    Twoway {
        /// The method's name.
        method: &'a str,
        /// Chosen by the caller; each direction has a space of its own.
        seq: u32,
    },
    /// The answer to a twoway call.
    Answer {
        /// 0 is success; anything else is an error map.
        status: u8,
        /// The call's number.
        seq: u32,
    },
}

/// One frame, borrowing from the bytes it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Kind, method, sequence number.
    pub kind: FrameKind<'a>,
    /// How `payload` is written.
    pub encoding: Encoding,
    /// One map.
    pub payload: &'a [u8],
}

/// A frame's header, checked, with the places of what follows it.
struct Head {
    mtype: u8,
    ss: u8,
    encoding: Encoding,
    seq: Option<u32>,
    method_start: usize,
    payload_start: usize,
    len: usize,
}

/// Reads the frame at the front of `input`.
///
/// # Errors
/// Any [`FrameError`]; the bytes after it cannot be trusted to start a frame.
#[inline]
pub fn parse_frame(input: &[u8], limits: Limits) -> Result<Parsed<Frame<'_>>, FrameError> {
    let head = match parse_head(input, limits)? {
        Ok(head) => head,
        Err(needed) => return Ok(Parsed::Partial { needed }),
    };
    let Some(payload) = input.get(head.payload_start..head.len) else {
        return Ok(Parsed::Partial { needed: head.len });
    };
    let method = input
        .get(head.method_start..head.payload_start)
        .unwrap_or_default();
    let method = std::str::from_utf8(method).map_err(|_| FrameProblem::Method("not UTF-8").of(head.seq))?;
    let kind = match (head.mtype, head.seq) {
        (1, Some(seq)) => FrameKind::Twoway { method, seq },
        (2, Some(seq)) => FrameKind::Answer { status: head.ss, seq },
        _ => FrameKind::Oneway { method },
    };
    let Head { encoding, len, .. } = head;
    Ok(Parsed::Whole {
        message: Frame {
            kind,
            encoding,
            payload,
        },
        len,
    })
}

/// Reads and checks the header; `Err` inside holds the bytes needed for more.
#[inline]
fn parse_head(input: &[u8], limits: Limits) -> Result<Result<Head, usize>, FrameError> {
    let magic_seen = input.len().min(4);
    if input[..magic_seen] != MAGIC[..magic_seen] {
        let mut found = [0; 4];
        found[..magic_seen].copy_from_slice(&input[..magic_seen]);
        return Err(FrameProblem::Magic(found).of(None));
    }
    let Some(header) = input.first_chunk::<HEADER_BYTES>() else {
        return Ok(Err(HEADER_BYTES));
    };
    let [_, _, _, _, version, flag, mtype, ss, psize @ ..] = *header;
    let (has_seq, method_bytes) = match mtype {
        0 => (false, usize::from(ss)),
        1 => (true, usize::from(ss)),
        2 => (true, 0),
        found => return Err(FrameProblem::Kind(found).of(None)),
    };
    let seq = match input[HEADER_BYTES..].first_chunk() {
        _ if !has_seq => None,
        Some(bytes) => Some(u32::from_le_bytes(*bytes)),
        None => return Ok(Err(HEADER_BYTES + 4)),
    };
    if version != VERSION {
        return Err(FrameProblem::Version(version).of(seq));
    }
    let encoding = match flag {
        FLAG_MSGPACK => Encoding::Msgpack,
        FLAG_JSON => Encoding::Json,
        found => return Err(FrameProblem::Flags(found).of(seq)),
    };
    let payload_bytes = u32::from_le_bytes(psize) as usize;
    if payload_bytes == 0 {
        return Err(FrameProblem::EmptyPayload.of(seq));
    }
    let method_start = HEADER_BYTES + if has_seq { 4 } else { 0 };
    let payload_start = method_start + method_bytes;
    let limit = limits.frame_bytes_max;
    // Compared before it is added: where a length has as many bits as a size, their sum could wrap.
    if payload_bytes > limit.saturating_sub(payload_start) {
        let bytes = payload_bytes.saturating_add(payload_start);
        return Err(FrameProblem::TooLarge { bytes, limit }.of(seq));
    }
    if mtype != 2 && method_bytes == 0 {
        return Err(FrameProblem::Method("empty").of(seq));
    }
    Ok(Ok(Head {
        mtype,
        ss,
        encoding,
        seq,
        method_start,
        payload_start,
        len: payload_start + payload_bytes,
    }))
}

/// The payloads of the calls at the front of `behind`, as far as they are there and like the one at the front of `call`: the same
/// method, encoding and need of an answer. For who only wants a hint: no frame is checked.
#[inline]
pub fn payloads_of_alike<'b>(call: &[u8], mut behind: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
    std::iter::from_fn(move || {
        // All of a header but the payload's length, which follows.
        let (alike, rest) = behind.split_first_chunk::<8>()?;
        let [.., mtype, ss] = *alike;
        if mtype != 1 || call.first_chunk() != Some(alike) {
            return None;
        }
        let payload_bytes = u32::from_le_bytes(*rest.first_chunk()?) as usize;
        let method = HEADER_BYTES + 4..HEADER_BYTES + 4 + usize::from(ss);
        if behind.get(method.clone())? != call.get(method.clone())? {
            return None;
        }
        let payload;
        (payload, behind) = behind.get(method.end..)?.split_at_checked(payload_bytes)?;
        Some(payload)
    })
}

/// How the answer to the call at the front is written and numbered, of which nothing but the header need have come; nothing for
/// a call that wants no answer, for an answer, and for what is no frame.
pub fn answer_form(input: &[u8], limits: Limits) -> Option<(Encoding, u32)> {
    match parse_head(input, limits) {
        Ok(Ok(head)) if head.mtype == 1 => Some((head.encoding, head.seq?)),
        _ => None,
    }
}

/// Appends a whole frame to `out`.
///
/// # Errors
/// [`FrameProblem::Method`] when the name is empty or longer than 255 bytes, [`FrameProblem::TooLarge`] when the payload is
/// past what the length field holds.
pub fn write_frame(
    out: &mut Vec<u8>,
    encoding: Encoding,
    kind: FrameKind<'_>,
    payload: &[u8],
) -> Result<(), FrameError> {
    let (mtype, ss, seq, method) = match kind {
        FrameKind::Oneway { method } => (0, method_size(method)?, None, method),
        FrameKind::Twoway { method, seq } => (1, method_size(method)?, Some(seq), method),
        FrameKind::Answer { status, seq } => (2, status, Some(seq), ""),
    };
    let (bytes, limit) = (payload.len(), u32::MAX as usize);
    let psize = u32::try_from(bytes).map_err(|_| FrameProblem::TooLarge { bytes, limit }.of(seq))?;
    out.extend_from_slice(&header(encoding, mtype, ss, psize));
    out.extend(seq.map(u32::to_le_bytes).into_iter().flatten());
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(payload);
    Ok(())
}

fn header(encoding: Encoding, mtype: u8, ss: u8, psize: u32) -> [u8; HEADER_BYTES] {
    let flag = match encoding {
        Encoding::Msgpack => FLAG_MSGPACK,
        Encoding::Json => FLAG_JSON,
    };
    let ([m, a, g, c], [p, q, r, s]) = (MAGIC, psize.to_le_bytes());
    [m, a, g, c, VERSION, flag, mtype, ss, p, q, r, s]
}

/// Begins an answer whose payload is written straight behind it; [`finish_answer`] fills the length in.
/// Returns where the answer starts in `out`.
#[inline]
pub fn begin_answer(out: &mut Vec<u8>, encoding: Encoding, status: u8, seq: u32) -> usize {
    let start = out.len();
    // Written at once: the room is looked for once.
    let mut bytes = [0; HEADER_BYTES + 4];
    bytes[..HEADER_BYTES].copy_from_slice(&header(encoding, 2, status, 0));
    bytes[HEADER_BYTES..].copy_from_slice(&seq.to_le_bytes());
    out.extend_from_slice(&bytes);
    start
}

/// Fills in the payload length of the answer that began at `start`.
#[inline]
pub fn finish_answer(out: &mut [u8], start: usize) {
    let psize = out.len().saturating_sub(start + HEADER_BYTES + 4);
    let psize = u32::try_from(psize).unwrap_or(u32::MAX);
    if let Some(field) = out.get_mut(start + 8..start + 12) {
        field.copy_from_slice(&psize.to_le_bytes());
    }
}

fn method_size(method: &str) -> Result<u8, FrameError> {
    let problem = match u8::try_from(method.len()) {
        Ok(0) => "empty",
        Ok(size) => return Ok(size),
        Err(_) => "longer than 255 bytes",
    };
    Err(FrameProblem::Method(problem).of(None))
}

#[cfg(test)]
mod tests;
