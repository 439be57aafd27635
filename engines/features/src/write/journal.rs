//! The journal of a version that is being written: what of it is whole, for a build that goes on where another one was killed.
//!
//! Drawn in docs/formats/unfinished-version.md. It reads no row and no shard. Its invariants: every writer has the lock of one from
//! the moment at which its folder has a file, so that a folder whose journal is not locked is a dead writer's; and a line that does not fit its checksum was never written, nor was any behind it.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::manifest::ShardEntry;

/// Its name in the folder of the version.
pub(super) const FILE: &str = "journal";
/// Its name until it is locked.
pub(super) const NEW_FILE: &str = "journal.new";
const FORMAT: u32 = 1;
/// A checksum in hexadecimal, and the space behind it.
const CHECKSUM_BYTES: usize = 17;

/// Where the rows end that were taken from the inputs of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Position {
    /// The number of the input, from 0; behind the last where all were read.
    pub input: u64,
    /// Rows that were taken from it.
    pub row: u64,
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Begun(BuildStart),
    Read(ReadUpTo),
    Shard(WholeShard),
}

/// What is built from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BuildStart {
    format: u32,
    /// Two builds of which this is the same give the same version.
    pub(super) identity: String,
    pub(super) created_unix_s: u64,
}

/// All rows up to a place in the inputs are in files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReadUpTo {
    pub(super) position: Position,
    /// Rows read so far.
    pub(super) rows: u64,
    /// Of each shard, by number.
    pub(super) shards: Vec<ShardRead>,
}

/// The rows of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct ShardRead {
    pub(super) rows: Prefix,
    /// There where its keys are texts.
    pub(super) texts: Option<Prefix>,
}

/// The first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Prefix {
    pub(super) bytes: u64,
    /// Their XXH3-64.
    pub(super) checksum: u64,
}

/// A shard that is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WholeShard {
    pub(super) number: u32,
    pub(super) entry: ShardEntry,
    pub(super) added: u64,
    pub(super) removed: u64,
}

/// What the writer before has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) begun: BuildStart,
    /// The last that was said of the rows.
    pub(super) read: Option<ReadUpTo>,
    pub(super) shards: Vec<WholeShard>,
}

/// The journal of the one writer that has it.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Whether it says what is built from what. One that does not is there for its lock alone.
    has_begun: bool,
}

impl Journal {
    /// Makes an empty one in the folder of a version, for its lock.
    pub(super) fn create(dir: &Path) -> Result<Journal, Error> {
        let (path, beside) = (dir.join(FILE), dir.join(NEW_FILE));
        let opened = File::options()
            .create_new(true)
            .write(true)
            .read(true)
            .open(&beside);
        let journal = Journal {
            file: opened.map_err(Error::io("create", &path))?,
            path,
            has_begun: false,
        };
        // Under its name nobody finds it without its lock.
        journal.file.lock().map_err(Error::io("lock", &journal.path))?;
        fs::rename(&beside, &journal.path).map_err(Error::io("create", &journal.path))?;
        Ok(journal)
    }

    /// Says what is built from what: from here on a later writer can go on.
    pub(super) fn begin(&mut self, identity: &str, created_unix_s: u64) -> Result<(), Error> {
        self.has_begun = true;
        self.append(&Line::Begun(BuildStart {
            format: FORMAT,
            identity: identity.to_owned(),
            created_unix_s,
        }))
    }

    /// Whether a later writer can go on by it.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Takes over the one in a folder, with what it says; none where its writer goes on, or where it is not there.
    pub(super) fn take_over(dir: &Path) -> Result<Option<(Journal, Option<Left>)>, Error> {
        Journal::take_over_file(dir.join(FILE))
    }

    /// Takes over one under the name that it has until it is locked.
    pub(super) fn take_over_new(dir: &Path) -> Result<Option<(Journal, Option<Left>)>, Error> {
        Journal::take_over_file(dir.join(NEW_FILE))
    }

    fn take_over_file(path: PathBuf) -> Result<Option<(Journal, Option<Left>)>, Error> {
        let mut file = match File::options().read(true).write(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::io("open", &path))?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            Ok(()) => {}
        }
        let of = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let there = fs::metadata(&path).ok().map(of);
        if there != file.metadata().ok().map(of) {
            // Its writer has come to its end since it was opened.
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io("read", &path))?;
        let (lines, whole_bytes) = decode(&bytes);
        // What is behind is of a write that never came to its end.
        file.set_len(whole_bytes as u64)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(Error::io("cut", &path))?;
        let left = left(lines);
        let has_begun = left.is_some();
        let journal = Journal {
            path,
            file,
            has_begun,
        };
        Ok(Some((journal, left)))
    }

    /// Adds a line, where it has begun.
    pub(super) fn append(&mut self, line: &Line) -> Result<(), Error> {
        if !self.has_begun {
            return Ok(());
        }
        let text =
            serde_json::to_string(line).map_err(|error| Error::io("write", &self.path)(error.into()))?;
        let text = format!("{:016x} {text}\n", xxh3_64(text.as_bytes()));
        let written = self.file.write_all(text.as_bytes());
        written.map_err(Error::io("write", &self.path))
    }
}

/// The lines that are whole, and how many bytes they take.
fn decode(bytes: &[u8]) -> (Vec<Line>, usize) {
    let (mut lines, mut whole_bytes) = (Vec::new(), 0);
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let Some(decoded) = decode_line(line) else { break };
        lines.push(decoded);
        whole_bytes += line.len();
    }
    (lines, whole_bytes)
}

fn decode_line(line: &[u8]) -> Option<Line> {
    let (checksum, text) = line.strip_suffix(b"\n")?.split_at_checked(CHECKSUM_BYTES)?;
    let expected = format!("{:016x} ", xxh3_64(text));
    (checksum == expected.as_bytes()).then(|| serde_json::from_slice(text).ok())?
}

fn left(lines: Vec<Line>) -> Option<Left> {
    let mut lines = lines.into_iter();
    let Some(Line::Begun(begun)) = lines
        .next()
        .filter(|first| matches!(first, Line::Begun(begun) if begun.format == FORMAT))
    else {
        return None;
    };
    let mut left = Left {
        begun,
        read: None,
        shards: Vec::new(),
    };
    for line in lines {
        match line {
            Line::Begun(_) => return None,
            Line::Read(read) => left.read = Some(read),
            Line::Shard(shard) => {
                left.shards.retain(|other| other.number != shard.number);
                left.shards.push(shard);
            }
        }
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(row: u64) -> ReadUpTo {
        let prefix = Prefix {
            bytes: 96,
            checksum: u64::MAX - row,
        };
        ReadUpTo {
            position: Position { input: 1, row },
            rows: row,
            shards: vec![ShardRead {
                rows: prefix,
                texts: Some(prefix),
            }],
        }
    }

    fn shard(number: u32) -> WholeShard {
        WholeShard {
            number,
            entry: ShardEntry {
                file: "shard-00000.mpf".to_owned(),
                bytes: 128,
                rows: 0,
                checksum: "00".to_owned(),
            },
            added: 1,
            removed: 2,
        }
    }

    /// What a journal says of which `end` bytes are left, with one bit of them flipped.
    fn said(whole: &[u8], end: usize, flipped: Option<usize>) -> (Option<Left>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = whole[..end].to_vec();
        if let Some(bit) = flipped {
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let path = dir.path().join(FILE);
        fs::write(&path, bytes).unwrap();
        let (mut journal, left) = Journal::take_over(dir.path()).unwrap().unwrap();
        let kept = fs::metadata(&path).unwrap().len();
        // It goes on behind what is whole.
        journal.has_begun = true;
        journal.append(&Line::Read(read(9))).unwrap();
        drop(journal);
        let (_, again) = Journal::take_over(dir.path()).unwrap().unwrap();
        if let Some(left) = &left {
            let read = Some(read(9));
            assert_eq!(again, Some(Left { read, ..left.clone() }));
        }
        (left, kept)
    }

    #[test]
    fn what_is_whole_is_read_and_nothing_behind_damage() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path()).unwrap();
        journal.begin("films", 7).unwrap();
        assert!(
            Journal::take_over(dir.path()).unwrap().is_none(),
            "its writer goes on"
        );
        let lines = [
            Line::Read(read(3)),
            Line::Read(read(5)),
            Line::Shard(shard(1)),
            Line::Shard(shard(0)),
        ];
        let mut ends = vec![fs::metadata(dir.path().join(FILE)).unwrap().len() as usize];
        for line in &lines {
            journal.append(line).unwrap();
            ends.push(fs::metadata(dir.path().join(FILE)).unwrap().len() as usize);
        }
        drop(journal);
        let whole = fs::read(dir.path().join(FILE)).unwrap();
        let expected = |lines_whole: usize| {
            let reads = [None, Some(read(3)), Some(read(5)), Some(read(5)), Some(read(5))];
            let shards = [shard(1), shard(0)];
            (lines_whole > 0).then(|| Left {
                begun: BuildStart {
                    format: FORMAT,
                    identity: "films".to_owned(),
                    created_unix_s: 7,
                },
                read: reads[lines_whole - 1].clone(),
                shards: shards[..lines_whole.saturating_sub(3)].to_vec(),
            })
        };
        for end in 0..=whole.len() {
            let lines_whole = ends.iter().filter(|&&line_end| line_end <= end).count();
            let kept = lines_whole.checked_sub(1).map_or(0, |last| ends[last] as u64);
            assert_eq!(
                said(&whole, end, None),
                (expected(lines_whole), kept),
                "cut at {end}"
            );
        }
        for bit in (0..whole.len()).map(|byte| byte * 8 + byte % 8) {
            let lines_whole = ends.iter().filter(|&&line_end| line_end <= bit / 8).count();
            assert_eq!(
                said(&whole, whole.len(), Some(bit)).0,
                expected(lines_whole),
                "bit {bit}"
            );
        }
        assert!(Journal::take_over(&dir.path().join("absent")).unwrap().is_none());
    }
}
