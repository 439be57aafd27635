//! The records of a log while it is written, for whoever passes them on.
//!
//! It reads the files behind the writer, and never beyond the record that it is told was written: what lies there may be a group that
//! is cut off again. Invariant: what it gives are sound records, each following from the one before.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::history::History;
use crate::record::{self, Fault, Format, RECORD_PREFIX_BYTES, Record, SegmentHeader};
use crate::recover::{segment_path, segments};
use crate::segment::Segment;

/// What is read at once, at least.
const CHUNK_BYTES: usize = 256 << 10;

/// A place between two records of a log.
pub struct Tail {
    format: &'static Format,
    dir: PathBuf,
    path: PathBuf,
    file: File,
    header: SegmentHeader,
    /// Where the next record begins, if it is in this segment.
    offset: u64,
    /// Its sequence.
    next: u64,
    /// Of the record before, if the log has it.
    before: Option<Mark>,
    /// Bytes from `chunk_at` on, which is not behind `offset`.
    chunk: Vec<u8>,
    chunk_at: u64,
}

/// By what a record is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The epoch that its segment says; 0 where it says none.
    pub epoch: u64,
    /// [`Record::content_crc32c`].
    pub crc32c: u32,
}

/// Records that follow each other, all of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// What the segment's header says, where it says one.
    pub history: Option<History>,
    /// The sequence of the first.
    pub first: u64,
    /// How many; the record of a piece counts with its last one.
    pub records: u64,
    /// As they lie in the log; or a piece of the first.
    pub bytes: Vec<u8>,
    /// Of a piece: bytes of its record before it.
    pub skipped: u64,
    /// Of a piece: bytes of its record behind it.
    pub rest: u64,
}

impl Tail {
    /// Behind the record of this sequence, which was written; 0 is the log's beginning. `None`: the log does not have what follows it any
    /// more.
    ///
    /// # Errors
    /// The folder or a segment cannot be read, or is damaged.
    pub fn behind(format: &'static Format, dir: &Path, sequence: u64) -> Result<Option<Tail>, Error> {
        let mut firsts = segments(format, dir)?;
        firsts.retain(|first| *first <= sequence.saturating_add(1));
        let holds = firsts.iter().rev().find(|first| **first <= sequence);
        let Some(first) = holds.or(firsts.last()) else {
            return Ok(None);
        };
        let Some(mut tail) = Tail::open(format, dir, *first)? else {
            return Ok(None);
        };
        while tail.next <= sequence {
            let Some(next) = tail.look()? else {
                return Ok(None);
            };
            tail.pass(next);
        }
        Ok(Some(tail))
    }

    /// At the beginning of a segment, if it is there.
    fn open(format: &'static Format, dir: &Path, first: u64) -> Result<Option<Tail>, Error> {
        let path = segment_path(dir, first);
        let mut segment = match Segment::open(format, path.clone()) {
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let header = segment.header()?;
        let file = File::open(&path);
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|source| read_error(&path, source))?,
        };
        Ok(Some(Tail {
            format,
            dir: dir.to_owned(),
            path,
            file,
            header,
            offset: segment.offset,
            next: first,
            before: None,
            chunk: Vec::new(),
            chunk_at: 0,
        }))
    }

    /// The sequence of the record that comes next.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The record before that, if the log has it.
    pub fn before(&self) -> Option<Mark> {
        self.before
    }

    /// What the segment of the next record says, as far as that is known.
    pub fn history(&self) -> Option<History> {
        self.header.history
    }

    /// The same where the next record begins a segment that is there already.
    ///
    /// # Errors
    /// Its segment cannot be read, or is damaged.
    pub fn history_behind(&self) -> Result<Option<History>, Error> {
        let next = Tail::open(self.format, &self.dir, self.next)?;
        Ok(next.map_or(self.header, |next| next.header).history)
    }

    /// Takes records up to `last`, which was written, and no more bytes than `bytes_max`, 1 at least. Where the next record has more, or
    /// `skip` bytes of it are there already, a piece of it is taken, and the place stays before the record until its last piece. `None`: the
    /// log does not have the next one any more.
    ///
    /// # Errors
    /// A segment cannot be read, or is damaged.
    pub fn take(&mut self, last: u64, skip: u64, bytes_max: usize) -> Result<Option<Taken>, Error> {
        let bytes_max = bytes_max.max(1);
        // What was read before may have been cut off since.
        self.chunk.clear();
        let is_at_begin = self.offset == self.header.bytes(self.format) as u64;
        if self.next <= last && (is_at_begin || self.look()?.is_none()) {
            // It begins a segment, whose header may have been written once more meanwhile.
            let before = self.before;
            match Tail::open(self.format, &self.dir, self.next)? {
                Some(opened) => *self = opened,
                // Its file is removed, and still open here.
                None if is_at_begin => {}
                None => return Ok(None),
            }
            self.before = before;
        }
        let mut taken = Taken {
            history: self.header.history,
            first: self.next,
            records: 0,
            bytes: Vec::new(),
            skipped: 0,
            rest: 0,
        };
        while self.next <= last {
            let Some(next) = self.look()? else { break };
            let (length, _) = next;
            if taken.records == 0 && (skip > 0 || length > bytes_max) {
                self.take_piece(next, skip, bytes_max, &mut taken);
                break;
            }
            if taken.records > 0 && taken.bytes.len() + length > bytes_max {
                break;
            }
            taken.bytes.extend_from_slice(self.bytes(length));
            taken.records += 1;
            self.pass(next);
        }
        Ok(Some(taken))
    }

    /// Takes of the record that was read what is behind `skip` bytes; all of it where it is no longer than that.
    fn take_piece(&mut self, next: (usize, Mark), skip: u64, bytes_max: usize, taken: &mut Taken) {
        let (length, _) = next;
        let skip = usize::try_from(skip).ok().filter(|skip| *skip < length);
        let from = skip.unwrap_or_default();
        let piece = self.bytes(length).get(from..).unwrap_or_default();
        let piece = piece.get(..bytes_max).unwrap_or(piece);
        taken.bytes.extend_from_slice(piece);
        taken.skipped = from as u64;
        taken.rest = (length - from - taken.bytes.len()) as u64;
        if taken.rest == 0 {
            taken.records = 1;
            self.pass(next);
        }
    }

    /// Reads the next record, if it is in this segment: its length, and by what it is known.
    fn look(&mut self) -> Result<Option<(usize, Mark)>, Error> {
        let prefix = self.fill(RECORD_PREFIX_BYTES)?;
        let Some(prefix) = prefix.first_chunk::<RECORD_PREFIX_BYTES>().copied() else {
            return Ok(None);
        };
        if prefix == [0; RECORD_PREFIX_BYTES] {
            // Room that was reserved.
            return Ok(None);
        }
        let damaged = |tail: &Tail, fault: Fault| Err(fault.at(tail.path.clone(), tail.offset));
        let available = record::length_in(&prefix);
        let length = match record::record_length(self.format, &prefix, self.header.marker, available) {
            Ok(length) => length,
            Err(fault) => return damaged(self, fault),
        };
        let bytes = self.fill(length)?;
        if bytes.len() < length {
            let found = format!("length {length}, but {} bytes are left", bytes.len());
            return damaged(self, Fault::Unreadable(found));
        }
        match record::decode_record(self.format, self.bytes(length)) {
            Ok(record) if record.sequence == self.next => {
                let mark = Mark {
                    epoch: self.header.history.map_or(0, |history| history.epoch),
                    crc32c: record.content_crc32c(),
                };
                Ok(Some((length, mark)))
            }
            Ok(record) => {
                let found = format!("sequence {}, expected {}", record.sequence, self.next);
                damaged(self, Fault::Malformed(found))
            }
            Err(fault) => damaged(self, fault),
        }
    }

    /// Goes on behind the record that was read.
    fn pass(&mut self, (length, mark): (usize, Mark)) {
        self.before = Some(mark);
        self.offset += length as u64;
        self.next += 1;
    }

    /// What was read of the next record.
    fn bytes(&self, length: usize) -> &[u8] {
        let from = usize::try_from(self.offset.saturating_sub(self.chunk_at)).unwrap_or(usize::MAX);
        let rest = self.chunk.get(from..).unwrap_or_default();
        rest.get(..length).unwrap_or(rest)
    }

    /// The next bytes, as many as there are of those wanted.
    fn fill(&mut self, wanted: usize) -> Result<&[u8], Error> {
        if self.bytes(wanted).len() < wanted {
            self.chunk_at = self.offset;
            self.chunk.resize(wanted.max(CHUNK_BYTES), 0);
            let mut come = 0;
            while let Some(space) = self.chunk.get_mut(come..).filter(|space| !space.is_empty()) {
                match self.file.read_at(space, self.offset + come as u64) {
                    Ok(0) => break,
                    Ok(more) => come += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(source) => return Err(read_error(&self.path, source)),
                }
            }
            self.chunk.truncate(come);
        }
        Ok(self.bytes(wanted))
    }
}

fn read_error(file: &Path, source: io::Error) -> Error {
    Error::Read {
        file: file.to_owned(),
        action: "read the segment",
        source,
    }
}

/// The records that bytes of a log are, one behind the other and nothing else; why they are none.
pub fn records_in<'b>(
    format: &'static Format,
    bytes: &'b [u8],
) -> impl Iterator<Item = Result<Record<'b>, String>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = first_record(format, rest);
        rest = match &record {
            Ok(record) => rest.get(record.length..).unwrap_or_default(),
            Err(_) => &[],
        };
        Some(record)
    })
}

fn first_record<'b>(format: &'static Format, bytes: &'b [u8]) -> Result<Record<'b>, String> {
    let why = |fault| match fault {
        Fault::Unreadable(found) | Fault::Malformed(found) => found,
        Fault::Unsupported(kind) => format!("record kind {kind}, which this build does not know"),
    };
    let Some(prefix) = bytes.first_chunk::<RECORD_PREFIX_BYTES>() else {
        return Err(format!("{} bytes, too few for a record", bytes.len()));
    };
    let marker = record::marker_in(prefix);
    let length = record::record_length(format, prefix, marker, bytes.len() as u64).map_err(why)?;
    record::decode_record(format, bytes.get(..length).unwrap_or_default()).map_err(why)
}
