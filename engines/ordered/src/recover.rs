//! Reads a store's segments back into memory and judges what it finds.
//!
//! Changes nothing on disk: cutting a torn tail is `log`'s. Invariant: what it returns is the effect
//! of all records up to one point of the log, each of them sound and following from the one before.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::index::{Index, Versioned};
use crate::record::{Fault, Record, SegmentHeader};
use crate::segment::Segment;
use crate::settle::Sound;

/// What opening a store found in its log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segment files read.
    pub segments: usize,
    /// Sound records, one for each put.
    pub records: u64,
    /// Entries in those records.
    pub entries: u64,
    /// Keys they left.
    pub keys: usize,
    /// The unfinished end that was cut off, if there was one.
    pub torn_tail: Option<TornTail>,
}

/// The unfinished end of the last segment: a write that never came to its end and was never acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The segment.
    pub file: PathBuf,
    /// The segment's length after the cut, in bytes.
    pub offset: u64,
    /// Bytes dropped.
    pub bytes: u64,
    /// Why the first record dropped could not be read.
    pub found: String,
    /// Readable records of the same unfinished group among the bytes dropped.
    pub records: u64,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "recovered {} keys from {} records ({} entries) in {} segments",
            self.keys, self.records, self.entries, self.segments
        )?;
        match &self.torn_tail {
            None => Ok(()),
            Some(torn) => write!(f, "; {torn}"),
        }
    }
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cut a torn tail: {} at offset {}, {} bytes dropped ({})",
            self.file.display(),
            self.offset,
            self.bytes,
            self.found
        )?;
        if self.records > 0 {
            write!(
                f,
                ", among them {} readable records of the same unfinished write",
                self.records
            )?;
        }
        Ok(())
    }
}

/// The state of the log after reading it.
pub(crate) struct Recovered {
    pub index: Index,
    pub next_sequence: u64,
    pub next_version: u64,
    pub last: LastSegment,
    pub recovery: Recovery,
}

/// Where writing goes on.
pub(crate) enum LastSegment {
    /// There is no segment yet.
    None,
    /// Behind what is sound; the file may be longer by a torn tail.
    Open {
        path: PathBuf,
        header: SegmentHeader,
        sound: Sound,
    },
    /// The segment was never finished; it is written anew.
    Headless { path: PathBuf },
}

/// The segment that begins with this sequence.
pub(crate) fn segment_path(dir: &Path, first_sequence: u64) -> PathBuf {
    dir.join(format!("log-{first_sequence:020}.mpl"))
}

/// Reads all segments of a folder.
pub(crate) fn read(dir: &Path) -> Result<Recovered, Error> {
    let numbers = list(dir)?;
    let mut state = Recovered {
        index: Index::default(),
        next_sequence: 1,
        next_version: 1,
        last: LastSegment::None,
        recovery: Recovery::default(),
    };
    for (i, &number) in numbers.iter().enumerate() {
        let is_last = i + 1 == numbers.len();
        state.read_segment(segment_path(dir, number), number, is_last)?;
    }
    state.recovery.segments = numbers.len();
    state.recovery.keys = state.index.len();
    Ok(state)
}

/// The numbers of the folder's segments, ascending.
fn list(dir: &Path) -> Result<Vec<u64>, Error> {
    let failed = |source| Error::Folder {
        dir: dir.to_owned(),
        action: "list the folder",
        source,
    };
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        numbers.extend(name.to_str().and_then(segment_number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".mpl")?;
    let all_digits = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| all_digits)
}

impl Recovered {
    fn read_segment(&mut self, path: PathBuf, number: u64, is_last: bool) -> Result<(), Error> {
        follows(&path, 0, "sequence", self.next_sequence, number)?;
        let mut segment = Segment::open(path)?;
        let header = match segment.header() {
            Ok(header) => header,
            // Records are written only after the header is on disk: this segment never had one.
            Err(Error::Header { found, .. }) if is_last && segment.is_begun() => {
                self.recovery.torn_tail = Some(TornTail {
                    file: segment.path.clone(),
                    offset: 0,
                    bytes: segment.length,
                    found,
                    records: 0,
                });
                self.last = LastSegment::Headless { path: segment.path };
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        follows(&segment.path, 8, "sequence", number, header.first_sequence)?;
        follows(
            &segment.path,
            16,
            "version",
            self.next_version,
            header.first_version,
        )?;
        self.read_records(&mut segment, header, is_last)?;
        self.last = LastSegment::Open {
            path: segment.path,
            header,
            sound: Sound {
                length: segment.offset,
                crc32c: segment.crc32c,
            },
        };
        Ok(())
    }

    /// Reads records up to the end or to the torn tail; `segment.offset` is then where it begins.
    fn read_records(
        &mut self,
        segment: &mut Segment,
        header: SegmentHeader,
        is_last: bool,
    ) -> Result<(), Error> {
        while segment.offset < segment.length {
            let offset = segment.offset;
            match segment.next(header.marker)? {
                Ok(record) => {
                    self.apply(&record).map_err(|gap| gap.at(&segment.path, offset))?;
                    segment.pass();
                }
                Err(Fault::Unreadable(found)) if is_last => {
                    let behind = segment.search_behind(header.marker, self.next_sequence)?;
                    if let Some(later) = behind.later_group_at {
                        let found = format!("{found}, yet a sound record follows at offset {later}");
                        return Err(Error::Damaged {
                            file: segment.path.clone(),
                            offset,
                            found,
                        });
                    }
                    self.recovery.torn_tail = Some(TornTail {
                        file: segment.path.clone(),
                        offset,
                        bytes: segment.length - offset,
                        found,
                        records: behind.same_group,
                    });
                    return Ok(());
                }
                Err(fault) => return Err(segment.error(fault, offset)),
            }
        }
        Ok(())
    }

    fn apply(&mut self, record: &Record<'_>) -> Result<(), BrokenRun> {
        BrokenRun::check("sequence", self.next_sequence, record.sequence)?;
        BrokenRun::check("version", self.next_version, record.first_version)?;
        let versions = record.first_version..;
        let entries = record.entries().zip(versions).map(|((key, value), version)| {
            (
                Arc::from(key),
                Versioned {
                    value: Arc::from(value),
                    version,
                },
            )
        });
        self.index.apply(entries.collect());
        self.next_sequence += 1;
        self.next_version += u64::from(record.entry_count);
        self.recovery.records += 1;
        self.recovery.entries += u64::from(record.entry_count);
        Ok(())
    }
}

/// A number that does not follow from the one before.
struct BrokenRun {
    what: &'static str,
    expected: u64,
    found: u64,
}

impl BrokenRun {
    fn check(what: &'static str, expected: u64, found: u64) -> Result<(), BrokenRun> {
        if expected == found {
            Ok(())
        } else {
            Err(BrokenRun {
                what,
                expected,
                found,
            })
        }
    }

    fn at(self, file: &Path, offset: u64) -> Error {
        let BrokenRun {
            what,
            expected,
            found,
        } = self;
        Error::Gap {
            file: file.to_owned(),
            offset,
            what,
            expected,
            found,
        }
    }
}

fn follows(file: &Path, offset: u64, what: &'static str, expected: u64, found: u64) -> Result<(), Error> {
    BrokenRun::check(what, expected, found).map_err(|gap| gap.at(file, offset))
}
