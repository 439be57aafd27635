//! Writes one shard file: rows as they come, then the index, then the header.
//!
//! Does not sync folders or name versions; the writer above does. Invariant: the file has a header only when all before
//! it is written, and the index in memory has every row that was accepted.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3Default;

use crate::error::Error;
use crate::hash::{hash, slots_for};
use crate::header::{HEADER_BYTES, Header, SLOT_BYTES};
use crate::manifest::{ShardEntry, shard_file};

const BUFFER_BYTES: usize = 64 * 1024;

/// No hint may claim more slots than this ahead; the index grows by itself.
const SLOTS_AHEAD_MAX: u64 = 1 << 22;

pub(super) struct ShardWriter {
    number: u32,
    path: PathBuf,
    file: File,
    /// Bytes of the section at hand that are neither written nor hashed yet.
    buffer: Vec<u8>,
    /// Over the section at hand.
    hasher: Xxh3Default,
    index: Index,
}

impl ShardWriter {
    pub(super) fn create(dir: &Path, number: u32, rows_hint: u64) -> Result<ShardWriter, Error> {
        let path = dir.join(shard_file(number));
        let mut file = File::create_new(&path).map_err(Error::io("create", &path))?;
        file.write_all(&[0; HEADER_BYTES])
            .map_err(Error::io("write", &path))?;
        Ok(ShardWriter {
            number,
            path,
            file,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            hasher: Xxh3Default::new(),
            index: Index::new(slots_for(rows_hint).min(SLOTS_AHEAD_MAX)),
        })
    }

    pub(super) fn push(&mut self, key: u64, hash: u64, row: &[f32]) -> Result<(), Error> {
        self.index.insert(key, hash)?;
        self.buffer
            .extend(row.iter().flat_map(|value| value.to_le_bytes()));
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.hasher.update(&self.buffer);
        self.file
            .write_all(&self.buffer)
            .map_err(Error::io("write", &self.path))?;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the section at hand; returns its checksum.
    fn end_section(&mut self) -> Result<u64, Error> {
        self.flush()?;
        let checksum = self.hasher.digest();
        self.hasher.reset();
        Ok(checksum)
    }

    pub(super) fn finish(mut self, version: u64, shards: u32, dim: u32) -> Result<ShardEntry, Error> {
        self.index.resize(slots_for(self.index.rows));
        let mut header = Header {
            shard: self.number,
            shards,
            dim,
            version,
            rows: self.index.rows,
            slots: self.index.slots.len() as u64,
            probes_max: self.index.probes_max,
            rows_checksum: 0,
            index_checksum: 0,
        };
        let rows_bytes = header.rows_bytes().unwrap_or_default();
        let padding = rows_bytes.saturating_sub(header.rows * u64::from(dim) * 4);
        self.buffer.resize(self.buffer.len() + padding as usize, 0);
        header.rows_checksum = self.end_section()?;
        self.write_index()?;
        header.index_checksum = self.end_section()?;
        let (bytes, checksum) = header.encode()?;
        self.file
            .rewind()
            .and_then(|()| self.file.write_all(&bytes))
            .and_then(|()| self.file.sync_all())
            .map_err(Error::io("write", &self.path))?;
        Ok(ShardEntry {
            file: shard_file(self.number),
            bytes: HEADER_BYTES as u64 + rows_bytes + header.slots * SLOT_BYTES,
            rows: header.rows,
            checksum: format!("{checksum:016x}"),
        })
    }

    fn write_index(&mut self) -> Result<(), Error> {
        for (key, place) in std::mem::take(&mut self.index.slots) {
            self.buffer.extend_from_slice(&key.to_le_bytes());
            self.buffer.extend_from_slice(&place.to_le_bytes());
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }
}

/// The index in memory: slots of a key and its row's number plus one, 0 where the slot is empty.
struct Index {
    slots: Vec<(u64, u64)>,
    rows: u64,
    probes_max: u64,
}

impl Index {
    fn new(slots: u64) -> Index {
        Index {
            slots: vec![(0, 0); slots as usize],
            rows: 0,
            probes_max: 0,
        }
    }

    /// Gives the next row to a key.
    fn insert(&mut self, key: u64, hash: u64) -> Result<(), Error> {
        if (self.rows + 1) * 2 > self.slots.len() as u64 {
            self.resize(self.slots.len() as u64 * 2);
        }
        self.place(key, hash, self.rows + 1)?;
        self.rows += 1;
        Ok(())
    }

    fn place(&mut self, key: u64, hash: u64, place: u64) -> Result<(), Error> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        let mut probes = 1;
        while self.slots[at].1 != 0 {
            if self.slots[at].0 == key {
                return Err(Error::DuplicateKey { key });
            }
            at = (at + 1) & mask;
            probes += 1;
        }
        self.slots[at] = (key, place);
        self.probes_max = self.probes_max.max(probes);
        Ok(())
    }

    /// Moves to another number of slots, a power of two above the number of rows.
    fn resize(&mut self, slots: u64) {
        if slots == self.slots.len() as u64 {
            return;
        }
        let old = std::mem::replace(&mut self.slots, vec![(0, 0); slots as usize]);
        self.probes_max = 0;
        for (key, place) in old {
            if place != 0 {
                // The keys were told apart when they came.
                let _ = self.place(key, hash(key), place);
            }
        }
    }
}
