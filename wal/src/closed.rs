//! The segments behind the one that is written: how large they are, what they hold, and giving them up.
//!
//! Whether one is needed is for its keeper to say. Invariant: the oldest goes first and for good, so that a crash leaves no hole.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Error;
use crate::log::Log;
use crate::record::{Format, Record};
use crate::recover::{LastSegment, Recovered, segment_path};
use crate::segment::Segment;

/// A segment that is written no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// The sequence that it begins with.
    pub first_sequence: u64,
    /// Its length.
    pub bytes: u64,
}

/// The segments before the last one that stays.
pub(crate) fn closed(recovered: &Recovered) -> Vec<Closed> {
    let mut closed = recovered.read.clone();
    if matches!(recovered.last, LastSegment::Open { .. }) {
        closed.pop();
    }
    closed
}

/// The records of a closed segment, one after the other.
pub struct Records {
    segment: Segment,
    marker: u32,
    /// Whether what the segment has read last was a record.
    is_behind: bool,
}

impl Records {
    fn open(format: &'static Format, path: PathBuf) -> Result<Records, Error> {
        let mut segment = Segment::open(format, path)?;
        let marker = segment.header()?.marker;
        Ok(Records {
            segment,
            marker,
            is_behind: false,
        })
    }

    /// The next one; nothing at the segment's end.
    ///
    /// # Errors
    /// As recovery has them of a segment that is not the last: anything unreadable is damage.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        if std::mem::take(&mut self.is_behind) {
            self.segment.pass();
        }
        let (offset, path) = (self.segment.offset, self.segment.path.clone());
        if offset >= self.segment.length {
            return Ok(None);
        }
        self.is_behind = true;
        let found = self.segment.next(self.marker)?;
        found.map(Some).map_err(|fault| fault.at(path, offset))
    }
}

impl Log {
    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.closed.iter().map(|closed| closed.bytes).sum::<u64>() + self.segment.length
    }

    /// The sequence that the segment which is written began with.
    pub fn segment_first(&self) -> u64 {
        self.segment.first_sequence
    }

    /// The oldest segment, if there is one beside that which is written.
    pub fn oldest(&self) -> Option<Closed> {
        self.closed.first().copied()
    }

    /// Counts the segments no more that hold nothing but records before this one: somebody else removes their files.
    pub fn leave(&mut self, sequence: u64) {
        self.closed.retain(|closed| closed.first_sequence >= sequence);
    }

    /// Reads the oldest segment once more.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Header`], [`Error::Unsupported`].
    pub fn read_oldest(&self) -> Result<Option<Records>, Error> {
        let path = |closed: Closed| segment_path(&self.dir, closed.first_sequence);
        self.oldest()
            .map(|oldest| Records::open(self.format, path(oldest)))
            .transpose()
    }

    /// Gives up the oldest segment: what it held is not needed, or was written once more. That is synced first.
    ///
    /// # Errors
    /// What failed. The log goes on, and the segment is there or goes with the next call; but for a sync that fails, which ends writing.
    pub fn drop_oldest(&mut self) -> Result<(), Arc<Error>> {
        if let Some(error) = self.read_only() {
            return Err(Arc::clone(error));
        }
        if self.oldest().is_none() {
            return Ok(());
        }
        if self.pace.is_behind() {
            self.sync_segment()?;
        }
        self.remove_oldest()
    }

    /// Ends the segment that is written, if it holds anything, and begins the next; `number` is what that begins with.
    ///
    /// # Errors
    /// What failed; the log goes on in the same segment, or is read-only.
    pub fn end_segment(&mut self, number: u64) -> Result<(), Arc<Error>> {
        if let Some(error) = self.read_only() {
            return Err(Arc::clone(error));
        }
        match self.segment.has_records() {
            true => self.roll(number),
            false => Ok(()),
        }
    }

    /// Gives up the segments that hold nothing but records up to this sequence: the keeper has them elsewhere. The one that is
    /// written is ended first if it is among them; `number` is what the next begins with.
    ///
    /// # Errors
    /// What failed; the log goes on, and what is left goes with the next call.
    pub fn forget(&mut self, sequence: u64, number: u64) -> Result<(), Arc<Error>> {
        if let Some(error) = self.read_only() {
            return Err(Arc::clone(error));
        }
        if self.next_sequence() <= sequence.saturating_add(1) {
            self.end_segment(number)?;
        }
        while self.oldest().is_some() {
            let behind = self
                .closed
                .get(1)
                .map_or(self.segment_first(), |closed| closed.first_sequence);
            if behind > sequence.saturating_add(1) {
                break;
            }
            self.remove_oldest()?;
        }
        Ok(())
    }

    fn remove_oldest(&mut self) -> Result<(), Arc<Error>> {
        let Some(oldest) = self.oldest() else {
            return Ok(());
        };
        let path = segment_path(&self.dir, oldest.first_sequence);
        let failed = |source| {
            Arc::new(Error::Write {
                file: path.clone(),
                action: "remove the segment, which is not needed any more,",
                source,
            })
        };
        match self.disk.remove(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(failed(source)),
            _ => {}
        }
        // It is gone, whether or not that is on the disk yet: a start that finds it again passes over what it holds.
        self.closed.remove(0);
        self.disk.sync_dir(&self.dir).map_err(failed)
    }
}
