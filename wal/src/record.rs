//! The bytes of a segment header and of a record's frame, as docs/formats/ordered-log.md draws them.
//!
//! No I/O, no opinion on what a fault means (`recover`), and no idea of what a body says: that is its [`Format`]'s. Invariant:
//! what encodes decodes to the same, and no input makes decoding panic or allocate.

use crate::history::History;

/// Bytes of a segment's header, without a history.
pub const SEGMENT_HEADER_BYTES: usize = 32;
/// Bytes of one with a history.
const HISTORY_HEADER_BYTES: usize = 64;
/// Bytes of a record before its body.
pub const FRAME_BYTES: usize = 28;
/// As much of a record as tells its length.
pub(crate) const RECORD_PREFIX_BYTES: usize = 12;

/// What tells one user's log from another's.
#[derive(Debug)]
pub struct Format {
    /// What keeps it, for messages: "ordered store".
    pub keeper: &'static str,
    /// The first bytes of each segment.
    pub magic: &'static [u8; 4],
    /// Behind them, in what is written. Those before it, from 1 on, are read.
    pub version: u32,
    /// The version from which on headers say a [`History`], if there is one.
    pub history_from: Option<u32>,
    /// The shortest body.
    pub body_bytes_min: usize,
    /// The longest body.
    pub body_bytes_max: usize,
    /// The kinds of records that there are.
    pub kinds: &'static [u8],
    /// Judges a body of such a kind whose checksum is right.
    pub check: fn(kind: u8, body: &[u8]) -> Result<(), Fault>,
    /// What a keeper counts beside sequences, for messages: "version".
    pub number: &'static str,
    /// What it begins at.
    pub first_number: u64,
    /// Whether segments at the front may be gone, because what they held is kept elsewhere. Sequence and number then begin with
    /// those of the first segment that is there.
    pub may_begin_late: bool,
}

impl Format {
    /// Bytes of a segment's header in this version.
    pub fn header_bytes(&self) -> usize {
        self.header_bytes_in(self.version)
    }

    fn header_bytes_in(&self, version: u32) -> usize {
        match self.has_history_in(version) {
            true => HISTORY_HEADER_BYTES,
            false => SEGMENT_HEADER_BYTES,
        }
    }

    fn has_history_in(&self, version: u32) -> bool {
        self.history_from.is_some_and(|from| version >= from)
    }

    /// Whether segments that are written say a history.
    pub(crate) fn has_history(&self) -> bool {
        self.has_history_in(self.version)
    }
}

/// What is written as one record: whole or not at all.
pub trait Body {
    /// One of the format's kinds.
    fn kind(&self) -> u8;
    /// The keeper's number as it stands before this record: what the header of a segment that begins with it says.
    fn number(&self) -> u64;
    /// Bytes that [`Body::encode`] appends, at most the format's `body_bytes_max`.
    fn bytes(&self) -> usize;
    /// Appends the body.
    fn encode(&self, out: &mut Vec<u8>);
}

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub first_sequence: u64,
    pub number: u64,
    pub marker: u32,
    /// Where its version has one.
    pub history: Option<History>,
    pub version: u32,
}

/// A sound record; its body still lies in the buffer it was read to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Counts up over the whole log, from 1.
    pub sequence: u64,
    /// Its place in the group that was written at once.
    pub group_index: u32,
    /// The sequence that its segment begins with.
    pub segment: u64,
    /// Where it begins in its segment's file; 0 where it was read from no file, and so is `segment`.
    pub offset: u64,
    /// One of the format's kinds.
    pub kind: u8,
    /// Bytes of the whole record.
    pub length: usize,
    /// What the keeper wrote.
    pub body: &'a [u8],
}

impl Record<'_> {
    /// Of its kind and its body, whatever log they lie in.
    pub fn content_crc32c(&self) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&[self.kind]), self.body)
    }
}

/// Where a record stands in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub marker: u32,
    pub sequence: u64,
    pub group_index: u32,
}

/// Why bytes are not a record or a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Incomplete or damaged: nothing in it can be believed.
    Unreadable(String),
    /// The checksum is right, the content is not: a fault of the writer, never of a torn write.
    Malformed(String),
    /// Sound, but of a format or kind this build does not know.
    Unsupported(u64),
}

impl SegmentHeader {
    pub fn encode(&self, format: &Format) -> Vec<u8> {
        let mut out = Vec::with_capacity(HISTORY_HEADER_BYTES);
        out.extend_from_slice(format.magic);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.first_sequence.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.marker.to_le_bytes());
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        if let Some(history) = self.history.filter(|_| format.has_history_in(self.version)) {
            out.extend_from_slice(&history.to_bytes());
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        }
        out
    }

    /// Bytes of the header.
    pub fn bytes(&self, format: &Format) -> usize {
        format.header_bytes_in(self.version)
    }

    /// The header that `bytes` begin with.
    pub fn decode(format: &Format, bytes: &[u8]) -> Result<SegmentHeader, Fault> {
        let Some(header) = bytes.first_chunk::<SEGMENT_HEADER_BYTES>() else {
            return Err(unreadable(format!(
                "{} bytes, a header has {}",
                bytes.len(),
                format.header_bytes()
            )));
        };
        if !header.starts_with(format.magic) {
            let (found, expected) = (header[..4].escape_ascii(), format.magic.escape_ascii());
            return Err(unreadable(format!("magic \"{found}\", expected \"{expected}\"")));
        }
        check_crc(u32_at(header, 28), crc32c::crc32c(&header[..28]))?;
        let version = u32_at(header, 4);
        if !(1..=format.version).contains(&version) {
            return Err(Fault::Unsupported(version.into()));
        }
        let history = match format.has_history_in(version) {
            true => Some(decode_history(bytes)?),
            false => None,
        };
        Ok(SegmentHeader {
            first_sequence: u64_at(header, 8),
            number: u64_at(header, 16),
            marker: u32_at(header, 24),
            history,
            version,
        })
    }
}

fn decode_history(bytes: &[u8]) -> Result<History, Fault> {
    let Some(header) = bytes.first_chunk::<HISTORY_HEADER_BYTES>() else {
        return Err(unreadable(format!(
            "{} bytes, a header has {HISTORY_HEADER_BYTES}",
            bytes.len()
        )));
    };
    check_crc(u32_at(header, 60), crc32c::crc32c(&header[..60]))?;
    let mut history = [0; History::BYTES];
    history.copy_from_slice(&header[32..32 + History::BYTES]);
    match u32_at(header, 56) {
        0 => Ok(History::from_bytes(&history)),
        _ => Err(Fault::Malformed("bytes 56 to 59 are not zero".into())),
    }
}

/// Appends one record to `out`. Its body's length must fit the format.
pub(crate) fn encode<B: Body + ?Sized>(out: &mut Vec<u8>, place: Place, body: &B) {
    let from = out.len();
    out.extend_from_slice(&place.marker.to_le_bytes());
    out.extend_from_slice(&[0; 8]); // checksum and length, known at the end
    out.extend_from_slice(&[body.kind(), 0, 0, 0]);
    out.extend_from_slice(&place.sequence.to_le_bytes());
    out.extend_from_slice(&place.group_index.to_le_bytes());
    body.encode(out);
    let record = &mut out[from..];
    let length = record.len() as u32;
    record[8..12].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&record[8..]);
    record[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// The marker that a record begins with.
pub(crate) fn marker_in(prefix: &[u8; RECORD_PREFIX_BYTES]) -> u32 {
    u32_at(prefix, 0)
}

/// The length that it says.
pub(crate) fn length_in(prefix: &[u8; RECORD_PREFIX_BYTES]) -> u64 {
    u32_at(prefix, 8).into()
}

/// The length of the record that begins with `prefix`, where `available` bytes are left in the file.
pub(crate) fn record_length(
    format: &Format,
    prefix: &[u8; RECORD_PREFIX_BYTES],
    marker: u32,
    available: u64,
) -> Result<usize, Fault> {
    let found = u32_at(prefix, 0);
    if found != marker {
        return Err(unreadable(format!(
            "marker {found:#010x}, expected {marker:#010x}"
        )));
    }
    let length = u32_at(prefix, 8) as usize;
    let (min, max) = (
        FRAME_BYTES + format.body_bytes_min,
        FRAME_BYTES + format.body_bytes_max,
    );
    if !(min..=max).contains(&length) {
        return Err(unreadable(format!("length {length}, expected {min} to {max}")));
    }
    if length as u64 > available {
        return Err(unreadable(format!(
            "length {length}, but {available} bytes are left"
        )));
    }
    Ok(length)
}

/// Reads the record that fills `bytes` exactly; its marker and length were checked by [`record_length`].
pub(crate) fn decode_record<'a>(format: &Format, bytes: &'a [u8]) -> Result<Record<'a>, Fault> {
    let Some((header, body)) = bytes.split_first_chunk::<FRAME_BYTES>() else {
        return Err(unreadable(format!("{} bytes, too few for a record", bytes.len())));
    };
    check_crc(u32_at(header, 4), crc32c::crc32c(&bytes[8..]))?;
    let kind = header[12];
    if !format.kinds.contains(&kind) {
        return Err(Fault::Unsupported(kind.into()));
    }
    if header[13..16] != [0; 3] {
        return Err(Fault::Malformed("bytes 13 to 15 are not zero".into()));
    }
    (format.check)(kind, body)?;
    Ok(Record {
        sequence: u64_at(header, 16),
        group_index: u32_at(header, 24),
        segment: 0,
        offset: 0,
        kind,
        length: bytes.len(),
        body,
    })
}

fn check_crc(written: u32, computed: u32) -> Result<(), Fault> {
    if written != computed {
        return Err(unreadable(format!(
            "checksum {written:#010x}, its bytes have {computed:#010x}"
        )));
    }
    Ok(())
}

fn unreadable(found: String) -> Fault {
    Fault::Unreadable(found)
}

// The arrays below are of fixed size and `at` is a constant of the format at every call.
fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests;
