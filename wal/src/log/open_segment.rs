//! The segment that the log writes: how its file begins, goes on after a start, and ends.
//!
//! It appends no group (`log` does), and one that is read is a `segment`. Invariant: it is created whole, or no record goes to it.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::write_all;
use crate::closed::Closed;
use crate::disk::{Disk, LogFile};
use crate::history::History;
use crate::record::{Format, SegmentHeader};
use crate::recover::{Begin, segment_path};

/// The segment that groups are appended to.
pub(crate) struct OpenSegment {
    pub(super) path: PathBuf,
    pub first_sequence: u64,
    pub(crate) file: Arc<dyn LogFile>,
    /// Where the next group goes; every group before it is as durable as configured.
    pub length: u64,
    /// How long its file is: zeros follow. Every segment that is not written any more ends with its last group.
    pub(crate) reserved: u64,
    pub(crate) marker: u32,
    pub(crate) header_bytes: u64,
    /// Whether its header says the log's.
    pub(crate) has_history: bool,
}

/// What a failed creation left behind.
pub(super) enum CreateStep {
    /// Nothing: the file is not there.
    Undone,
    /// Perhaps a file; records must not go to the segment before it any more.
    Unknown,
}

impl OpenSegment {
    pub(crate) fn has_records(&self) -> bool {
        self.length > self.header_bytes
    }

    pub(super) fn closed(&self) -> Closed {
        Closed {
            first_sequence: self.first_sequence,
            bytes: self.length,
        }
    }

    pub(super) fn has_zeros(&self) -> bool {
        self.reserved > self.length
    }

    /// Lets the file end where its last group ends, for good.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        self.file.truncate(self.length)?;
        self.reserved = self.length;
        Ok(())
    }

    /// Makes all of it durable, without the zeros.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.has_zeros() {
            true => self.cut(),
            false => self.file.sync(),
        }
    }

    /// One that was found, sound up to a length.
    pub(super) fn go_on(
        path: &Path,
        file: Arc<dyn LogFile>,
        (header, header_bytes): (&SegmentHeader, u64),
        length: u64,
    ) -> OpenSegment {
        OpenSegment {
            path: path.to_owned(),
            first_sequence: header.first_sequence,
            file,
            length,
            reserved: length,
            marker: header.marker,
            header_bytes,
            has_history: header.history.is_some(),
        }
    }

    pub(super) fn create(
        format: &Format,
        disk: &dyn Disk,
        dir: &Path,
        begin: Begin,
        history: Option<History>,
    ) -> Result<OpenSegment, (CreateStep, io::Error)> {
        let path = segment_path(dir, begin.sequence);
        let header = SegmentHeader {
            first_sequence: begin.sequence,
            number: begin.number,
            marker: random_marker(),
            history,
            version: format.version,
        };
        let file = disk
            .create(&path)
            .map_err(|source| (CreateStep::Undone, source))?;
        if let Err(source) = write_all(&*file, &header.encode(format), 0) {
            let removed = disk.remove(&path).and_then(|()| disk.sync_dir(dir));
            let step = if removed.is_ok() {
                CreateStep::Undone
            } else {
                CreateStep::Unknown
            };
            return Err((step, source));
        }
        file.sync()
            .and_then(|()| disk.sync_dir(dir))
            .map_err(|source| (CreateStep::Unknown, source))?;
        let length = header.bytes(format) as u64;
        Ok(OpenSegment::go_on(&path, file.into(), (&header, length), length))
    }
}

/// Unpredictable to those who choose the bodies, and never zero, as unwritten blocks are.
fn random_marker() -> u32 {
    RandomState::new().hash_one(0u8) as u32 | 1
}
