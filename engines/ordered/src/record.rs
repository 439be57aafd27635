//! What a put's record holds in the log, as docs/formats/ordered-log.md draws it.
//!
//! Not the frame around it, nor segments: those are the log's (`millpond-wal`). Invariant: what encodes decodes to the same, and
//! no input makes decoding panic or allocate.

use millpond_wal::{Body, Fault, Format, Record};

use crate::put::{KEY_BYTES_MAX, PUT_BYTES_MAX, VALUE_BYTES_MAX};

const KIND_PUT: u8 = 1;
/// Count and first version, before the entries.
const PUT_HEADER_BYTES: usize = 12;
const ENTRY_HEADER_BYTES: usize = 8;

/// The ordered store's log, format 1.
pub(crate) static FORMAT: Format = Format {
    keeper: "ordered store",
    magic: b"MPLG",
    version: 1,
    body_bytes_min: PUT_HEADER_BYTES,
    body_bytes_max: PUT_BYTES_MAX + PUT_HEADER_BYTES,
    kinds: &[KIND_PUT],
    check: |_, body| decode(body).map(drop),
    number: "version",
    first_number: 1,
    may_begin_late: false,
};

/// A put that met its conditions and has its versions. Its entries passed `Put::check`: that is what makes the lengths fit their
/// fields.
pub(crate) struct Accepted {
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// `Put::bytes` of these entries.
    pub bytes: usize,
    pub first_version: u64,
}

impl Body for Accepted {
    fn kind(&self) -> u8 {
        KIND_PUT
    }

    fn number(&self) -> u64 {
        self.first_version
    }

    fn bytes(&self) -> usize {
        PUT_HEADER_BYTES + self.bytes
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.first_version.to_le_bytes());
        for (key, value) in &self.entries {
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(&(value.len() as u32).to_le_bytes());
            out.extend_from_slice(key);
            out.extend_from_slice(value);
        }
    }
}

/// A sound put; its entries still lie in the buffer it was read to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logged<'a> {
    pub entry_count: u32,
    pub first_version: u64,
    entries: &'a [u8],
}

impl<'a> Logged<'a> {
    /// Of a record that was read: it was checked then.
    pub fn of(record: &Record<'a>) -> Logged<'a> {
        decode(record.body).unwrap_or(Logged {
            entry_count: 0,
            first_version: 0,
            entries: &[],
        })
    }

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

fn decode(body: &[u8]) -> Result<Logged<'_>, Fault> {
    let Some((header, entries)) = body.split_first_chunk::<PUT_HEADER_BYTES>() else {
        return Err(Fault::Malformed(format!(
            "{} bytes, too few for a put",
            body.len()
        )));
    };
    let put = Logged {
        entry_count: u32_at(header, 0),
        first_version: u64::from(u32_at(header, 4)) | u64::from(u32_at(header, 8)) << 32,
        entries,
    };
    put.check_entries()?;
    Ok(put)
}

fn split_entry(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<ENTRY_HEADER_BYTES>()?;
    let (key, rest) = rest.split_at_checked(u32_at(header, 0) as usize)?;
    let (value, rest) = rest.split_at_checked(u32_at(header, 4) as usize)?;
    Some((key, value, rest))
}

// The arrays below are of fixed size and `at` is a constant of the format at every call.
fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
