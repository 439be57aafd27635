//! A store's folder without its store: verifying it, reading it, copying it.
//!
//! Invariants: nothing here changes the folder that it reads; a copy gets its name once it was verified and is on the disk.

mod copy;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use millpond_wal::{TornTail, segment_path, segments};

use crate::Error;
use crate::checkpoint::{Files, path};
use crate::error::folder_error;
use crate::index::is_over;
use crate::list::{self, Kind};
use crate::record::FORMAT;
use crate::recover::{self, Base, Chosen, FoundCheckpoint, Recovery, Report, Reporter, choose, read_log};
use crate::replication::aside::is_installing;

pub use copy::{Copied, backup, restore};

/// What a folder has, all of it sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The checkpoint that a start reads, if there is one.
    pub checkpoint: Option<FoundCheckpoint>,
    /// Segments that a start reads, and bytes of them.
    pub segments: usize,
    /// Bytes of these.
    pub log_bytes: u64,
    /// Records in them.
    pub records: u64,
    /// The last record.
    pub last_sequence: u64,
    /// An unfinished end, which a start cuts off.
    pub torn_tail: Option<TornTail>,
    /// Files that no start reads, and goes without.
    pub superfluous: Vec<PathBuf>,
    /// Checkpoints that are damaged, though a start does without them.
    pub damaged: Vec<String>,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(found) = &self.checkpoint {
            writeln!(
                f,
                "checkpoint: {}, {} entries, {} bytes, sound",
                found.file.display(),
                found.entries,
                found.bytes
            )?;
        }
        write!(
            f,
            "log: {} segments, {} records up to record {}, {} bytes, sound",
            self.segments, self.records, self.last_sequence, self.log_bytes
        )?;
        if let Some(torn) = &self.torn_tail {
            write!(
                f,
                "\nunfinished end: {} at offset {}, {} bytes, never acknowledged; a start cuts it off",
                torn.file.display(),
                torn.offset,
                torn.bytes
            )?;
        }
        for file in &self.superfluous {
            write!(f, "\nnot needed: {}; a start removes it", file.display())?;
        }
        for damaged in &self.damaged {
            write!(
                f,
                "\ndamaged: {damaged}; a start does without it, and the next checkpoint removes it"
            )?;
        }
        Ok(())
    }
}

/// A folder that no store opens while this lives. Nothing is made in it.
struct Kept {
    _lock: Option<File>,
}

impl Kept {
    fn of(dir: &Path) -> Result<Kept, Error> {
        let failed = |source| folder_error(dir, "open the folder", source);
        std::fs::read_dir(dir).map_err(failed)?;
        let lock = match File::open(dir.join("lock")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.map_err(failed)?),
        };
        if let Some(Err(_)) = lock.as_ref().map(File::try_lock_shared) {
            return Err(Error::Locked {
                keeper: FORMAT.keeper,
                dir: dir.to_owned(),
                fix: "stop the server, or make a copy of the store with `millpond ordered backup` and name the copy",
            });
        }
        match is_installing(dir).map_err(failed)? {
            true => Err(failed(io::Error::other(
                "a copy of its leader's was being installed in it; start the server, which goes on with that, and stop it again",
            ))),
            false => Ok(Kept { _lock: lock }),
        }
    }
}

/// Reads all of a folder that a start would, in bounded memory, and the checkpoints that it would not. Nothing is changed. Each file is sound
/// and follows from the one before; that an edit finds what it is made of is seen by [`dump`], which makes the log's changes.
///
/// # Errors
/// A server holds the folder, it cannot be read, or a start would be refused: how.
pub fn verify(dir: &Path, report: Report<'_>) -> Result<Verified, Error> {
    let _kept = Kept::of(dir)?;
    verify_kept(dir, report)
}

/// The same of a folder that nobody else has.
fn verify_kept(dir: &Path, report: Report<'_>) -> Result<Verified, Error> {
    let files = Files::list(dir)?;
    let all = segments(&FORMAT, dir)?;
    if files.finished.is_empty() && all.is_empty() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "there is no segment of a log in it");
        return Err(folder_error(dir, "find a store in the folder", source));
    }
    let Chosen { base, damaged } = choose(dir, &files.finished, |opened| {
        let mut reporter = Reporter::new("checkpoint", report);
        opened.read(|_| (), &mut reporter)
    })?;
    let base: Option<Base> = base.map(|(base, ())| base);
    let begin = base.as_ref().map_or(1, |base| base.head.sequence);
    let recovered = read_log(dir, base.as_ref(), report, |_, _| Ok(()))?;
    let mut superfluous = files.unfinished;
    if base.is_some() {
        let older = files.finished.iter().filter(|sequence| **sequence < begin);
        superfluous.extend(older.map(|sequence| path(dir, *sequence)));
        let covered = all.iter().filter(|first| **first < begin);
        superfluous.extend(covered.map(|first| segment_path(dir, *first)));
    }
    Ok(Verified {
        checkpoint: base.map(|base| base.found),
        segments: recovered.segments,
        log_bytes: recover::log_bytes(dir, begin)?,
        records: recovered.records,
        last_sequence: recovered.next_sequence - 1,
        torn_tail: recovered.torn_tail,
        superfluous,
        damaged,
    })
}

/// An entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'e> {
    /// Its key.
    pub key: &'e [u8],
    /// Its value; of a list as the store has it, see [`Entry::items`].
    pub value: &'e [u8],
    /// What the key holds.
    pub kind: Kind,
    /// The version at which it was written.
    pub version: u64,
    /// When it expires, in milliseconds of Unix time by the store's clock, if it does.
    pub expires_ms: Option<u64>,
}

impl<'e> Entry<'e> {
    /// The items of a list, the oldest first.
    pub fn items(&self) -> Option<Vec<&'e [u8]>> {
        (self.kind == Kind::List).then(|| list::items(self.value).collect())
    }
}

/// Reads a folder into memory as a start does, and visits all entries in order, but those that have expired by the store's clock, until
/// `visit` says that it is enough. Nothing is changed.
///
/// # Errors
/// As [`verify`].
pub fn dump(
    dir: &Path,
    report: Report<'_>,
    visit: &mut dyn FnMut(Entry<'_>) -> bool,
) -> Result<Recovery, Error> {
    let _kept = Kept::of(dir)?;
    let files = Files::list(dir)?;
    if files.finished.is_empty() && segments(&FORMAT, dir)?.is_empty() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "there is no segment of a log in it");
        return Err(folder_error(dir, "find a store in the folder", source));
    }
    let read = recover::read(dir, &files.finished, report)?;
    let now_ms = read.index.clock().now_ms();
    read.index.each(&mut |content| {
        if is_over(now_ms, content.expires_ms) {
            return true;
        }
        visit(Entry {
            key: content.key,
            value: content.value,
            kind: Kind::of(content.is_list),
            version: content.version,
            expires_ms: Some(content.expires_ms).filter(|expires_ms| *expires_ms != 0),
        })
    });
    Ok(read.recovery)
}
