//! Writes one shard: keeps its rows as they come, then writes them in the shard's order.
//!
//! Does not sync folders or name versions; the writer above does. Invariant: the shard's file has a header only when all
//! behind it is written, and no file of rows is there when the shard is finished.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use super::Duplicates;
use super::arrange::{Identity, Kept, Keys};
use super::incoming::{Incoming, Rows};
use super::removals::Removals;
use super::texts::Texts;
use super::varying::{self, Lengths, Record};
use crate::error::Error;
use crate::header::{HEADER_BYTES, Header, KEY_BYTES, SHARD_ROWS_MAX};
use crate::manifest::{ShardEntry, shard_file};
use crate::table::Table;

pub(super) struct ShardWriter {
    number: u32,
    dir: PathBuf,
    /// Each is a slot as the shard will have it.
    rows: Incoming,
    keys: Keys,
    /// Of keys that the base lacks.
    removals: Removals,
    /// Of keys that are texts.
    texts: Option<Texts>,
}

/// A shard that is written, and what it changes of the base where it is of a delta.
pub(super) struct Finished {
    pub(super) entry: ShardEntry,
    /// Rows that the base has not.
    pub(super) added: u64,
    /// Rows of the base that it removes.
    pub(super) removed: u64,
}

impl ShardWriter {
    pub(super) fn new(dir: &Path, number: u32, buffer_bytes: usize) -> ShardWriter {
        ShardWriter {
            number,
            dir: dir.to_path_buf(),
            rows: Incoming::new(dir, number, buffer_bytes),
            keys: Keys::default(),
            removals: Removals::default(),
            texts: None,
        }
    }

    /// Keeps rows in a file, those that are there and those that come.
    pub(super) fn spill(&mut self) -> Result<(), Error> {
        self.rows.spill()
    }

    /// Removes a key that the base lacks.
    pub(super) fn remove_absent(&mut self, key: u64) {
        self.removals.push(key, self.keys.len());
    }

    /// Keeps the text of a key that is pushed or removed.
    pub(super) fn push_text(&mut self, slot: &str, text: &str) -> Result<(), Error> {
        let texts = match &mut self.texts {
            Some(texts) => texts,
            none => none.insert(Texts::create(&self.dir, self.number, slot)?),
        };
        texts.push(text)
    }

    pub(super) fn push(&mut self, key: u64, row: &[u8]) -> Result<(), Error> {
        if self.keys.len() == SHARD_ROWS_MAX {
            let expected = format!("enough of them for {SHARD_ROWS_MAX} rows each");
            return Err(Error::argument("shards", expected, "more rows"));
        }
        self.keys.push(key);
        self.rows.push(key, row)
    }

    /// Writes the shard with at most `memory_bytes` of its slots in memory at a time.
    pub(super) fn finish(
        self,
        identity: Identity,
        is_varying: bool,
        duplicates: Duplicates,
        base: Option<&Table>,
        memory_bytes: usize,
    ) -> Result<Finished, Error> {
        let path = self.dir.join(shard_file(self.number));
        let slot_bytes = KEY_BYTES + identity.row_bytes as usize + usize::from(identity.is_delta);
        let mut rows = self.rows.end(identity.is_delta, is_varying, slot_bytes)?;
        let mut keys = self.keys;
        let taken_out = settle(
            &mut keys,
            self.removals,
            self.texts,
            duplicates,
            memory_bytes,
            &mut rows,
        )?;
        let mut arrangement = keys.arrange(&path)?;
        arrangement.keep_first = duplicates == Duplicates::First;
        if is_varying {
            let lengths = Lengths::of(&arrangement, &mut |visit| rows.each_record(&taken_out, visit))?;
            arrangement.lengths = Some(lengths);
        }
        let mut file = File::create_new(&path).map_err(Error::io("create", &path))?;
        file.write_all(&[0; HEADER_BYTES])
            .map_err(Error::io("write", &path))?;
        let mut slots = |visit: &mut dyn FnMut(&[u8])| rows.each_but(&taken_out, visit);
        let (mut added, mut removed) = (0, 0);
        let mut kept = |key: u64, row: &[u8]| {
            let is_there = base.is_some_and(|base| base.contains(key));
            match row.last() {
                Some(0) => added += u64::from(!is_there),
                _ => removed += u64::from(is_there),
            }
        };
        let kept: Option<&mut Kept<'_>> = match base {
            Some(_) => Some(&mut kept),
            None => None,
        };
        let mut header = arrangement.write(identity, memory_bytes, &mut file, &path, &mut slots, kept)?;
        if is_varying {
            let mut records = |visit: &mut dyn FnMut(Record<'_>)| rows.each_record(&taken_out, visit);
            varying::write_heap(
                &arrangement,
                &mut header,
                memory_bytes,
                &mut file,
                &path,
                &mut records,
            )?;
        }
        let entry = seal(file, &path, &header, self.number)?;
        rows.remove()?;
        Ok(Finished {
            entry,
            added,
            removed,
        })
    }
}

/// Writes the header before what it describes, and syncs the file.
fn seal(mut file: File, path: &Path, header: &Header, number: u32) -> Result<ShardEntry, Error> {
    let (bytes, checksum) = header.encode();
    let sealed = file
        .rewind()
        .and_then(|()| file.write_all(&bytes))
        .and_then(|()| file.sync_all())
        .and_then(|()| file.metadata());
    Ok(ShardEntry {
        file: shard_file(number),
        bytes: sealed.map_err(Error::io("write", path))?.len(),
        rows: header.rows,
        checksum: format!("{checksum:016x}"),
    })
}

/// Decides between the rows and removals of the same key; returns the keys of which a removal stays, taken out of `keys`.
fn settle(
    keys: &mut Keys,
    removals: Removals,
    texts: Option<Texts>,
    duplicates: Duplicates,
    memory_bytes: usize,
    rows: &mut Rows,
) -> Result<Vec<u64>, Error> {
    if duplicates == Duplicates::Refused && texts.is_none() && removals.is_empty() {
        // Two rows of a key are found when the keys are arranged.
        return Ok(Vec::new());
    }
    let mut met = keys.fold();
    let with_rows = removals.with_rows(keys);
    met.extend(&with_rows);
    met.sort_unstable();
    met.dedup();
    if let Some(texts) = texts {
        texts.check(&met, memory_bytes)?;
    }
    if let (Duplicates::Refused, Some(&key)) = (duplicates, met.first()) {
        return Err(Error::DuplicateKey { key });
    }
    let keep_first = duplicates == Duplicates::First;
    let stay = removals.that_stay(with_rows, keep_first, rows.slot_bytes(), &mut |visit| {
        rows.each(visit)
    })?;
    keys.take_out(&stay);
    Ok(stay)
}
