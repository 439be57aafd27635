//! The 128 bytes at the start of a shard file.
//!
//! No I/O here. Invariant: a decoded header contradicts neither itself nor the length of its file, so the sections it
//! names lie inside the file.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::hash::Places;
use crate::schema::{ROW_BYTES_MAX, START_BYTES};
use std::ops::RangeInclusive;

pub(crate) const HEADER_BYTES: usize = 128;
/// Of tables whose columns are numbers.
pub(crate) const FORMAT: u32 = 2;
/// Of tables that have columns of bytes.
pub(crate) const BYTES_FORMAT: u32 = 3;
pub(crate) const SHARDS_MAX: u32 = 1024;
/// So that a number of a row fits in 32 bits while a shard is written.
pub(crate) const SHARD_ROWS_MAX: u64 = u32::MAX as u64;
const SLOTS_MAX: u64 = 1 << 33;
const HEAP_BYTES_MAX: u64 = 1 << (8 * START_BYTES);
const MAGIC: &[u8; 8] = b"MPFSHARD";
const CHECKSUM_AT: usize = 120;
const SECTION_ALIGNMENT: u64 = 64;
pub(crate) const KEY_BYTES: usize = 8;
pub(crate) const PILOT_BYTES: u64 = 2;

/// The fields that are not derived from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) format: u32,
    pub(crate) shard: u32,
    pub(crate) shards: u32,
    pub(crate) row_bytes: u32,
    pub(crate) version: u64,
    /// Keys in it; those that a delta removes count.
    pub(crate) rows: u64,
    /// Of a delta: a byte behind each row says whether its key is removed.
    pub(crate) is_delta: bool,
    pub(crate) places: Places,
    pub(crate) pilots_checksum: u64,
    pub(crate) slots_checksum: u64,
    /// Where rows vary in length, what they lie in.
    pub(crate) heap: Option<HeapSection>,
}

/// The bytes of all rows, in the order of their slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeapSection {
    /// Without its padding.
    pub(crate) bytes: u64,
    pub(crate) checksum: u64,
}

const IS_DELTA: u64 = 1;
const IS_VARYING: u64 = 2;

impl Header {
    /// Bytes of a slot: a key and its row, and in a delta the byte behind it.
    pub(crate) fn slot_bytes(&self) -> usize {
        KEY_BYTES + self.row_bytes as usize + usize::from(self.is_delta)
    }

    /// Where the sections lie; `None` past 2⁶⁴.
    pub(crate) fn layout(&self) -> Option<Layout> {
        let padded = |count: u64, bytes: u64| {
            let bytes = count.checked_mul(bytes)?;
            bytes.checked_next_multiple_of(SECTION_ALIGNMENT)
        };
        let pilots_bytes = padded(self.places.buckets, PILOT_BYTES)?;
        let slots_bytes = padded(self.places.slots, self.slot_bytes() as u64)?;
        let slots_offset = pilots_bytes.checked_add(HEADER_BYTES as u64)?;
        let heap_offset = slots_offset.checked_add(slots_bytes)?;
        let heap_bytes = padded(self.heap.map_or(0, |heap| heap.bytes), 1)?;
        Some(Layout {
            pilots_bytes,
            slots_offset,
            slots_bytes,
            heap_offset,
            heap_bytes,
            file_bytes: heap_offset.checked_add(heap_bytes)?,
        })
    }

    /// The header as bytes, and its checksum.
    pub(crate) fn encode(&self) -> ([u8; HEADER_BYTES], u64) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        let shape = [self.shard, self.shards, self.row_bytes];
        for (at, value) in [(8, self.format), (12, shape[0]), (16, shape[1]), (20, shape[2])] {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let flags = |is: bool, flag| if is { flag } else { 0 };
        let heap = self.heap;
        for (at, value) in [
            (24, self.version),
            (32, self.rows),
            (40, self.places.slots),
            (48, self.places.buckets),
            (56, self.places.seed),
            (64, self.pilots_checksum),
            (72, self.slots_checksum),
            (
                80,
                flags(self.is_delta, IS_DELTA) | flags(heap.is_some(), IS_VARYING),
            ),
            (88, heap.map_or(0, |heap| heap.bytes)),
            (96, heap.map_or(0, |heap| heap.checksum)),
        ] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        (bytes, checksum)
    }

    /// Reads a header; `file_bytes` is the length of the file, `path` is for messages.
    pub(crate) fn decode(
        bytes: &[u8; HEADER_BYTES],
        file_bytes: u64,
        path: &Path,
    ) -> Result<(Header, Layout, u64), Error> {
        let (format, checksum) = check_start(bytes, FORMAT..=BYTES_FORMAT, path)?;
        let flags = u64_at(bytes, 80);
        let known = match format {
            FORMAT => IS_DELTA,
            _ => IS_DELTA | IS_VARYING,
        };
        if flags > known {
            return Err(Error::damaged(path, "flags", format!("0 to {known}"), flags));
        }
        let heap = HeapSection {
            bytes: u64_at(bytes, 88),
            checksum: u64_at(bytes, 96),
        };
        let header = Header {
            format,
            heap: (flags & IS_VARYING > 0).then_some(heap),
            shard: u32_at(bytes, 12),
            shards: u32_at(bytes, 16),
            row_bytes: u32_at(bytes, 20),
            version: u64_at(bytes, 24),
            rows: u64_at(bytes, 32),
            is_delta: flags & IS_DELTA > 0,
            places: Places {
                slots: u64_at(bytes, 40),
                buckets: u64_at(bytes, 48),
                seed: u64_at(bytes, 56),
            },
            pilots_checksum: u64_at(bytes, 64),
            slots_checksum: u64_at(bytes, 72),
        };
        header.check_ranges(path)?;
        let layout = header
            .layout()
            .ok_or_else(|| Error::damaged(path, "slots", "a shard below 2^64 bytes", header.places.slots))?;
        if layout.file_bytes != file_bytes {
            return Err(Error::damaged(
                path,
                "length in bytes",
                layout.file_bytes,
                file_bytes,
            ));
        }
        Ok((header, layout, checksum))
    }

    fn check_ranges(&self, path: &Path) -> Result<(), Error> {
        let Places { seed, buckets, slots } = self.places;
        let rows = self.rows;
        let (row_min, row_max) = match self.heap {
            Some(_) => (START_BYTES, START_BYTES),
            None => (1, ROW_BYTES_MAX),
        };
        let row_ok = (row_min..=row_max).contains(&(self.row_bytes as usize));
        let heap_bytes = self.heap.map_or(0, |heap| heap.bytes);
        let slots_ok = match rows {
            0 => slots == 0,
            _ => rows < slots && slots < SLOTS_MAX,
        };
        let buckets_ok = buckets <= slots && (buckets > 0) == (rows > 0);
        let wrong = [
            (
                !row_ok,
                "row_bytes",
                format!("{row_min} to {row_max}"),
                u64::from(self.row_bytes),
            ),
            (
                heap_bytes >= HEAP_BYTES_MAX,
                "heap_bytes",
                format!("below {HEAP_BYTES_MAX}"),
                heap_bytes,
            ),
            (
                rows > SHARD_ROWS_MAX,
                "rows",
                format!("at most {SHARD_ROWS_MAX}"),
                rows,
            ),
            (
                !slots_ok,
                "slots",
                format!("more than the {rows} rows, below 2^33, and none where there is no row"),
                slots,
            ),
            (
                !buckets_ok,
                "buckets",
                format!("1 to {slots}, and none where there is no row"),
                buckets,
            ),
            (seed % 2 == 0, "seed", "an odd number".to_owned(), seed),
            (
                self.shard >= self.shards,
                "shard",
                format!("below {}", self.shards),
                u64::from(self.shard),
            ),
        ];
        match wrong.into_iter().find(|(is_wrong, ..)| *is_wrong) {
            Some((_, what, expected, found)) => Err(Error::damaged(path, what, expected, found)),
            None => Ok(()),
        }
    }
}

/// Where the sections lie, in bytes; each with its padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) pilots_bytes: u64,
    pub(crate) slots_offset: u64,
    pub(crate) slots_bytes: u64,
    pub(crate) heap_offset: u64,
    /// 0 where rows do not vary.
    pub(crate) heap_bytes: u64,
    pub(crate) file_bytes: u64,
}

/// What every format has in the same place: the magic, a checksum of the header, and the number of the format.
/// Returns the number and the checksum.
pub(crate) fn check_start(
    bytes: &[u8; HEADER_BYTES],
    formats: RangeInclusive<u32>,
    path: &Path,
) -> Result<(u32, u64), Error> {
    if &bytes[..8] != MAGIC {
        let found = format!("{:?}", String::from_utf8_lossy(&bytes[..8]));
        return Err(Error::damaged(path, "magic", "\"MPFSHARD\"", found));
    }
    let checksum = xxh3_64(&bytes[..CHECKSUM_AT]);
    let written = u64_at(bytes, CHECKSUM_AT);
    if written != checksum {
        return Err(Error::damaged(path, "header checksum", written, checksum));
    }
    match u32_at(bytes, 8) {
        found if formats.contains(&found) => Ok((found, checksum)),
        found if found <= BYTES_FORMAT => {
            let shown = formats.map(|format| format.to_string()).collect::<Vec<_>>();
            let expected = format!("{}, as the manifest says", shown.join(" or "));
            Err(Error::damaged(path, "format", expected, found))
        }
        found => Err(Error::Format {
            path: path.to_path_buf(),
            expected: BYTES_FORMAT,
            found,
        }),
    }
}

pub(crate) fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

pub(crate) fn u64_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const FILE_BYTES: u64 = 128 + 64 + 320;

    fn header() -> Header {
        Header {
            format: FORMAT,
            heap: None,
            shard: 1,
            shards: 3,
            row_bytes: 40,
            version: 7,
            rows: 5,
            is_delta: false,
            places: Places {
                seed: 3,
                buckets: 2,
                slots: 6,
            },
            pilots_checksum: 11,
            slots_checksum: 12,
        }
    }

    /// The error of decoding `header` as the start of a file of `file_bytes` bytes.
    fn check(header: Header, file_bytes: u64, expected: &str) {
        let (bytes, _) = header.encode();
        let error = Header::decode(&bytes, file_bytes, Path::new("shard-00001.mpf")).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains(expected) && message.contains("shard-00001.mpf"),
            "{message}"
        );
    }

    fn with_places(places: Places) -> Header {
        Header { places, ..header() }
    }

    #[test]
    fn a_header_survives_the_way_through_bytes() {
        let (bytes, checksum) = header().encode();
        let (decoded, layout, found) = Header::decode(&bytes, FILE_BYTES, Path::new("x")).unwrap();
        assert_eq!((decoded, found), (header(), checksum));
        assert_eq!((layout.pilots_bytes, layout.slots_offset), (64, 192));
        assert_eq!((layout.slots_bytes, layout.file_bytes), (320, FILE_BYTES));
    }

    #[test]
    fn rows_that_vary_lie_in_a_heap_behind_the_slots() {
        let header = Header {
            format: BYTES_FORMAT,
            heap: Some(HeapSection {
                bytes: 100,
                checksum: 13,
            }),
            row_bytes: START_BYTES as u32,
            is_delta: true,
            ..header()
        };
        let (bytes, _) = header.encode();
        // Six slots of 8 + 6 + 1 bytes, padded; 100 bytes of rows, padded.
        let file_bytes = 128 + 64 + 128 + 128;
        let (decoded, layout, _) = Header::decode(&bytes, file_bytes, Path::new("x")).unwrap();
        assert_eq!(decoded, header);
        assert_eq!((layout.heap_offset, layout.heap_bytes), (320, 128));
        check(
            header,
            file_bytes + 64,
            "length in bytes: expected 448, found 512; restore",
        );
        check(
            Header {
                row_bytes: 8,
                ..header
            },
            file_bytes,
            "row_bytes: expected 6 to 6, found 8",
        );
        check(
            Header {
                format: FORMAT,
                ..header
            },
            file_bytes,
            "flags: expected 0 to 1, found 3",
        );
        let heap = HeapSection {
            bytes: 1 << 48,
            checksum: 0,
        };
        check(
            Header {
                heap: Some(heap),
                ..header
            },
            file_bytes,
            "heap_bytes: expected below 281474976710656",
        );
    }

    #[test]
    fn contradictions_are_named() {
        let places = header().places;
        check(
            header(),
            FILE_BYTES - 1,
            "length in bytes: expected 512, found 511; restore",
        );
        check(
            Header {
                row_bytes: 0,
                ..header()
            },
            640,
            "row_bytes: expected 1 to 262144, found 0",
        );
        check(
            with_places(Places { slots: 5, ..places }),
            640,
            "slots: expected more than the 5 rows",
        );
        check(
            with_places(Places {
                slots: 1 << 33,
                ..places
            }),
            640,
            "slots: expected more than the 5 rows, below 2^33",
        );
        for buckets in [0, 7] {
            let wrong = with_places(Places { buckets, ..places });
            check(wrong, 640, "buckets: expected 1 to 6");
        }
        check(
            with_places(Places { seed: 2, ..places }),
            640,
            "seed: expected an odd number",
        );
        check(
            Header { shard: 3, ..header() },
            640,
            "shard: expected below 3, found 3",
        );
    }

    #[test]
    fn another_format_is_told_from_damage() {
        let decode = |format: u8, signed: bool| {
            let (mut bytes, _) = header().encode();
            bytes[8] = format;
            if signed {
                let checksum = xxh3_64(&bytes[..CHECKSUM_AT]);
                bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
            }
            Header::decode(&bytes, FILE_BYTES, Path::new("x")).unwrap_err()
        };
        let damaged = decode(4, false);
        assert!(matches!(damaged, Error::Damaged { .. }), "{damaged}");
        let newer = decode(4, true);
        assert!(matches!(newer, Error::Format { found: 4, .. }), "{newer}");
        let older = decode(1, true).to_string();
        assert!(
            older.contains("format: expected 2 or 3, as the manifest says, found 1"),
            "{older}"
        );
    }
}
