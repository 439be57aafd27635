//! One segment file that is being read, record by record.
//!
//! Finds faults, does not judge them (`recover`), and changes nothing. Invariant: `offset` is where the
//! next record begins, and everything before it was sound.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::error::Error;
use crate::record::{self, Fault, Format, RECORD_PREFIX_BYTES, Record, SegmentHeader};

/// One segment that is being read.
pub(crate) struct Segment {
    format: &'static Format,
    pub path: PathBuf,
    file: BufReader<File>,
    pub length: u64,
    /// As its header says.
    first_sequence: u64,
    /// Up to here everything was sound.
    pub offset: u64,
    /// Of the bytes up to there.
    pub crc32c: u32,
    /// The record read last; kept so that its space is reused.
    buffer: Vec<u8>,
}

/// What lies behind an unreadable record.
#[derive(Default)]
pub(crate) struct Behind {
    /// Sound records of the group that the unreadable one belongs to.
    pub same_group: u64,
    /// Where a sound record begins that only a finished group can have before it.
    pub later_group_at: Option<u64>,
}

impl Segment {
    pub fn open(format: &'static Format, path: PathBuf) -> Result<Segment, Error> {
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((length, file)) => {
                let file = BufReader::with_capacity(1 << 20, file);
                Ok(Segment {
                    format,
                    path,
                    file,
                    length,
                    first_sequence: 0,
                    offset: 0,
                    crc32c: 0,
                    buffer: Vec::new(),
                })
            }
            Err(source) => Err(Error::Read {
                file: path,
                action: "open the segment",
                source,
            }),
        }
    }

    pub fn header(&mut self) -> Result<SegmentHeader, Error> {
        let length = self.length.min(self.format.header_bytes() as u64) as usize;
        self.fill(0, length)?;
        match SegmentHeader::decode(self.format, &self.buffer) {
            Ok(header) => {
                // That of an older version may be shorter.
                let bytes = header.bytes(self.format);
                let behind = length.saturating_sub(bytes);
                let back = self.file.seek_relative(-(behind as i64));
                back.map_err(|source| self.read_error(source))?;
                self.buffer.truncate(bytes);
                self.pass();
                self.first_sequence = header.first_sequence;
                Ok(header)
            }
            Err(Fault::Unsupported(found)) => Err(Error::Unsupported {
                file: self.path.clone(),
                offset: 4,
                what: "format",
                found,
            }),
            Err(Fault::Unreadable(found) | Fault::Malformed(found)) => Err(Error::Header {
                file: self.path.clone(),
                found,
            }),
        }
    }

    /// Whether it can be a segment whose header was being written when the writer ended: no longer than a header, and of
    /// the format's first bytes, as far as they had come, and zeros behind those. Any other file is not ours to replace.
    pub fn is_begun(&self) -> bool {
        let mark = self.buffer.iter().zip(self.format.magic);
        let come = mark.take_while(|(found, wanted)| found == wanted).count();
        let is_blank_behind = self.buffer.iter().skip(come).all(|byte| *byte == 0);
        self.length <= self.format.header_bytes() as u64
            && (come == self.format.magic.len() || is_blank_behind)
    }

    /// The record at `offset`, or why there is none.
    pub fn next(&mut self, marker: u32) -> Result<Result<Record<'_>, Fault>, Error> {
        let available = self.length - self.offset;
        if available < RECORD_PREFIX_BYTES as u64 {
            return Ok(Err(Fault::Unreadable(format!(
                "{available} bytes, too few for a record"
            ))));
        }
        self.fill(0, RECORD_PREFIX_BYTES)?;
        let Some(prefix) = self.buffer.first_chunk() else {
            return Err(self.read_error(io::ErrorKind::UnexpectedEof.into()));
        };
        match record::record_length(self.format, prefix, marker, available) {
            Ok(length) => self.fill(RECORD_PREFIX_BYTES, length)?,
            Err(fault) => return Ok(Err(fault)),
        }
        let record = record::decode_record(self.format, &self.buffer);
        let (segment, offset) = (self.first_sequence, self.offset);
        Ok(record.map(|record| Record {
            segment,
            offset,
            ..record
        }))
    }

    /// Goes on behind the header or record that was read last: it was sound.
    pub fn pass(&mut self) {
        self.offset += self.buffer.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &self.buffer);
    }

    /// Whether there is a record at `offset` by now, read from the file once more.
    pub fn is_sound_now(&mut self, marker: u32) -> Result<bool, Error> {
        let sought = self.file.seek(SeekFrom::Start(self.offset));
        sought.map_err(|source| self.read_error(source))?;
        Ok(self.next(marker)?.is_ok())
    }

    /// Brings the buffer from `from` to `to` bytes, the new ones from the file.
    fn fill(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.buffer.resize(to, 0);
        let target = self.buffer.get_mut(from..).unwrap_or_default();
        self.file
            .read_exact(target)
            .map_err(|source| self.read_error(source))
    }

    /// Bytes behind `offset` without the zeros at the end: these were reserved, and no record begins with one.
    pub fn written_behind(&mut self) -> Result<u64, Error> {
        let mut rest = Vec::new();
        self.read_behind(&mut rest)?;
        let last = rest.iter().rposition(|byte| *byte != 0);
        Ok(last.map_or(0, |last| last as u64 + 1))
    }

    /// All from `offset` on, up to where the file ended when it was opened: a writer may have finished the group that is cut there, and
    /// written later ones.
    fn read_behind(&mut self, rest: &mut Vec<u8>) -> Result<(), Error> {
        let left = self.length.saturating_sub(self.offset);
        let read = self
            .file
            .seek(SeekFrom::Start(self.offset))
            .and_then(|_| (&mut self.file).take(left).read_to_end(rest));
        read.map(drop).map_err(|source| self.read_error(source))
    }

    /// Searches for sound records behind the unreadable one at `offset`, whose sequence was to be `expected`.
    pub fn search_behind(&mut self, marker: u32, expected: u64) -> Result<Behind, Error> {
        let mut rest = Vec::new();
        self.read_behind(&mut rest)?;
        let mut behind = Behind::default();
        let mut at = 1;
        while let Some(candidate) = rest.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(record) = sound_record(self.format, candidate, marker) else {
                at += 1;
                continue;
            };
            let group_first = record.sequence.saturating_sub(record.group_index.into());
            if record.sequence <= expected || group_first > expected {
                behind.later_group_at = Some(self.offset + at as u64);
                return Ok(behind);
            }
            behind.same_group += 1;
            at += record.length;
        }
        Ok(behind)
    }

    fn read_error(&self, source: io::Error) -> Error {
        Error::Read {
            file: self.path.clone(),
            action: "read the segment",
            source,
        }
    }
}

impl Fault {
    /// What it means where no crash explains it.
    pub(crate) fn at(self, file: PathBuf, offset: u64) -> Error {
        match self {
            Fault::Unreadable(found) | Fault::Malformed(found) => Error::Damaged { file, offset, found },
            Fault::Unsupported(found) => Error::Unsupported {
                file,
                offset,
                what: "record kind",
                found,
            },
        }
    }
}

fn sound_record<'a>(format: &Format, bytes: &'a [u8], marker: u32) -> Option<Record<'a>> {
    let prefix = bytes.first_chunk()?;
    let length = record::record_length(format, prefix, marker, bytes.len() as u64).ok()?;
    record::decode_record(format, bytes.get(..length)?).ok()
}
