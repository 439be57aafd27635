//! Reads a log's segments back and judges what it finds.
//!
//! Changes nothing on disk: cutting a torn tail is `log`'s. Invariant: what its keeper is given is
//! all records up to one point of the log, each of them sound and following from the one before.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::closed::Closed;
use crate::error::Error;
use crate::history::{History, words};
use crate::record::{Fault, Format, Record, SegmentHeader};
use crate::segment::Segment;
use crate::settle::Sound;

/// The unfinished end of the last segment: a write that never came to its end and was never acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The segment.
    pub file: PathBuf,
    /// The segment's length after the cut, in bytes.
    pub offset: u64,
    /// Bytes dropped, without zeros at their end.
    pub bytes: u64,
    /// Why the first record dropped could not be read.
    pub found: String,
    /// Readable records of the same unfinished group among the bytes dropped.
    pub records: u64,
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
pub struct Recovered {
    /// That of the record written next.
    pub next_sequence: u64,
    /// The keeper's number as it stands before that record.
    pub next_number: u64,
    /// Segments read.
    pub segments: usize,
    /// Sound records in them.
    pub records: u64,
    /// The unfinished end that is cut off, if there is one.
    pub torn_tail: Option<TornTail>,
    /// What the last header said, where the format has it.
    pub history: Option<History>,
    pub(crate) format: &'static Format,
    /// The segments that were read, ascending.
    pub(crate) read: Vec<Closed>,
    pub(crate) last: LastSegment,
}

impl Recovered {
    /// Of a log that has no segment yet, and begins there.
    pub fn none(format: &'static Format, begin: Begin, history: Option<History>) -> Recovered {
        Recovered {
            next_sequence: begin.sequence,
            next_number: begin.number,
            segments: 0,
            records: 0,
            torn_tail: None,
            history,
            format,
            read: Vec::new(),
            last: LastSegment::None,
        }
    }

    /// Lets a log without a segment begin with these.
    pub fn begin_at(&mut self, sequence: u64, number: u64) {
        if !self.has_begun() {
            (self.next_sequence, self.next_number) = (sequence, number);
        }
    }

    /// Whether there is a segment whose header was written.
    pub fn has_begun(&self) -> bool {
        matches!(self.last, LastSegment::Open { .. }) || self.segments > 1
    }
}

/// What a keeper does with each record, in order: with its number as it stands before the record, it says what comes after it.
pub type Apply<'a> = &'a mut dyn FnMut(&Record<'_>, u64) -> Result<u64, BrokenRun>;

/// Where writing goes on.
pub(crate) enum LastSegment {
    /// There is no segment yet.
    None,
    /// Behind what is sound; the file may be longer, by a torn tail or by zeros that were reserved.
    Open {
        path: PathBuf,
        header: SegmentHeader,
        sound: Sound,
        file_bytes: u64,
    },
    /// The segment was never finished; it is written anew.
    Headless { path: PathBuf },
}

/// The segment that begins with this sequence.
pub fn segment_path(dir: &Path, first_sequence: u64) -> PathBuf {
    dir.join(format!("log-{first_sequence:020}.mpl"))
}

/// Where a log, or the part of one that is read, begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// Of the first record.
    pub sequence: u64,
    /// The keeper's number before it.
    pub number: u64,
}

/// Reads all segments of a folder.
///
/// # Errors
/// The folder cannot be read, or holds what no crash explains; nothing is changed.
pub fn read(format: &'static Format, dir: &Path, apply: Apply<'_>) -> Result<Recovered, Error> {
    let numbers = segments(format, dir)?;
    let first = numbers.first().copied().filter(|_| format.may_begin_late);
    let begin = Begin {
        sequence: first.unwrap_or(1).max(1),
        number: format.first_number,
    };
    read_all(format, dir, (begin, &numbers), apply)
}

/// Reads the segments of a folder from the one that begins there: the keeper has what was before elsewhere.
///
/// # Errors
/// As [`read`]; [`Error::Gap`] where no segment begins there.
pub fn read_from(
    format: &'static Format,
    dir: &Path,
    begin: Begin,
    apply: Apply<'_>,
) -> Result<Recovered, Error> {
    let mut numbers = segments(format, dir)?;
    numbers.retain(|number| *number >= begin.sequence);
    if numbers.is_empty() {
        let none = BrokenRun(Broken::Number {
            what: "sequence",
            expected: begin.sequence,
            found: 0,
        });
        return Err(none.at(&segment_path(dir, begin.sequence), 0));
    }
    read_all(format, dir, (begin, &numbers), apply)
}

fn read_all(
    format: &'static Format,
    dir: &Path,
    (begin, numbers): (Begin, &[u64]),
    apply: Apply<'_>,
) -> Result<Recovered, Error> {
    let mut state = Recovered {
        next_sequence: begin.sequence,
        next_number: begin.number,
        segments: numbers.len(),
        records: 0,
        torn_tail: None,
        history: None,
        format,
        read: Vec::with_capacity(numbers.len()),
        last: LastSegment::None,
    };
    for (i, &number) in numbers.iter().enumerate() {
        let is_last = i + 1 == numbers.len();
        state.read_segment(segment_path(dir, number), number, is_last, apply)?;
    }
    Ok(state)
}

/// Brings all segments that are there to the disk, and their names: for whoever makes something durable of what it read.
///
/// # Errors
/// The folder cannot be listed, or a file not synced.
pub fn sync_segments(format: &Format, dir: &Path) -> Result<(), Error> {
    for number in segments(format, dir)? {
        let file = segment_path(dir, number);
        match std::fs::File::open(&file).and_then(|file| file.sync_all()) {
            // Whoever writes the log has given it back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            synced => synced.map_err(|source| Error::Read {
                file,
                action: "sync the segment",
                source,
            })?,
        }
    }
    let synced = std::fs::File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|source| Error::Folder {
        keeper: format.keeper,
        dir: dir.to_owned(),
        action: "sync the folder",
        source,
    })
}

/// The first sequences of the folder's segments, by their names, ascending.
///
/// # Errors
/// The folder cannot be listed.
pub fn segments(format: &Format, dir: &Path) -> Result<Vec<u64>, Error> {
    let failed = |source| Error::Folder {
        keeper: format.keeper,
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
    fn read_segment(
        &mut self,
        path: PathBuf,
        number: u64,
        is_last: bool,
        apply: Apply<'_>,
    ) -> Result<(), Error> {
        follows(&path, 0, "sequence", self.next_sequence, number)?;
        let mut segment = Segment::open(self.format, path)?;
        let header = match segment.header() {
            Ok(header) => header,
            // Records are written only after the header is on disk: this segment never had one.
            Err(Error::Header { found, .. }) if is_last && segment.is_begun() => {
                self.torn_tail = Some(TornTail {
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
        if self.format.may_begin_late && self.read.is_empty() {
            self.next_number = header.number;
        }
        follows(
            &segment.path,
            16,
            self.format.number,
            self.next_number,
            header.number,
        )?;
        if let Some(before) = self.history.filter(|before| !before.goes_on_as(header.history)) {
            return Err(Error::History {
                file: segment.path,
                expected: words(Some(before)),
                found: words(header.history),
            });
        }
        self.history = header.history;
        self.read_records(&mut segment, header, is_last, apply)?;
        self.read.push(Closed {
            first_sequence: number,
            bytes: segment.offset,
        });
        self.last = LastSegment::Open {
            path: segment.path,
            header,
            file_bytes: segment.length,
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
        apply: Apply<'_>,
    ) -> Result<(), Error> {
        while segment.offset < segment.length {
            let offset = segment.offset;
            match segment.next(header.marker)? {
                Ok(record) => {
                    self.apply(&record, apply)
                        .map_err(|gap| gap.at(&segment.path, offset))?;
                    segment.pass();
                }
                Err(Fault::Unreadable(found)) if is_last => {
                    let written = segment.written_behind()?;
                    if written == 0 {
                        return Ok(());
                    }
                    let behind = segment.search_behind(header.marker, self.next_sequence)?;
                    if let Some(later) = behind.later_group_at {
                        if segment.is_sound_now(header.marker)? {
                            // Somebody writes the log, and has written over zeros that were read before.
                            return Ok(());
                        }
                        let found = format!("{found}, yet a sound record follows at offset {later}");
                        return Err(Error::Damaged {
                            file: segment.path.clone(),
                            offset,
                            found,
                        });
                    }
                    self.torn_tail = Some(TornTail {
                        file: segment.path.clone(),
                        offset,
                        bytes: written,
                        found,
                        records: behind.same_group,
                    });
                    return Ok(());
                }
                Err(fault) => return Err(fault.at(segment.path.clone(), offset)),
            }
        }
        Ok(())
    }

    fn apply(&mut self, record: &Record<'_>, apply: Apply<'_>) -> Result<(), BrokenRun> {
        BrokenRun::check("sequence", self.next_sequence, record.sequence)?;
        self.next_number = apply(record, self.next_number)?;
        self.next_sequence += 1;
        self.records += 1;
        Ok(())
    }
}

/// A record that does not follow from those before.
#[derive(Debug)]
pub struct BrokenRun(Broken);

#[derive(Debug)]
enum Broken {
    /// A number that is not the next.
    Number {
        what: &'static str,
        expected: u64,
        found: u64,
    },
    Other(String),
}

impl BrokenRun {
    /// Compares the number that had to come with the one that came.
    ///
    /// # Errors
    /// They differ.
    pub fn check(what: &'static str, expected: u64, found: u64) -> Result<(), BrokenRun> {
        if expected == found {
            Ok(())
        } else {
            Err(BrokenRun(Broken::Number {
                what,
                expected,
                found,
            }))
        }
    }

    /// For another reason than a number: what was found.
    pub fn because(found: String) -> BrokenRun {
        BrokenRun(Broken::Other(found))
    }

    fn at(self, file: &Path, offset: u64) -> Error {
        let file = file.to_owned();
        match self.0 {
            Broken::Number {
                what,
                expected,
                found,
            } => Error::Gap {
                file,
                offset,
                what,
                expected,
                found,
            },
            Broken::Other(found) => Error::Damaged { file, offset, found },
        }
    }
}

impl fmt::Display for BrokenRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Broken::Number {
                what,
                expected,
                found,
            } => write!(f, "expected {what} {expected}, found {found}"),
            Broken::Other(found) => f.write_str(found),
        }
    }
}

fn follows(file: &Path, offset: u64, what: &'static str, expected: u64, found: u64) -> Result<(), Error> {
    BrokenRun::check(what, expected, found).map_err(|gap| gap.at(file, offset))
}
