//! The journal of a version that is being written: what of it is whole, for a build that goes on where another one was killed.
//!
//! Drawn in docs/formats/unfinished-version.md. It reads no row and no shard. Its invariants: every writer has the lock of one from
//! the moment at which its folder has a file, so that a folder whose journal is not locked is a dead writer's; and a line that does not fit its checksum was never written, nor was any behind it.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

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
/// More than a first line has, which names all inputs.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// How often one that is locked is looked at again, and after how long: who only looks whether it is needed holds it no longer.
const TRIES_MAX: usize = 10;
const AGAIN: Duration = Duration::from_millis(10);

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
    /// The file system may have no locks: then nobody can go on with it, and nobody removes it.
    is_locked: bool,
}

impl Journal {
    /// Makes an empty one in the folder of a version, for its lock. Without its lock where the file system has none.
    pub(super) fn create(dir: &Path) -> Result<Journal, Error> {
        Journal::create_by(dir, File::lock)
    }

    fn create_by(dir: &Path, lock: impl Fn(&File) -> io::Result<()>) -> Result<Journal, Error> {
        let (path, beside) = (dir.join(FILE), dir.join(NEW_FILE));
        let opened = File::options()
            .create_new(true)
            .write(true)
            .read(true)
            .open(&beside);
        let file = opened.map_err(Error::io("create", &path))?;
        // Under its name nobody finds it without its lock.
        let is_locked = match lock(&file) {
            Ok(()) => true,
            Err(error) if has_no_locks(&error) => false,
            Err(error) => return Err(Error::io("lock", &path)(error)),
        };
        let journal = Journal {
            path,
            file,
            has_begun: false,
            is_locked,
        };
        fs::rename(&beside, &journal.path).map_err(Error::io("create", &journal.path))?;
        Ok(journal)
    }

    /// Says what is built from what: from here on a later writer can go on.
    ///
    /// Without a lock two builds could go on in the same folder.
    pub(super) fn begin(&mut self, identity: &str, created_unix_s: u64) -> Result<(), Error> {
        if !self.is_locked {
            let cause = io::Error::from(ErrorKind::Unsupported);
            return Err(Error::io("lock", &self.path)(cause));
        }
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

    /// The same, where somebody may be about to let it go: who removes folders looks at it under its lock.
    pub(super) fn take_over_soon(dir: &Path) -> Result<Option<(Journal, Option<Left>)>, Error> {
        for _ in 1..TRIES_MAX {
            match Journal::take_over(dir)? {
                None if dir.join(FILE).exists() => thread::sleep(AGAIN),
                taken_over => return Ok(taken_over),
            }
        }
        Journal::take_over(dir)
    }

    /// The lock of the file of one whose writer is dead; none where it goes on, or where it is not there.
    pub(super) fn lock_dead(path: &Path) -> Result<Option<File>, Error> {
        let file = match File::options().read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::io("open", path))?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", path)(error)),
            Ok(()) => {}
        }
        let of = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let there = fs::metadata(path).ok().map(of);
        // Else its writer has come to its end since it was opened.
        Ok((there == file.metadata().ok().map(of)).then_some(file))
    }

    /// Whether the one in a folder says that a later writer can go on by it. It reads the first line alone, and takes no lock.
    pub(super) fn says_more(dir: &Path) -> Result<bool, Error> {
        let path = dir.join(FILE);
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(Error::io("open", &path))?,
        };
        let mut first = Vec::new();
        let read = BufReader::new(file.take(LINE_BYTES_MAX)).read_until(b'\n', &mut first);
        read.map_err(Error::io("read", &path))?;
        Ok(left(decode(&first).0).is_some())
    }

    fn take_over_file(path: PathBuf) -> Result<Option<(Journal, Option<Left>)>, Error> {
        let Some(mut file) = Journal::lock_dead(&path)? else {
            return Ok(None);
        };
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
            is_locked: true,
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

/// Whether the file system, or the server that it is on, knows no locks.
fn has_no_locks(error: &io::Error) -> bool {
    let codes = [libc::ENOSYS, libc::EOPNOTSUPP, libc::ENOLCK];
    error.kind() == ErrorKind::Unsupported || error.raw_os_error().is_some_and(|code| codes.contains(&code))
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

    #[test]
    fn a_writer_whose_file_system_has_no_locks_writes_what_none_goes_on_with() {
        let dir = tempfile::tempdir().unwrap();
        for code in [libc::ENOSYS, libc::EOPNOTSUPP, libc::ENOLCK] {
            let mut journal =
                Journal::create_by(dir.path(), |_| Err(io::Error::from_raw_os_error(code))).unwrap();
            journal.append(&Line::Read(read(3))).unwrap();
            let refused = journal.begin("films", 7).unwrap_err().to_string();
            assert!(refused.starts_with("cannot lock "), "{refused}");
            assert_eq!(fs::metadata(dir.path().join(FILE)).unwrap().len(), 0);
        }
        let other = Journal::create_by(dir.path(), |_| Err(io::Error::from_raw_os_error(libc::EIO)));
        assert!(other.is_err());
    }

    #[test]
    fn one_that_is_let_go_soon_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path()).unwrap();
        assert!(!Journal::says_more(dir.path()).unwrap());
        journal.begin("films", 7).unwrap();
        assert!(Journal::says_more(dir.path()).unwrap(), "locked or not");
        assert!(Journal::take_over_soon(dir.path()).unwrap().is_none());
        let letting_go = thread::spawn(move || {
            thread::sleep(AGAIN);
            drop(journal);
        });
        let taken_over = (0..100).find_map(|_| Journal::take_over_soon(dir.path()).unwrap());
        assert!(taken_over.is_some_and(|(_, left)| left.is_some()));
        letting_go.join().unwrap();
    }
}
