//! The bytes of a segment header and of a record, as docs/formats/ordered-log.md draws them.
//!
//! No I/O and no opinion on what a fault means (`recover`). Invariant: what encodes decodes to the
//! same, and no input makes decoding panic or allocate.

use crate::put::{KEY_BYTES_MAX, PUT_BYTES_MAX, VALUE_BYTES_MAX};

pub(crate) const SEGMENT_HEADER_BYTES: usize = 32;
pub(crate) const RECORD_HEADER_BYTES: usize = 40;
pub(crate) const RECORD_BYTES_MAX: usize = PUT_BYTES_MAX + RECORD_HEADER_BYTES;
/// As much of a record as tells its length.
pub(crate) const RECORD_PREFIX_BYTES: usize = 12;

pub(crate) const MAGIC: &[u8; 4] = b"MPLG";
const FORMAT: u32 = 1;
const KIND_PUT: u8 = 1;
const ENTRY_HEADER_BYTES: usize = 8;

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub first_sequence: u64,
    pub first_version: u64,
    pub marker: u32,
}

/// A sound record; its entries still lie in the buffer it was read to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub sequence: u64,
    pub group_index: u32,
    pub entry_count: u32,
    pub first_version: u64,
    pub length: usize,
    entries: &'a [u8],
}

/// Where a record stands in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub marker: u32,
    pub sequence: u64,
    pub group_index: u32,
    pub first_version: u64,
}

/// Why bytes are not a record or a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Incomplete or damaged: nothing in it can be believed.
    Unreadable(String),
    /// The checksum is right, the content is not: a fault of the writer, never of a torn write.
    Malformed(String),
    /// Sound, but of a format or kind this build does not know.
    Unsupported(u64),
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[0..4].copy_from_slice(MAGIC);
        out[4..8].copy_from_slice(&FORMAT.to_le_bytes());
        out[8..16].copy_from_slice(&self.first_sequence.to_le_bytes());
        out[16..24].copy_from_slice(&self.first_version.to_le_bytes());
        out[24..28].copy_from_slice(&self.marker.to_le_bytes());
        let checksum = crc32c::crc32c(&out[..28]);
        out[28..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, Fault> {
        let Some(header) = bytes.first_chunk::<SEGMENT_HEADER_BYTES>() else {
            return Err(unreadable(format!(
                "{} bytes, a header has {SEGMENT_HEADER_BYTES}",
                bytes.len()
            )));
        };
        if !header.starts_with(MAGIC) {
            let found = header[..4].escape_ascii();
            return Err(unreadable(format!("magic \"{found}\", expected \"MPLG\"")));
        }
        check_crc(u32_at(header, 28), crc32c::crc32c(&header[..28]))?;
        let format = u32_at(header, 4);
        if format != FORMAT {
            return Err(Fault::Unsupported(format.into()));
        }
        Ok(SegmentHeader {
            first_sequence: u64_at(header, 8),
            first_version: u64_at(header, 16),
            marker: u32_at(header, 24),
        })
    }
}

/// Bytes that a put with entries of `entries_bytes` (see `Put::bytes`) takes in the log.
pub(crate) fn put_record_bytes(entries_bytes: usize) -> usize {
    RECORD_HEADER_BYTES + entries_bytes
}

/// Appends one put to `out`. The entries must have passed `Put::check`: that is what makes the
/// lengths fit their fields.
pub(crate) fn encode_put(out: &mut Vec<u8>, place: Place, entries: &[(Vec<u8>, Vec<u8>)]) {
    let from = out.len();
    out.extend_from_slice(&place.marker.to_le_bytes());
    out.extend_from_slice(&[0; 8]); // checksum and length, known at the end
    out.extend_from_slice(&[KIND_PUT, 0, 0, 0]);
    out.extend_from_slice(&place.sequence.to_le_bytes());
    out.extend_from_slice(&place.group_index.to_le_bytes());
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    out.extend_from_slice(&place.first_version.to_le_bytes());
    for (key, value) in entries {
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(value);
    }
    let record = &mut out[from..];
    let length = record.len() as u32;
    record[8..12].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&record[8..]);
    record[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// The length of the record that begins with `prefix`, where `available` bytes are left in the file.
pub(crate) fn record_length(
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
    if !(RECORD_HEADER_BYTES..=RECORD_BYTES_MAX).contains(&length) {
        return Err(unreadable(format!(
            "length {length}, expected {RECORD_HEADER_BYTES} to {RECORD_BYTES_MAX}"
        )));
    }
    if length as u64 > available {
        return Err(unreadable(format!(
            "length {length}, but {available} bytes are left"
        )));
    }
    Ok(length)
}

/// Reads the record that fills `bytes` exactly; its marker and length were checked by [`record_length`].
pub(crate) fn decode_record(bytes: &[u8]) -> Result<Record<'_>, Fault> {
    let Some((header, entries)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
        return Err(unreadable(format!("{} bytes, too few for a record", bytes.len())));
    };
    check_crc(u32_at(header, 4), crc32c::crc32c(&bytes[8..]))?;
    if header[12] != KIND_PUT {
        return Err(Fault::Unsupported(header[12].into()));
    }
    let record = Record {
        sequence: u64_at(header, 16),
        group_index: u32_at(header, 24),
        entry_count: u32_at(header, 28),
        first_version: u64_at(header, 32),
        length: bytes.len(),
        entries,
    };
    if header[13..16] != [0; 3] {
        return Err(Fault::Malformed("bytes 13 to 15 are not zero".into()));
    }
    record.check_entries()?;
    Ok(record)
}

impl<'a> Record<'a> {
    /// Keys and values in the put's order.
    pub fn entries(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.entries;
        std::iter::from_fn(move || {
            let (key, value, behind) = split_entry(rest)?;
            rest = behind;
            Some((key, value))
        })
    }

    fn check_entries(&self) -> Result<(), Fault> {
        let mut count = 0u32;
        let mut rest = self.entries;
        while let Some((key, value, behind)) = split_entry(rest) {
            if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
                return Err(Fault::Malformed(format!("entry {count} is beyond the limits")));
            }
            count += 1;
            rest = behind;
        }
        if count != self.entry_count || count == 0 || !rest.is_empty() {
            return Err(Fault::Malformed(format!(
                "{} entries announced, {count} found, {} bytes behind them",
                self.entry_count,
                rest.len()
            )));
        }
        if self.first_version.checked_add(count.into()).is_none() {
            return Err(Fault::Malformed(format!("version {}", self.first_version)));
        }
        Ok(())
    }
}

fn split_entry(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<ENTRY_HEADER_BYTES>()?;
    let (key, rest) = rest.split_at_checked(u32_at(header, 0) as usize)?;
    let (value, rest) = rest.split_at_checked(u32_at(header, 4) as usize)?;
    Some((key, value, rest))
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
