//! Writes one shard: its rows to a file of their own as they come, then the shard in its order.
//!
//! Does not sync folders or name versions; the writer above does. Invariant: the shard's file has a header only when all
//! behind it is written, and the file of rows is gone when the shard is finished.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3Default;

use super::Duplicates;
use super::arrange::{Identity, Kept, Keys};
use super::removals::{Removals, key_of_slot};
use super::texts::Texts;
use super::varying::{self, Lengths, Record};
use crate::error::Error;
use crate::header::{HEADER_BYTES, Header, KEY_BYTES, SHARD_ROWS_MAX};
use crate::manifest::{ShardEntry, shard_file};
use crate::table::Table;

const BUFFER_BYTES: usize = 256 * 1024;

pub(super) struct ShardWriter {
    number: u32,
    dir: PathBuf,
    /// The rows as they came: each is a slot as the shard will have it.
    rows_path: PathBuf,
    rows: BufWriter<File>,
    /// Over all rows: what is read again must be what was written.
    written: Xxh3Default,
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
    pub(super) fn create(dir: &Path, number: u32, buffer_bytes: usize) -> Result<ShardWriter, Error> {
        let rows_path = dir.join(format!("rows-{number:05}"));
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&rows_path);
        let file = options.map_err(Error::io("create", &rows_path))?;
        Ok(ShardWriter {
            number,
            dir: dir.to_path_buf(),
            rows_path,
            rows: BufWriter::with_capacity(buffer_bytes.min(BUFFER_BYTES), file),
            written: Xxh3Default::new(),
            keys: Keys::default(),
            removals: Removals::default(),
            texts: None,
        })
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
        self.written.update(&key.to_le_bytes());
        self.written.update(row);
        self.rows
            .write_all(&key.to_le_bytes())
            .and_then(|()| self.rows.write_all(row))
            .map_err(Error::io("write", &self.rows_path))
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
        let rows = self.rows.into_inner().map_err(|error| error.into_error());
        let mut rows = Rows {
            file: rows.map_err(Error::io("write", &self.rows_path))?,
            path: self.rows_path,
            is_delta: identity.is_delta,
            is_varying,
            slot_bytes: KEY_BYTES + identity.row_bytes as usize + usize::from(identity.is_delta),
            written: self.written.digest(),
        };
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
        fs::remove_file(&rows.path).map_err(Error::io("remove", &rows.path))?;
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
    let stay = removals.that_stay(with_rows, keep_first, &mut |visit| rows.each(visit))?;
    keys.take_out(&stay);
    Ok(stay)
}

/// The file of rows, to be read again.
struct Rows {
    path: PathBuf,
    file: File,
    slot_bytes: usize,
    is_delta: bool,
    /// Each row says how long it is.
    is_varying: bool,
    /// The checksum of what was written.
    written: u64,
}

impl Rows {
    /// Visits all slots, in the order in which they came.
    fn each(&mut self, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        if self.is_varying {
            return self.each_record(&[], &mut |record| visit(record.slot));
        }
        let read = each(&mut self.file, self.slot_bytes, visit).map_err(Error::io("read", &self.path))?;
        self.check(read)
    }

    /// Visits all rows that vary in length, in the order in which they came, but those of the keys `taken_out`, which are in order.
    fn each_record(&mut self, taken_out: &[u64], visit: &mut dyn FnMut(Record<'_>)) -> Result<(), Error> {
        let mut that_stay = |record: Record<'_>| {
            if varying::stays(&record, taken_out) {
                visit(record);
            }
        };
        let read = varying::each(&mut self.file, self.is_delta, &mut that_stay);
        self.check(read.map_err(Error::io("read", &self.path))?)
    }

    /// Whether what was read is what was written.
    fn check(&self, read: u64) -> Result<(), Error> {
        if read == self.written {
            return Ok(());
        }
        let (expected, found) = (format!("checksum {:016x}", self.written), format!("{read:016x}"));
        Err(Error::damaged(&self.path, "rows, read again", expected, found))
    }

    /// Visits the slots of all keys but those `taken_out`, which are in order.
    fn each_but(&mut self, taken_out: &[u64], visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        if taken_out.is_empty() {
            return self.each(visit);
        }
        self.each(&mut |slot| {
            if key_of_slot(slot).is_none_or(|key| taken_out.binary_search(&key).is_err()) {
                visit(slot);
            }
        })
    }
}

/// Visits the slots in a file of rows; returns their checksum.
fn each(rows: &mut File, slot_bytes: usize, visit: &mut dyn FnMut(&[u8])) -> std::io::Result<u64> {
    rows.rewind()?;
    let mut left = rows.metadata()?.len() as usize / slot_bytes;
    let mut hasher = Xxh3Default::new();
    let mut slots = vec![0; (BUFFER_BYTES / slot_bytes).clamp(1, left.max(1)) * slot_bytes];
    while left > 0 {
        let count = left.min(slots.len() / slot_bytes);
        let slots = &mut slots[..count * slot_bytes];
        rows.read_exact(slots)?;
        hasher.update(slots);
        slots.chunks_exact(slot_bytes).for_each(&mut *visit);
        left -= count;
    }
    Ok(hasher.digest())
}
