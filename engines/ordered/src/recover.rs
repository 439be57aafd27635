//! Reads a store back into memory: the newest sound checkpoint, and the log behind it.
//!
//! Changes nothing on disk, and does not judge segments: that is the log's (`millpond-wal`). Invariant: what it returns is the
//! effect of all records up to one point of the log, each of them sound and following from the one before.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use millpond_wal::{Begin, BrokenRun, Record, Recovered, TornTail, segment_path, segments};

use crate::Error;
use crate::checkpoint::bytes::{Foot, Head};
use crate::checkpoint::path;
use crate::checkpoint::read::{Bad, Opened};
use crate::index::Index;
use crate::record::{FORMAT, Logged};
use crate::replay;

/// How often a long recovery says how far it is.
const SAID_EVERY: Duration = Duration::from_secs(2);
/// Entries of the log between two looks at the time.
const LOOKED_EVERY: u64 = 1024;

/// What opening a store found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The checkpoint that stood in place of the log's beginning, if there was one.
    pub checkpoint: Option<FoundCheckpoint>,
    /// Checkpoints that are damaged, and what is wrong with each: an older one, or the whole log, was there in their place.
    pub damaged: Vec<String>,
    /// Segment files read.
    pub segments: usize,
    /// Sound records, one for each write that changed something.
    pub records: u64,
    /// Entries in those records.
    pub entries: u64,
    /// Keys they left.
    pub keys: usize,
    /// The unfinished end that was cut off, if there was one.
    pub torn_tail: Option<TornTail>,
}

/// A checkpoint that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCheckpoint {
    /// Its file.
    pub file: PathBuf,
    /// Records of the log from this one on were read.
    pub sequence: u64,
    /// The last record that may show in it.
    pub last_sequence: u64,
    /// Its entries.
    pub entries: u64,
    /// Bytes of its file.
    pub bytes: u64,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recovered {} keys from ", self.keys)?;
        if let Some(checkpoint) = &self.checkpoint {
            write!(f, "a checkpoint ({} entries) and ", checkpoint.entries)?;
        }
        write!(
            f,
            "{} records ({} entries) in {} segments",
            self.records, self.entries, self.segments
        )?;
        for damaged in &self.damaged {
            write!(f, "; passed over {damaged}")?;
        }
        match &self.torn_tail {
            None => Ok(()),
            Some(torn) => write!(f, "; {torn}"),
        }
    }
}

/// How far a long recovery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is read: "checkpoint" or "log".
    pub what: &'static str,
    /// Bytes of it that were read.
    pub bytes: u64,
    /// Bytes of all of it.
    pub of_bytes: u64,
    /// Since it was begun.
    pub took: Duration,
}

impl Progress {
    /// Bytes a second so far.
    pub fn bytes_a_second(&self) -> u64 {
        (self.bytes as f64 / self.took.as_secs_f64().max(1e-9)) as u64
    }

    /// How long the rest takes if it goes on so.
    pub fn left(&self) -> Duration {
        let left = self.of_bytes.saturating_sub(self.bytes);
        Duration::from_secs(left.checked_div(self.bytes_a_second()).unwrap_or_default())
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        write!(
            f,
            "reading the {}: {} of {} MiB, {} MiB/s, {} s left",
            self.what,
            self.bytes / MIB,
            self.of_bytes.div_ceil(MIB),
            self.bytes_a_second() / MIB,
            self.left().as_secs()
        )
    }
}

/// Whom a long recovery tells how far it is.
pub type Report<'r> = &'r mut dyn FnMut(&Progress);

/// Tells that now and then.
pub(crate) struct Reporter<'r> {
    report: Report<'r>,
    what: &'static str,
    began: Instant,
    said: Instant,
}

impl<'r> Reporter<'r> {
    pub fn new(what: &'static str, report: Report<'r>) -> Reporter<'r> {
        let now = Instant::now();
        Reporter {
            report,
            what,
            began: now,
            said: now,
        }
    }

    pub fn tell(&mut self, bytes: u64, of_bytes: u64) {
        let now = Instant::now();
        if now.duration_since(self.said) < SAID_EVERY {
            return;
        }
        self.said = now;
        (self.report)(&Progress {
            what: self.what,
            bytes,
            of_bytes,
            took: now.duration_since(self.began),
        });
    }
}

/// What was read, and what is needed to go on.
pub(crate) struct Read {
    pub recovered: Recovered,
    pub index: Index,
    pub recovery: Recovery,
    /// The first sequence of the log that is needed.
    pub begin: u64,
    /// The store's time when the checkpoint was finished; 0 where there is none.
    pub checkpoint_ms: u64,
}

/// A checkpoint that will do, by whoever takes its entries.
pub(crate) struct Base {
    pub head: Head,
    pub foot: Foot,
    pub found: FoundCheckpoint,
}

/// The newest checkpoint that is sound and has its segments, with what was found wrong before it.
pub(crate) struct Chosen<T> {
    pub base: Option<(Base, T)>,
    pub damaged: Vec<String>,
}

/// Chooses a checkpoint; `read` makes something of each that may do.
pub(crate) fn choose<T>(
    dir: &Path,
    finished: &[u64],
    mut read: impl FnMut(Opened) -> Result<T, Bad>,
) -> Result<Chosen<T>, Error> {
    let segments = segments(&FORMAT, dir)?;
    let (mut damaged, mut first_damaged) = (Vec::new(), None);
    for sequence in finished {
        let file = path(dir, *sequence);
        // The segments of one before that is damaged may be gone.
        if !segments.contains(sequence) && !damaged.is_empty() {
            continue;
        }
        let opened = Opened::open(dir, *sequence).and_then(|opened| {
            let base = Base::of(&opened);
            Ok((base, read(opened)?))
        });
        match opened {
            Ok(base) => {
                let base = Some(base);
                return Ok(Chosen { base, damaged });
            }
            Err(bad) => {
                if let Some(error) = bad.unsupported(&file) {
                    return Err(error);
                }
                first_damaged.get_or_insert((file.clone(), bad.to_string()));
                damaged.push(format!("{}: {bad}", file.display()));
            }
        }
    }
    match first_damaged {
        Some((file, found)) if segments.first() != Some(&1) => Err(Error::Checkpoint {
            file,
            found,
            fix: "the log before it is gone: restore the file from a copy, or the store from a backup (millpond ordered restore)",
        }),
        _ => Ok(Chosen { base: None, damaged }),
    }
}

impl Base {
    pub fn of(opened: &Opened) -> Base {
        let (head, foot) = (opened.head, opened.foot);
        Base {
            head,
            foot,
            found: FoundCheckpoint {
                file: opened.path.clone(),
                sequence: head.sequence,
                last_sequence: foot.last_sequence,
                entries: foot.entries,
                bytes: foot.length,
            },
        }
    }

    pub fn begin(&self) -> Begin {
        Begin {
            sequence: self.head.sequence,
            number: self.head.first_version,
        }
    }

    /// Whether the log that was read is the one that the checkpoint needs.
    pub fn check(&self, recovered: &mut Recovered) -> Result<(), Error> {
        let wrong = |found, fix| {
            let file = self.found.file.clone();
            Err(Error::Checkpoint { file, found, fix })
        };
        let (needed, last) = (self.foot.last_sequence, recovered.next_sequence - 1);
        let ours = self.head.history;
        let history = *recovered.history.get_or_insert(ours);
        if history.id != ours.id || history.epoch < ours.epoch {
            let found = format!("it is of history {ours}, the log behind it of {history}");
            return wrong(
                found,
                "put back the files of one store, or restore it from a backup",
            );
        }
        if last < needed {
            let found = format!("it needs the log up to record {needed}, but the log ends at record {last}");
            return wrong(
                found,
                "the log's end is missing: restore the last segments from a copy, or the store from a backup (millpond ordered restore)",
            );
        }
        Ok(())
    }
}

/// Reads the log, from its beginning or behind a checkpoint.
pub(crate) fn read_log(
    dir: &Path,
    base: Option<&Base>,
    report: Report<'_>,
    mut take: impl FnMut(&Logged<'_>, &Record<'_>) -> Result<(), BrokenRun>,
) -> Result<Recovered, Error> {
    let begin = base.map(Base::begin);
    let of_bytes = log_bytes(dir, begin.map_or(0, |begin| begin.sequence))?;
    let mut reporter = Reporter::new("log", report);
    let (mut bytes, mut entries, mut looked) = (0, 0, 0);
    let mut apply = |record: &Record<'_>, next_version| {
        let write = Logged::of(record);
        BrokenRun::check("version", next_version, write.first_version)?;
        take(&write, record)?;
        bytes += record.length as u64;
        entries += u64::from(write.entry_count);
        if entries - looked >= LOOKED_EVERY {
            looked = entries;
            reporter.tell(bytes, of_bytes);
        }
        Ok(next_version + u64::from(write.entry_count))
    };
    let mut recovered = match begin {
        Some(begin) => millpond_wal::read_from(&FORMAT, dir, begin, &mut apply),
        None => millpond_wal::read(&FORMAT, dir, &mut apply),
    }
    .map_err(|error| missing(error, dir, base))?;
    if let Some(base) = base {
        base.check(&mut recovered)?;
    }
    Ok(recovered)
}

/// Says which files are not there, where the log has no beginning: to it that is a gap before a file.
fn missing(error: Error, dir: &Path, base: Option<&Base>) -> Error {
    let Error::Gap {
        file,
        offset: 0,
        expected,
        found,
        ..
    } = &error
    else {
        return error;
    };
    let begins_late =
        || found > expected && segments(&FORMAT, dir).is_ok_and(|all| all.first() == Some(found));
    let (file, found) = match base {
        Some(base) if *found == 0 => {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let found =
                format!("it needs the log from record {expected} on, and the segment {name} is missing");
            (base.found.file.clone(), found)
        }
        None if begins_late() => {
            let found = format!(
                "the log begins with record {found}, and the checkpoint that stands for the records before it, or their segments, are missing"
            );
            (file.clone(), found)
        }
        _ => return error,
    };
    Error::Checkpoint {
        file,
        found,
        fix: "restore the missing files from a copy, or the store from a backup (millpond ordered restore)",
    }
}

/// Bytes of the segments from one on.
pub(crate) fn log_bytes(dir: &Path, sequence: u64) -> Result<u64, Error> {
    let needed = segments(&FORMAT, dir)?
        .into_iter()
        .filter(|first| *first >= sequence);
    let bytes = |first| std::fs::metadata(segment_path(dir, first)).map_or(0, |file| file.len());
    Ok(needed.map(bytes).sum())
}

/// Reads a folder into memory.
pub(crate) fn read(dir: &Path, finished: &[u64], report: Report<'_>) -> Result<Read, Error> {
    let Chosen { base, damaged } = choose(dir, finished, |opened| {
        let index = Index::default();
        let mut reporter = Reporter::new("checkpoint", report);
        opened.read(|content| index.load(content), &mut reporter)?;
        Ok(index)
    })?;
    let (base, index) = base.map_or((None, Index::default()), |(base, index)| (Some(base), index));
    let (mut entries, mut last_ms) = (0, base.as_ref().map_or(0, |base| base.foot.time_ms));
    let covered = base.as_ref().map_or(0, |base| base.foot.last_sequence);
    let recovered = replay::by_several(dir, &index, |several| {
        read_log(dir, base.as_ref(), report, |write, record| {
            entries += u64::from(write.entry_count);
            last_ms = write.time_ms.max(last_ms);
            several.take(record, record.sequence <= covered)
        })
    })?;
    let recovery = Recovery {
        checkpoint: base.as_ref().map(|base| base.found.clone()),
        damaged,
        segments: recovered.segments,
        records: recovered.records,
        entries,
        keys: index.len(),
        torn_tail: recovered.torn_tail.clone(),
    };
    Ok(Read {
        recovered,
        index: index.from(last_ms),
        recovery,
        begin: base.as_ref().map_or(1, |base| base.head.sequence),
        checkpoint_ms: base.as_ref().map_or(0, |base| base.foot.time_ms),
    })
}
