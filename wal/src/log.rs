//! The log that is being written: appends groups, rolls segments, undoes what failed.
//!
//! It reads no segment (`recover` does), and its keeper decides what to write. Invariant: behind the last
//! group that is as durable as configured a segment has zeros or nothing, or the log is read-only.

mod again;
mod open_segment;
mod syncing;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::Durability;
use crate::closed::{Closed, closed};
use crate::disk::{Disk, LogFile};
use crate::error::Error;
use crate::history::History;
use crate::pace::Pace;
use crate::record::{self, Body, FRAME_BYTES, Format, Place};
use crate::recover::{Begin, LastSegment, Recovered, segment_path};
use crate::settle::settle;
use open_segment::{CreateStep, OpenSegment};
use syncing::Syncing;

/// The buffer a group is encoded in keeps at most this much memory between groups.
const BUFFER_KEPT_BYTES_MAX: usize = 4 << 20;

/// Behind so much that was written a sync begins, whether or not its interval is over: while the system writes more, writes wait for longer, as does
/// the end of a segment.
const SYNC_BYTES: u64 = 2 << 20;

/// Zeros that a segment has behind its groups, where each group is synced: what is written over them changes no length of a file,
/// which a sync would have to make durable too.
const RESERVE_BYTES: u64 = 1 << 20;

/// A group that was not made as durable as configured.
pub struct Failure {
    /// What failed.
    pub error: Arc<Error>,
    /// What was written of it may still be there: it could not be cut off.
    pub is_in_doubt: bool,
}

impl Failure {
    fn without_trace(error: Arc<Error>) -> Failure {
        Failure {
            error,
            is_in_doubt: false,
        }
    }
}

/// The failure that ended writing, once there is one.
pub type ReadOnly = Arc<OnceLock<Arc<Error>>>;

/// The log that is being written.
pub struct Log {
    pub(crate) format: &'static Format,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    durability: Durability,
    segment_bytes_max: u64,
    pub(crate) segment: OpenSegment,
    next_sequence: u64,
    /// What headers say, where the format has it.
    pub(crate) history: Option<History>,
    /// The segments before the one that is written, ascending.
    pub(crate) closed: Vec<Closed>,
    /// Set once, by the failure that ended writing; the keeper's handles see it too.
    read_only: ReadOnly,
    /// When what is not synced group by group is synced.
    pub(crate) pace: Pace,
    syncing: Syncing,
    /// Bytes of groups since it was opened.
    written_bytes: u64,
    /// The same when the last sync began that does not belong to a group.
    sync_from: u64,
    buffer: Vec<u8>,
}

impl Log {
    /// Goes on behind what was recovered: cuts a torn tail, makes durable what is before it, makes the first segment where
    /// there is none.
    ///
    /// # Errors
    /// [`Error::Folder`], [`Error::Unsteady`].
    pub fn open(
        format: &'static Format,
        disk: Arc<dyn Disk>,
        dir: &Path,
        durability: Durability,
        segment_bytes_max: u64,
        recovered: &Recovered,
    ) -> Result<Log, Error> {
        let failed = |action| {
            move |source| Error::Folder {
                keeper: format.keeper,
                dir: dir.to_owned(),
                action,
                source,
            }
        };
        let begin = Begin {
            sequence: recovered.next_sequence,
            number: recovered.next_number,
        };
        let history = recovered
            .history
            .or_else(|| format.has_history().then(History::begin));
        let create = || OpenSegment::create(format, &*disk, dir, begin, history);
        let mut closed = closed(recovered);
        let segment = match &recovered.last {
            LastSegment::Open {
                path,
                header,
                sound,
                file_bytes,
            } => {
                if *file_bytes > sound.length {
                    disk.open(path)
                        .and_then(|file| file.truncate(sound.length))
                        .map_err(failed("cut what follows the last group of its log"))?;
                }
                let file = settle(format, &*disk, dir, path, sound)?;
                let header_bytes = header.bytes(format) as u64;
                let segment = OpenSegment::go_on(path, file.into(), (header, header_bytes), sound.length);
                if header.version < format.version && segment.has_records() {
                    // What is written from here on is of the format that is written today.
                    closed.push(segment.closed());
                    create().map_err(|(_, source)| failed("create a segment")(source))?
                } else {
                    segment
                }
            }
            LastSegment::Headless { path } => {
                disk.remove(path)
                    .map_err(failed("remove its unfinished last segment"))?;
                create().map_err(|(_, source)| failed("create a segment")(source))?
            }
            LastSegment::None => {
                create().map_err(|(_, source)| failed("create its first segment")(source))?
            }
        };
        Ok(Log {
            format,
            disk,
            dir: dir.to_owned(),
            durability,
            segment_bytes_max,
            segment,
            next_sequence: begin.sequence,
            history,
            closed,
            read_only: ReadOnly::default(),
            pace: Pace::default(),
            syncing: Syncing::default(),
            written_bytes: 0,
            sync_from: 0,
            buffer: Vec::new(),
        })
    }

    /// Has what durability "logged" writes synced at this interval, and sooner where much is written; without one, at segments' ends and the close
    /// only.
    pub fn sync_every(&mut self, every: Option<Duration>) {
        self.pace.set(every);
    }

    /// Begins to sync what was written if that is due at `now`, or is as much as one sync should have; how long until it is due, or nothing where no
    /// sync will be. Writes go on meanwhile, unless the sync before has not ended when the next is due: that is waited for. Should a sync fail, nothing
    /// more is written.
    pub fn keep_pace(&mut self, now: Instant) -> Option<Duration> {
        self.hear_of_sync();
        if self.read_only().is_some() {
            return None;
        }
        let due_in = self.pace.due_in(now)?;
        if !due_in.is_zero() {
            if self.written_bytes - self.sync_from < SYNC_BYTES || self.syncing.is_under_way() {
                return Some(due_in);
            }
            self.begin_sync();
            return None;
        }
        self.wait_for_sync();
        if self.read_only().is_none() {
            self.begin_sync();
        }
        None
    }

    /// Why nothing can be written any more, if so.
    pub fn read_only(&self) -> Option<&Arc<Error>> {
        self.read_only.get()
    }

    /// Where others see that.
    pub fn watch_read_only(&self) -> ReadOnly {
        self.read_only.clone()
    }

    /// Writes one group and makes it as durable as configured, or undoes it and says whether that worked.
    ///
    /// # Errors
    /// What failed, and whether it left a trace.
    pub fn append<B: Body>(&mut self, group: &[&B]) -> Result<(), Failure> {
        let Some(first) = group.first() else { return Ok(()) };
        if let Some(error) = self.read_only() {
            // What was left in doubt is behind the segment's end; nothing may be written over it.
            return Err(Failure::without_trace(Arc::clone(error)));
        }
        let bytes: usize = group.iter().map(|body| FRAME_BYTES + body.bytes()).sum();
        if self.segment.has_records() && self.segment.length + bytes as u64 > self.segment_bytes_max {
            self.roll(first.number()).map_err(Failure::without_trace)?;
        }
        self.encode(group);
        if let Err(source) = write_all(&*self.segment.file, &self.buffer, self.segment.length) {
            return Err(self.undo_write(source));
        }
        if self.durability.syncs_each_group() {
            self.reserve(self.segment.length + self.buffer.len() as u64);
            self.sync_group()?;
        } else {
            self.pace.wrote();
        }
        self.segment.length += self.buffer.len() as u64;
        self.written_bytes += self.buffer.len() as u64;
        self.next_sequence += group.len() as u64;
        Ok(())
    }

    /// Bytes of all groups that it has written.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// The sequence of the record written next.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// What the headers of its segments say, where the format has it.
    pub fn history(&self) -> Option<History> {
        self.history
    }

    /// Makes everything written so far durable, whatever the durability.
    ///
    /// # Errors
    /// What failed: nothing more is written.
    pub fn sync(&mut self) -> Result<(), Arc<Error>> {
        self.wait_for_sync();
        match self.read_only() {
            Some(error) => Err(Arc::clone(error)),
            None if self.pace.is_behind() => self.sync_segment(),
            None => Ok(()),
        }
    }

    /// Makes everything written durable, whatever the durability; the last call.
    ///
    /// # Errors
    /// [`Error::LastSync`], [`Error::ReadOnly`].
    pub fn finish(mut self) -> Result<(), Error> {
        self.wait_for_sync();
        if self.read_only().is_none() {
            let is_done = self.durability.syncs_each_group() && !self.segment.has_zeros();
            let ended = if is_done { Ok(()) } else { self.segment.end() };
            return ended.map_err(|source| Error::LastSync {
                file: self.segment.path.clone(),
                source,
            });
        }
        match self.read_only().map(Arc::as_ref) {
            Some(Error::ReadOnly { file, reason }) => Err(Error::ReadOnly {
                file: file.clone(),
                reason: reason.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn encode<B: Body>(&mut self, group: &[&B]) {
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT_BYTES_MAX);
        let numbers = (self.next_sequence..).zip(0..);
        for (body, (sequence, group_index)) in group.iter().zip(numbers) {
            debug_assert!(body.bytes() <= self.format.body_bytes_max, "no reader takes it");
            let place = Place {
                marker: self.segment.marker,
                sequence,
                group_index,
            };
            record::encode(&mut self.buffer, place, *body);
        }
    }

    /// Writes zeros behind a group that ends there, where it has used up those that there were. Should that fail, as on a disk that is
    /// full, the file grows with each group until the next time.
    fn reserve(&mut self, end: u64) {
        if end <= self.segment.reserved {
            return;
        }
        let until = (end + RESERVE_BYTES).min(self.segment_bytes_max).max(end);
        self.segment.reserved = until;
        let zeros = vec![0; usize::try_from(until - end).unwrap_or_default()];
        if let Err(error) = write_all(&*self.segment.file, &zeros, end) {
            tracing::debug!(%error, file = %self.segment.path.display(), "no zeros were written behind the log's groups");
        }
    }

    /// Syncs the group that was written behind the segment's end, or cuts it off.
    fn sync_group(&mut self) -> Result<(), Failure> {
        let Err(cause) = self.segment.file.sync() else {
            return Ok(());
        };
        let (reason, is_in_doubt) = match self.segment.cut() {
            Ok(()) => (format!("cannot sync the segment: {cause}"), false),
            Err(source) => {
                let reason = format!(
                    "cannot sync the segment ({cause}), nor cut off for good what was written of it: {source}"
                );
                (reason, true)
            }
        };
        let error = self.turn_read_only(reason);
        Err(Failure { error, is_in_doubt })
    }

    /// Syncs a segment that holds nothing but whole groups.
    pub(crate) fn sync_segment(&mut self) -> Result<(), Arc<Error>> {
        self.wait_for_sync();
        if let Some(error) = self.read_only() {
            return Err(Arc::clone(error));
        }
        match self.segment.file.sync() {
            Ok(()) => {
                self.note_synced();
                Ok(())
            }
            Err(source) => Err(self.turn_read_only(format!("cannot sync the segment: {source}"))),
        }
    }

    fn note_synced(&mut self) {
        self.pace.synced();
        self.sync_from = self.written_bytes;
    }

    fn undo_write(&mut self, cause: io::Error) -> Failure {
        self.wait_for_sync();
        match self.segment.cut() {
            Ok(()) => Failure::without_trace(Arc::new(Error::Write {
                file: self.segment.path.clone(),
                action: "write to the segment",
                source: cause,
            })),
            Err(source) => Failure {
                error: self.turn_read_only(format!(
                    "cannot write to the segment ({cause}), nor cut off for good what was written of it: {source}"
                )),
                is_in_doubt: true,
            },
        }
    }

    /// Closes the segment for good and begins the next.
    pub(crate) fn roll(&mut self, number: u64) -> Result<(), Arc<Error>> {
        self.wait_for_sync();
        if let Some(error) = self.read_only() {
            return Err(Arc::clone(error));
        }
        if let Err(source) = self.segment.end() {
            return Err(self.turn_read_only(format!("cannot sync the segment: {source}")));
        }
        self.note_synced();
        let begin = Begin {
            sequence: self.next_sequence,
            number,
        };
        match OpenSegment::create(self.format, &*self.disk, &self.dir, begin, self.history) {
            Ok(segment) => {
                let ended = std::mem::replace(&mut self.segment, segment);
                self.closed.push(ended.closed());
                Ok(())
            }
            Err((CreateStep::Undone, source)) => Err(Arc::new(Error::Write {
                file: segment_path(&self.dir, self.next_sequence),
                action: "create the next segment",
                source,
            })),
            Err((CreateStep::Unknown, source)) => {
                Err(self.turn_read_only(format!("cannot create the segment behind it: {source}")))
            }
        }
    }

    /// Takes no more records, for a reason of the keeper's.
    pub fn give_up(&mut self, reason: String) {
        self.turn_read_only(reason);
    }

    pub(crate) fn turn_read_only(&mut self, reason: String) -> Arc<Error> {
        read_only_by(&self.read_only, self.segment.path.clone(), reason)
    }
}

/// Ends writing, unless it has ended before; why it has.
fn read_only_by(read_only: &ReadOnly, file: PathBuf, reason: String) -> Arc<Error> {
    let error = || Arc::new(Error::ReadOnly { file, reason });
    read_only.get_or_init(error).clone()
}

/// Writes all of the bytes at an offset.
///
/// # Errors
/// What the system said; a part may be written.
pub fn write_all(file: &dyn LogFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
