//! Writes one shard: keeps its rows as they come, then writes them in the shard's order.
//!
//! Does not sync folders or name versions; the writer above does. Invariant: the shard's file has a header only when all
//! behind it is written, and no file of rows is there when the shard is finished.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use super::Duplicates;
use super::arrange::{Arrangement, Identity, Kept, Keys};
use super::behind::Behind;
use super::gather::InMemory;
use super::incoming::{Incoming, Rows, Shape};
use super::journal::ShardRead;
use super::removals::Removals;
use super::texts::Texts;
use super::varying::{self, Lengths, Record};
use crate::error::Error;
use crate::header::{HEADER_BYTES, Header, SHARD_ROWS_MAX};
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
    /// An earlier writer has written it: what is pushed is there.
    whole: Option<Finished>,
}

/// A shard that is written, and what it changes of the base where it is of a delta.
#[derive(Debug, Clone)]
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
            whole: None,
        }
    }

    pub(super) fn take_whole(&mut self, whole: Finished) {
        self.whole = Some(whole);
    }

    pub(super) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// Goes on behind the rows that an earlier writer left; returns the names of their files, none where they are not what it wrote.
    pub(super) fn take_rows(
        &mut self,
        left: &ShardRead,
        slot: &str,
        shape: Shape,
    ) -> Result<Option<Vec<OsString>>, Error> {
        let (dir, number) = (self.dir.clone(), self.number);
        let none = Incoming::new(&dir, number, 0);
        let keys = &mut self.keys;
        let rows =
            std::mem::replace(&mut self.rows, none).go_on(left.rows, shape, &mut |key| keys.push(key))?;
        let Some(rows) = rows else { return Ok(None) };
        self.rows = rows;
        let mut names = vec![self.rows.name()];
        if let Some(left) = left.texts {
            let Some(texts) = Texts::go_on(&dir, number, slot, left)? else {
                return Ok(None);
            };
            names.push(texts.name());
            self.texts = Some(texts);
        }
        Ok(Some(names))
    }

    /// Has all that was pushed in files, and says what they have.
    pub(super) fn flush(&mut self) -> Result<ShardRead, Error> {
        Ok(ShardRead {
            rows: self.rows.flush()?,
            texts: self.texts.as_mut().map(Texts::flush).transpose()?,
        })
    }

    /// Keeps rows in a file, those that are there and those that come.
    pub(super) fn spill(&mut self) -> Result<(), Error> {
        self.rows.spill()
    }

    /// Removes a key that the base lacks.
    pub(super) fn remove_absent(&mut self, key: u64) {
        if self.is_whole() {
            return;
        }
        self.removals.push(key, self.keys.len());
    }

    /// Keeps the text of a key that is pushed or removed.
    pub(super) fn push_text(&mut self, slot: &str, text: &str) -> Result<(), Error> {
        if self.is_whole() {
            return Ok(());
        }
        let texts = match &mut self.texts {
            Some(texts) => texts,
            none => none.insert(Texts::create(&self.dir, self.number, slot)?),
        };
        texts.push(text)
    }

    pub(super) fn push(&mut self, key: u64, row: &[u8]) -> Result<(), Error> {
        if self.is_whole() {
            return Ok(());
        }
        self.check_room(1)?;
        self.keys.push(key);
        self.rows.push(key, row)
    }

    /// Adds the rows of some keys, `dim` numbers each, as 32-bit floats; an error has the number of the row.
    pub(super) fn push_floats(
        &mut self,
        keys: &[u64],
        rows: &[f32],
        dim: usize,
    ) -> Result<(), (usize, Error)> {
        if self.is_whole() {
            return Ok(());
        }
        self.check_room(keys.len()).map_err(|error| (0, error))?;
        self.keys.extend(keys);
        let mut rows = keys.iter().zip(rows.chunks_exact(dim)).enumerate();
        rows.try_for_each(|(at, (&key, row))| {
            let pushed = self.rows.push_floats(key, row);
            pushed.map_err(|error| (at, error))
        })
    }

    fn check_room(&self, rows: usize) -> Result<(), Error> {
        if self.keys.len() + rows as u64 <= SHARD_ROWS_MAX {
            return Ok(());
        }
        let expected = format!("enough of them for {SHARD_ROWS_MAX} rows each");
        Err(Error::argument("shards", expected, "more rows"))
    }

    /// Writes the shard with at most `memory_bytes` of its slots in memory at a time. `noted` is called when it is whole, and before what
    /// it was written from goes.
    pub(super) fn finish(
        mut self,
        (identity, shape): (Identity, Shape),
        duplicates: Duplicates,
        base: Option<&Table>,
        memory_bytes: usize,
        noted: impl FnOnce(&Finished) -> Result<(), Error>,
    ) -> Result<Finished, Error> {
        if let Some(whole) = self.whole {
            return Ok(whole);
        }
        let is_varying = shape.is_varying;
        let path = self.dir.join(shard_file(self.number));
        let mut rows = self.rows.end(shape)?;
        let mut keys = self.keys;
        let taken_out = settle(
            &mut keys,
            self.removals,
            self.texts.as_mut(),
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
        let mut arranged = Arranged {
            arrangement,
            rows: &mut rows,
            taken_out: &taken_out,
            memory_bytes,
            path: &path,
        };
        let header = arranged.write(identity, &mut file, kept)?;
        let entry = seal(file, &path, &header, self.number)?;
        let finished = Finished {
            entry,
            added,
            removed,
        };
        noted(&finished)?;
        rows.remove()?;
        self.texts.map_or(Ok(()), Texts::remove)?;
        Ok(finished)
    }
}

/// The rows of a shard, whose order is known.
struct Arranged<'a> {
    arrangement: Arrangement,
    rows: &'a mut Rows,
    /// Keys whose rows another of the same key has replaced.
    taken_out: &'a [u64],
    memory_bytes: usize,
    /// For messages.
    path: &'a Path,
}

impl Arranged<'_> {
    /// Writes all that stands behind the header, and returns that. `kept` gets the key and the row of each slot that has one.
    fn write(
        &mut self,
        identity: Identity,
        file: &mut File,
        kept: Option<&mut Kept<'_>>,
    ) -> Result<Header, Error> {
        let Arranged {
            arrangement,
            rows,
            taken_out,
            memory_bytes,
            path,
        } = self;
        let mut out = Behind::new(file);
        out.write_all(&[0; HEADER_BYTES])
            .map_err(Error::io("write", path))?;
        let chunks = rows.in_memory();
        let in_memory = chunks
            .as_deref()
            .and_then(|chunks| InMemory::new(chunks, rows.slot_bytes()));
        let mut header = match in_memory {
            Some(rows) => arrangement.write_gathered(identity, rows, taken_out, &mut out, path, kept)?,
            None => {
                let mut slots = |visit: &mut dyn FnMut(&[u8])| rows.each_but(taken_out, visit);
                arrangement.write(identity, *memory_bytes, &mut out, path, &mut slots, kept)?
            }
        };
        if arrangement.lengths.is_some() {
            let mut records = |visit: &mut dyn FnMut(Record<'_>)| rows.each_record(taken_out, visit);
            let memory_bytes = *memory_bytes;
            varying::write_heap(
                arrangement,
                &mut header,
                memory_bytes,
                &mut out,
                path,
                &mut records,
            )?;
        }
        Ok(header)
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
    texts: Option<&mut Texts>,
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
