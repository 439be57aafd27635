//! Goes on with a version that another writer began: what of it is whole is taken over, what is not is written again.
//!
//! It writes no row. Its invariants: nothing is taken over whose checksum does not fit, and a version that was gone on with is,
//! byte for byte, the one that would have come without a break.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::Writer;
use super::journal::{self, Journal, Left, Line, Position, ReadUpTo, WholeShard};
use super::shard::{Finished, ShardWriter};
use super::unfinished;
use crate::error::Error;
use crate::manifest::shard_file;
use crate::schema::Keys;
use crate::shard::Shard;

/// Bytes of rows from one line of the journal to the next.
const LINE_EVERY_BYTES: (usize, usize) = (64 << 10, 256 << 20);

/// What a writer took over from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resumed {
    /// Rows that were read already.
    pub rows: u64,
    /// Shards that were whole.
    pub shards: u32,
}

impl fmt::Display for Resumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resumed { rows, shards } = self;
        write!(
            f,
            "went on with a build that was broken off: {rows} rows were read and {shards} shards written already"
        )
    }
}

impl Writer {
    /// Says in the journal what is written, so that a later writer of the same `identity` goes on where this one is killed or its
    /// disk is full; goes on itself where an earlier one left such a version, unless it is to `restart`. What was left of another is
    /// removed. To be called when everything is set, and before the first row.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn resumable(mut self, identity: &str, restart: bool) -> Result<Writer, Error> {
        let identity = self.identity_of_all(identity);
        let mut goes_on = false;
        for path in unfinished::left(&self.table_dir, self.version)? {
            if path == self.unfinished.path {
                continue;
            }
            let Some((journal, left)) = Journal::take_over_soon(&path)? else {
                continue;
            };
            let left = left.filter(|left| !restart && left.begun.identity == identity);
            match left.filter(|_| !goes_on) {
                Some(left) => {
                    self.take_over(path, journal, left)?;
                    goes_on = true;
                }
                None => fs::remove_dir_all(&path).map_err(Error::io("remove", &path))?,
            }
        }
        if let Some(journal) = self.journal.as_mut().filter(|_| !goes_on) {
            journal.begin(&identity, self.created_unix_s)?;
        }
        Ok(self)
    }

    /// Where the rows end that are there already: the caller goes on behind them.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Says that all rows up to there were pushed, the removals aside. Where it `is_last`, no row comes behind them.
    ///
    /// # Errors
    /// [`Error::Io`], after which the writer cannot be finished.
    pub fn reached(&mut self, position: Position, is_last: bool) -> Result<(), Error> {
        let (least, most) = LINE_EVERY_BYTES;
        let is_due = self.bytes_since >= (self.memory_bytes / 4).clamp(least, most) || is_last;
        // Rows in memory are read again.
        if self.kept_bytes.is_some() || !self.is_resumable() || !is_due || position <= self.position {
            return Ok(());
        }
        let noted = self.note_rows(position);
        noted.map_err(|error| self.broken(error))
    }

    fn note_rows(&mut self, position: Position) -> Result<(), Error> {
        let shards = self.shards.iter_mut().map(ShardWriter::flush);
        let line = Line::Read(ReadUpTo {
            position,
            rows: self.rows,
            shards: shards.collect::<Result<_, _>>()?,
        });
        (self.position, self.bytes_since) = (position, 0);
        match &mut self.journal {
            Some(journal) => journal.append(&line),
            None => Ok(()),
        }
    }

    /// Everything that the version's bytes follow from.
    fn identity_of_all(&self, identity: &str) -> String {
        let program = env!("CARGO_PKG_VERSION");
        let base = self.base.as_ref().map(|base| base.as_base());
        let source_date = super::source_date();
        format!(
            "program {program}\nversion {}\nname {:?}\nschema {:?}\nbase {base:?}\nduplicates {:?}\nnode {:?}\nfolded {:?}\n\
             shards {}\nsource date {source_date:?}\nsource {:?}\n{identity}",
            self.version,
            self.name,
            self.schema,
            self.duplicates,
            self.node,
            self.folded,
            self.shards.len(),
            self.source
        )
    }

    /// Goes on in the folder of another writer.
    fn take_over(&mut self, path: PathBuf, journal: Journal, left: Left) -> Result<(), Error> {
        self.unfinished.take_over(path)?;
        self.journal = Some(journal);
        self.created_unix_s = left.begun.created_unix_s;
        self.renew();
        let dir = self.unfinished.path.clone();
        let mut names: BTreeSet<OsString> = [journal::FILE.into()].into();
        for whole in left.shards {
            let Some(shard) = self.shards.get_mut(whole.number as usize) else {
                continue;
            };
            let name = shard_file(whole.number);
            if is_whole(&dir.join(&name), &whole.entry.checksum) {
                names.insert(name.into());
                shard.take_whole(Finished {
                    entry: whole.entry,
                    added: whole.added,
                    removed: whole.removed,
                });
            }
        }
        if let Some(read) = left.read {
            match self.take_rows(&read, &mut names)? {
                true => (self.position, self.rows, self.kept_bytes) = (read.position, read.rows, None),
                false => self.renew(),
            }
        }
        let shards = self.shards.iter().filter(|shard| shard.is_whole()).count() as u32;
        let rows = self.rows;
        self.resumed = Some(Resumed { rows, shards }).filter(|_| rows > 0 || shards > 0);
        remove_others(&dir, &names)
    }

    /// Takes over the rows of the shards that are not whole; whether all of them are what was written.
    fn take_rows(&mut self, read: &ReadUpTo, names: &mut BTreeSet<OsString>) -> Result<bool, Error> {
        if read.shards.len() != self.shards.len() {
            return Ok(false);
        }
        let shape = self.shape();
        let slot = match &self.schema.keys {
            Keys::Text { slot } => slot.as_str(),
            Keys::U64 => "",
        };
        let mut taken = BTreeSet::new();
        for (shard, read) in self.shards.iter_mut().zip(&read.shards) {
            if shard.is_whole() {
                continue;
            }
            match shard.take_rows(read, slot, shape)? {
                Some(files) => taken.extend(files),
                None => return Ok(false),
            }
        }
        names.extend(taken);
        Ok(true)
    }

    /// Has shards without a row, but for those that are whole.
    fn renew(&mut self) {
        let buffer_bytes = super::BUFFERS_BYTES / self.shards.len().max(1);
        let dir = &self.unfinished.path;
        for (number, shard) in (0..).zip(&mut self.shards) {
            if !shard.is_whole() {
                *shard = ShardWriter::new(dir, number, buffer_bytes);
            }
        }
    }

    /// Whether a later writer can go on where this one ends.
    fn is_resumable(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::has_begun)
    }

    /// Says in the journal that a shard is whole.
    pub(super) fn note_shard(
        journal: Option<&mut Journal>,
        number: u32,
        shard: &Finished,
    ) -> Result<(), Error> {
        let line = || {
            Line::Shard(WholeShard {
                number,
                entry: shard.entry.clone(),
                added: shard.added,
                removed: shard.removed,
            })
        };
        journal.map_or(Ok(()), |journal| journal.append(&line()))
    }

    /// The error of a write, after which the version cannot be finished. What a later writer can go on with stays.
    pub(super) fn broken(&mut self, error: Error) -> Error {
        self.failed = true;
        match error {
            error @ Error::Io { .. } if self.is_resumable() => {
                self.unfinished.keep();
                Error::Left {
                    path: self.unfinished.path.clone(),
                    source: Box::new(error),
                }
            }
            error => error,
        }
    }
}

/// Whether the file of a shard is the one that was written.
fn is_whole(path: &Path, checksum: &str) -> bool {
    let shard = Shard::open(path);
    shard.is_ok_and(|shard| format!("{:016x}", shard.header_checksum) == checksum && shard.verify().is_ok())
}

/// Removes what is in the folder but for these names.
fn remove_others(dir: &Path, names: &BTreeSet<OsString>) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let entry = entry.map_err(Error::io("list", dir))?;
        if !names.contains(&entry.file_name()) {
            let path = entry.path();
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
