//! The 128 bytes at the start of a shard file.
//!
//! No I/O here. Invariant: a decoded header contradicts neither itself nor the length of its file, so the sections it
//! names lie inside the file.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::hash::SLOTS_MIN;

pub(crate) const HEADER_BYTES: usize = 128;
pub(crate) const FORMAT: u32 = 1;
pub(crate) const DIM_MAX: usize = 65_536;
pub(crate) const SHARDS_MAX: u32 = 1024;
const MAGIC: &[u8; 8] = b"MPFSHARD";
const CHECKSUM_AT: usize = 120;
const SECTION_ALIGNMENT: u64 = 64;
pub(crate) const SLOT_BYTES: u64 = 16;

/// The fields that are not derived from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) shard: u32,
    pub(crate) shards: u32,
    pub(crate) dim: u32,
    pub(crate) version: u64,
    pub(crate) rows: u64,
    pub(crate) slots: u64,
    pub(crate) probes_max: u64,
    pub(crate) rows_checksum: u64,
    pub(crate) index_checksum: u64,
}

impl Header {
    /// Length of the rows section with its padding, or `None` past 2⁶⁴.
    pub(crate) fn rows_bytes(&self) -> Option<u64> {
        self.rows
            .checked_mul(u64::from(self.dim) * 4)?
            .checked_next_multiple_of(SECTION_ALIGNMENT)
    }

    fn layout(&self) -> Option<Layout> {
        let rows_bytes = self.rows_bytes()?;
        let index_offset = rows_bytes.checked_add(HEADER_BYTES as u64)?;
        let index_bytes = self.slots.checked_mul(SLOT_BYTES)?;
        let file_bytes = index_offset.checked_add(index_bytes)?;
        Some(Layout {
            rows_bytes,
            index_offset,
            index_bytes,
            file_bytes,
        })
    }

    /// The header as bytes, and its checksum. A table too large for 64-bit offsets is an argument error.
    pub(crate) fn encode(&self) -> Result<([u8; HEADER_BYTES], u64), Error> {
        let layout = self
            .layout()
            .ok_or_else(|| Error::argument("rows", "a shard below 2^64 bytes", self.rows))?;
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        for (at, value) in [(8, FORMAT), (12, self.shard), (16, self.shards), (20, self.dim)] {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in [
            (24, self.version),
            (32, self.rows),
            (40, self.slots),
            (48, self.probes_max),
            (56, HEADER_BYTES as u64),
            (64, layout.rows_bytes),
            (72, layout.index_offset),
            (80, layout.index_bytes),
            (88, self.rows_checksum),
            (96, self.index_checksum),
        ] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        Ok((bytes, checksum))
    }

    /// Reads a header; `file_bytes` is the length of the file, `path` is for messages.
    pub(crate) fn decode(
        bytes: &[u8; HEADER_BYTES],
        file_bytes: u64,
        path: &Path,
    ) -> Result<(Header, Layout, u64), Error> {
        let check = |what, expected: u64, found: u64| {
            if expected == found {
                Ok(())
            } else {
                Err(Error::damaged(path, what, expected, found))
            }
        };
        if &bytes[..8] != MAGIC {
            let found = format!("{:?}", String::from_utf8_lossy(&bytes[..8]));
            return Err(Error::damaged(path, "magic", "\"MPFSHARD\"", found));
        }
        let checksum = xxh3_64(&bytes[..CHECKSUM_AT]);
        check("header checksum", u64_at(bytes, CHECKSUM_AT), checksum)?;
        let format = u32_at(bytes, 8);
        if format != FORMAT {
            return Err(Error::Format {
                path: path.to_path_buf(),
                expected: FORMAT,
                found: format,
            });
        }
        let header = Header {
            shard: u32_at(bytes, 12),
            shards: u32_at(bytes, 16),
            dim: u32_at(bytes, 20),
            version: u64_at(bytes, 24),
            rows: u64_at(bytes, 32),
            slots: u64_at(bytes, 40),
            probes_max: u64_at(bytes, 48),
            rows_checksum: u64_at(bytes, 88),
            index_checksum: u64_at(bytes, 96),
        };
        header.check_ranges(path)?;
        let layout = header
            .layout()
            .ok_or_else(|| Error::damaged(path, "rows", "a shard below 2^64 bytes", header.rows))?;
        check("rows_offset", HEADER_BYTES as u64, u64_at(bytes, 56))?;
        check("rows_bytes", layout.rows_bytes, u64_at(bytes, 64))?;
        check("index_offset", layout.index_offset, u64_at(bytes, 72))?;
        check("index_bytes", layout.index_bytes, u64_at(bytes, 80))?;
        check("length in bytes", layout.file_bytes, file_bytes)?;
        Ok((header, layout, checksum))
    }

    fn check_ranges(&self, path: &Path) -> Result<(), Error> {
        let dim_ok = (1..=DIM_MAX as u64).contains(&u64::from(self.dim));
        let slots_ok = self.slots.is_power_of_two() && self.slots >= SLOTS_MIN && self.slots > self.rows;
        let (what, expected, found) = if !dim_ok {
            ("dim", "1 to 65536".to_owned(), u64::from(self.dim))
        } else if !slots_ok {
            let expected = format!("a power of two of at least 4 and above {}", self.rows);
            ("slots", expected, self.slots)
        } else if self.probes_max > self.slots {
            ("probes_max", format!("at most {}", self.slots), self.probes_max)
        } else if self.shard >= self.shards {
            ("shard", format!("below {}", self.shards), u64::from(self.shard))
        } else {
            return Ok(());
        };
        Err(Error::damaged(path, what, expected, found))
    }
}

/// Where the sections lie, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) rows_bytes: u64,
    pub(crate) index_offset: u64,
    pub(crate) index_bytes: u64,
    pub(crate) file_bytes: u64,
}

fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn u64_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn header() -> Header {
        Header {
            shard: 1,
            shards: 3,
            dim: 10,
            version: 7,
            rows: 5,
            slots: 16,
            probes_max: 2,
            rows_checksum: 11,
            index_checksum: 12,
        }
    }

    /// The error of decoding `header` as the start of a file of `file_bytes` bytes.
    fn check(header: Header, file_bytes: u64, expected: &str) {
        let (bytes, _) = header.encode().unwrap();
        let error = Header::decode(&bytes, file_bytes, Path::new("shard-00001.mpf")).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains(expected) && message.contains("shard-00001.mpf"),
            "{message}"
        );
    }

    #[test]
    fn a_header_survives_the_way_through_bytes() {
        let (bytes, checksum) = header().encode().unwrap();
        let (decoded, layout, found) = Header::decode(&bytes, 128 + 256 + 256, Path::new("x")).unwrap();
        assert_eq!((decoded, found), (header(), checksum));
        assert_eq!(layout.rows_bytes, 256);
        assert_eq!(layout.index_offset, 384);
    }

    #[test]
    fn contradictions_are_named() {
        check(header(), 639, "length in bytes: expected 640, found 639; restore");
        check(
            Header { dim: 0, ..header() },
            640,
            "dim: expected 1 to 65536, found 0",
        );
        check(
            Header { slots: 4, ..header() },
            640,
            "slots: expected a power of two",
        );
        check(
            Header {
                slots: 24,
                ..header()
            },
            640,
            "slots: expected a power of two",
        );
        check(
            Header {
                probes_max: 17,
                ..header()
            },
            640,
            "probes_max: expected at most 16",
        );
        check(
            Header { shard: 3, ..header() },
            640,
            "shard: expected below 3, found 3",
        );
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let (mut bytes, _) = header().encode().unwrap();
        bytes[8] = 2;
        let damaged = Header::decode(&bytes, 640, Path::new("x")).unwrap_err();
        assert!(matches!(damaged, Error::Damaged { .. }), "{damaged}");
        let checksum = xxh3_64(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        let newer = Header::decode(&bytes, 640, Path::new("x")).unwrap_err();
        assert!(matches!(newer, Error::Format { found: 2, .. }), "{newer}");
    }
}
