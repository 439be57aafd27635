//! Tables of format 1 (docs/formats/feature-shard-1.md): read once, and placed anew in memory.
//!
//! Writes no file. Invariant: a shard that comes of it holds the rows of its file, after every byte was checked.

use std::path::Path;

use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::files;
use crate::header::{self, HEADER_BYTES, check_start, u32_at, u64_at};
use crate::manifest::{KeyKind, Manifest, ShardEntry};
use crate::schema::{DIM_MAX, NotFinite, Schema};
use crate::shard::Shard;
use crate::write::arrange::{Identity, Keys};

pub(crate) const FORMAT: u32 = 1;
const SLOT_BYTES: u64 = 16;
const SLOTS_MIN: u64 = 4;
const SECTION_ALIGNMENT: u64 = 64;

/// The manifest of format 1, as that of today.
pub(crate) fn manifest(bytes: &[u8]) -> serde_json::Result<Manifest> {
    #[derive(Deserialize)]
    struct Fields {
        name: String,
        version: u64,
        dim: u32,
        rows: u64,
        shards: Vec<ShardEntry>,
    }
    let Fields {
        name,
        version,
        dim,
        rows,
        shards,
    } = serde_json::from_slice(bytes)?;
    Ok(Manifest {
        format: FORMAT,
        name,
        version,
        keys: KeyKind::U64,
        slot: String::new(),
        columns: Schema::floats(dim as usize).columns,
        not_finite: NotFinite::Refused,
        default_row: None,
        base: None,
        node: None,
        folded: None,
        oldest_base: None,
        rows,
        created_unix_s: 0,
        source: String::new(),
        shards,
    })
}

/// Reads a shard file of that format. Its `header_checksum` is then that of the file.
pub(crate) fn open(path: &Path) -> Result<Shard, Error> {
    let bytes = files::read(path).map_err(Error::io("read", path))?;
    let old = Old::decode(&bytes, path)?;
    let mut keys = Keys::default();
    old.each(&mut |key, _| keys.push(key));
    // The index may name a row twice, and so be far larger than the file.
    if keys.len() != old.rows {
        return Err(Error::damaged(
            path,
            "rows that the index names",
            old.rows,
            keys.len(),
        ));
    }
    let identity = Identity {
        format: header::FORMAT,
        shard: old.shard,
        shards: old.shards,
        version: old.version,
        row_bytes: old.row_bytes as u32,
        is_delta: false,
    };
    let arrangement = keys.arrange(path)?;
    let mut new = vec![0; HEADER_BYTES];
    let mut slots = |visit: &mut dyn FnMut(&[u8])| {
        let mut slot = Vec::new();
        old.each(&mut |key, row| {
            slot.clear();
            slot.extend_from_slice(&key.to_le_bytes());
            slot.extend_from_slice(row);
            visit(&slot);
        });
        Ok(())
    };
    let header = arrangement.write(identity, usize::MAX, &mut new, path, &mut slots, None)?;
    let (header, _) = header.encode();
    new[..HEADER_BYTES].copy_from_slice(&header);
    let mut shard = Shard::of_bytes(&new, path)?;
    shard.header_checksum = old.checksum;
    Ok(shard)
}

/// A file of format 1.
struct Old<'a> {
    shard: u32,
    shards: u32,
    version: u64,
    rows: u64,
    row_bytes: usize,
    checksum: u64,
    /// All rows, and the padding.
    row_section: &'a [u8],
    index: &'a [u8],
}

impl<'a> Old<'a> {
    fn decode(bytes: &'a [u8], path: &Path) -> Result<Old<'a>, Error> {
        let Some((head, sections)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            let found = format!("{} bytes", bytes.len());
            return Err(Error::damaged(path, "header", "at least 128 bytes", found));
        };
        let (_, checksum) = check_start(head, FORMAT..=FORMAT, path)?;
        let field = |at| u64_at(head, at);
        let (dim, rows, slots) = (u32_at(head, 20), field(32), field(40));
        let row_bytes = u64::from(dim) * 4;
        let rows_bytes = rows
            .checked_mul(row_bytes)
            .and_then(|bytes| bytes.checked_next_multiple_of(SECTION_ALIGNMENT));
        let expected = rows_bytes
            .zip(slots.checked_mul(SLOT_BYTES))
            .and_then(|(rows_bytes, index_bytes)| {
                (HEADER_BYTES as u64)
                    .checked_add(rows_bytes)?
                    .checked_add(index_bytes)
            })
            .filter(|_| rows <= header::SHARD_ROWS_MAX && slots >= SLOTS_MIN)
            .filter(|_| (1..=DIM_MAX).contains(&(dim as usize)));
        if expected != Some(bytes.len() as u64) {
            let expected = format!("{rows} rows of {dim} floats and {slots} slots");
            let found = format!("{} bytes", bytes.len());
            return Err(Error::damaged(path, "length in bytes", expected, found));
        }
        let (row_section, index) = sections.split_at(rows_bytes.unwrap_or_default() as usize);
        for (what, section, written) in [("rows", row_section, field(88)), ("index", index, field(96))] {
            let found = xxh3_64(section);
            if found != written {
                let (expected, found) = (format!("{written:016x}"), format!("{found:016x}"));
                let what = if what == "rows" {
                    "checksum of rows"
                } else {
                    "checksum of index"
                };
                return Err(Error::damaged(path, what, expected, found));
            }
        }
        Ok(Old {
            shard: u32_at(head, 12),
            shards: u32_at(head, 16),
            version: field(24),
            rows,
            row_bytes: row_bytes as usize,
            checksum,
            row_section,
            index,
        })
    }

    /// Visits every row that the index names.
    fn each(&self, visit: &mut dyn FnMut(u64, &[u8])) {
        for slot in self.index.as_chunks::<{ SLOT_BYTES as usize }>().0 {
            let [key, place] = slot.as_chunks::<8>().0 else {
                continue;
            };
            let number = u64::from_le_bytes(*place).wrapping_sub(1);
            if number < self.rows {
                let begin = number as usize * self.row_bytes;
                let row = self.row_section.get(begin..begin + self.row_bytes);
                visit(u64::from_le_bytes(*key), row.unwrap_or_default());
            }
        }
    }
}
