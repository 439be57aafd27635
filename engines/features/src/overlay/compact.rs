//! Gives back what the log takes beyond its rows in force: those of the oldest segment go to the end once more, and it is removed.
//!
//! Small steps between groups, on the log thread. Invariants: a segment goes only when what was in force of it stands further
//! behind, as durable as it was; and an upsert waits for one step at most.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millpond_wal::{Error, Records};

use super::commit::Committer;
use super::folded::{Folded, Settled};
use super::is_old;
use super::record::{self, LogRecord};

/// Bytes that a step reads at least.
const STEP_BYTES: u64 = 256 << 10;
/// What is read for each byte that upserts write. At least half of what is read is not in force, so the log shrinks all the same.
const READ_PER_WRITTEN: u64 = 4;
/// And at most, for groups as large as they may be.
const STEP_BYTES_MAX: u64 = 16 << 20;
/// How long nothing is tried after a failure.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 10_000 });
/// The most that an entry takes in the log beside its row: a record of its own.
const ALONE_BYTES: u64 = 112;

/// What a segment holds, as far as it matters for its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    first_sequence: u64,
    /// When the latest of its rows was written; zero where it has none.
    latest_ms: u64,
    /// What it says is folded.
    folded: Folded,
    /// What it says of the other replicas.
    settled: Settled,
}

/// What the segments hold, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Segments(VecDeque<Held>);

impl Segments {
    /// A record of the segment that begins with this sequence was read or written.
    pub fn note(&mut self, first_sequence: u64, said: LogRecord<'_>) {
        if self
            .0
            .back()
            .is_none_or(|last| last.first_sequence < first_sequence)
        {
            self.0.push_back(Held {
                first_sequence,
                ..Held::default()
            });
        }
        let Some(held) = self.0.back_mut() else { return };
        match said {
            LogRecord::Upsert { .. } | LogRecord::Kept { .. } => {
                held.latest_ms = held.latest_ms.max(said.time_ms())
            }
            LogRecord::Folded {
                sequence, before_ms, ..
            } => held.folded = held.folded.or_further(sequence, before_ms),
            LogRecord::Settled { settled, .. } => held.settled = held.settled.max(settled),
            LogRecord::Expired { .. } => {}
        }
    }

    fn forget_before(&mut self, first_sequence: u64) {
        self.0.retain(|held| held.first_sequence >= first_sequence);
    }
}

/// How far it is.
#[derive(Default)]
pub(super) struct Compaction {
    pub segments: Segments,
    /// What a version has; a record is to say so in a segment that stays.
    pub folded: Folded,
    /// And what is known of the other replicas, likewise.
    pub settled: Settled,
    /// What is in force of the records up to this sequence stands further behind once more.
    copied: u64,
    /// While it is under way: segments that begin before this sequence are gone through.
    until: Option<u64>,
    /// The oldest of them, as far as it was read.
    records: Option<(u64, Records)>,
    /// Bytes of the log and entries when it was through the last time.
    last: Option<(u64, u64)>,
    /// How much had been written at the last step.
    written_bytes: u64,
    /// Since when nothing is tried.
    paused: Option<Instant>,
    /// Whether that was said.
    has_said: bool,
}

impl Compaction {
    /// Of a log that was read.
    pub fn new(segments: Segments, (folded, settled): (Folded, Settled), copied: u64) -> Compaction {
        Compaction {
            segments,
            folded,
            settled,
            copied,
            ..Compaction::default()
        }
    }

    /// How long the log thread may wait for upserts, where there is something to do without them.
    pub fn wait(&self) -> Option<Duration> {
        match self.paused {
            Some(since) => Some(PAUSE.saturating_sub(since.elapsed())),
            None => self.until.map(|_| Duration::ZERO),
        }
    }

    fn is_paused(&mut self) -> bool {
        self.paused = self.paused.filter(|since| since.elapsed() < PAUSE);
        self.paused.is_some()
    }
}

/// What is in force of an upsert: what is written of it once more.
struct Kept {
    sequence: u64,
    copied: u64,
    kind: u8,
    body: Vec<u8>,
}

/// What a step has read.
struct Read {
    kept: Vec<Kept>,
    /// The last record.
    copied: u64,
    is_whole: bool,
}

impl Committer {
    /// Gives back what can be; called between groups. `is_idle` where no upsert waits.
    pub fn give_back(&mut self, is_idle: bool) {
        let Some(log) = &self.log else { return };
        if log.read_only().is_some() {
            (self.compaction.until, self.compaction.paused) = (None, None);
        } else if !self.compaction.is_paused() {
            match self.try_to_give_back(is_idle) {
                Ok(()) => self.compaction.has_said = false,
                Err(error) => {
                    self.compaction.paused = Some(Instant::now());
                    self.compaction.records = None;
                    if !std::mem::replace(&mut self.compaction.has_said, true) {
                        tracing::warn!(%error, "the log of an overlay cannot give back what it does not need; it goes on, and tries again");
                    }
                }
            }
        }
        let bytes = self.log.as_ref().map_or(0, |log| log.bytes());
        self.state.log_bytes.store(bytes, Ordering::Relaxed);
    }

    fn try_to_give_back(&mut self, is_idle: bool) -> Result<(), Arc<Error>> {
        self.tell_again(0)?;
        self.drop_old()?;
        if self.compaction.until.is_none() {
            self.compaction.until = self.begins();
        }
        let Some(until) = self.compaction.until else {
            return Ok(());
        };
        let written = self.log.as_ref().map_or(0, |log| log.written_bytes());
        let due = (written - self.compaction.written_bytes).saturating_mul(READ_PER_WRITTEN);
        if !is_idle && due < STEP_BYTES {
            return Ok(());
        }
        let bytes_max = due.clamp(STEP_BYTES, STEP_BYTES_MAX);
        // No larger than a segment, so that what is kept needs none of another size.
        self.step(until, bytes_max.min(self.segment_bytes_max))?;
        self.compaction.written_bytes = self.log.as_ref().map_or(0, |log| log.written_bytes());
        Ok(())
    }

    /// Where it goes to, if it begins: the log is more than a segment, and twice what is in force.
    fn begins(&self) -> Option<u64> {
        let log = self.log.as_ref().filter(|log| log.oldest().is_some())?;
        let bytes = log.bytes();
        let begins = bytes > self.segment_bytes_max && bytes > self.in_force_bytes().saturating_mul(2);
        begins.then(|| log.segment_first())
    }

    /// What entries take in the log: as the last time, and no more than each in a record of its own.
    fn in_force_bytes(&self) -> u64 {
        let (entries, bytes) = (self.state.index.len(), self.state.index.bytes());
        let most = entries.saturating_mul(ALONE_BYTES).saturating_add(bytes);
        let as_before = self.compaction.last.and_then(|(bytes, before)| {
            let scaled = u128::from(bytes) * u128::from(entries);
            scaled.checked_div(before.into())
        });
        as_before.map_or(most, |bytes| u64::try_from(bytes).unwrap_or(most).min(most))
    }

    /// Goes through some of the oldest segment, and removes it at its end.
    fn step(&mut self, until: u64, bytes_max: u64) -> Result<(), Arc<Error>> {
        let Some(log) = &self.log else { return Ok(()) };
        let Some(oldest) = log.oldest().filter(|oldest| oldest.first_sequence < until) else {
            self.compaction.last = Some((log.bytes(), self.state.index.len()));
            // What came meanwhile may be enough for the next time.
            self.compaction.until = self.begins();
            return Ok(());
        };
        let opened = self.compaction.records.take();
        let opened = opened.filter(|(first_sequence, _)| *first_sequence == oldest.first_sequence);
        let records = match opened {
            Some((_, records)) => Some(records),
            None => log.read_oldest().map_err(Arc::new)?,
        };
        let Some(mut records) = records else { return Ok(()) };
        let read = self.read(&mut records, bytes_max).map_err(Arc::new)?;
        self.keep(&read)?;
        match read.is_whole {
            true => self.drop_oldest(),
            false => {
                self.compaction.records = Some((oldest.first_sequence, records));
                Ok(())
            }
        }
    }

    fn read(&self, records: &mut Records, bytes_max: u64) -> Result<Read, Error> {
        let (ttl_ms, now_ms) = (self.state.ttl_ms, self.state.clock.now_ms());
        let mut read = Read {
            kept: Vec::new(),
            copied: self.compaction.copied,
            is_whole: false,
        };
        let mut bytes = 0;
        while bytes < bytes_max.max(1) {
            let Some(found) = records.next_record()? else {
                read.is_whole = true;
                break;
            };
            bytes += found.length as u64;
            if found.sequence <= read.copied {
                continue;
            }
            read.copied = found.sequence;
            let said = record::decode(found.kind, found.body).ok();
            let Some((said, sequence)) = said.and_then(|said| said.upserted(found.sequence)) else {
                continue;
            };
            let left = said.left(|key| {
                let entry = self.writer.get(key).filter(|entry| entry.sequence == sequence);
                entry.is_some_and(|entry| !is_old(entry.written_ms, ttl_ms, now_ms))
            });
            read.kept.extend(left.map(|(kind, body)| Kept {
                sequence,
                copied: found.sequence,
                kind,
                body,
            }));
        }
        Ok(read)
    }

    /// Writes once more what a step has found in force.
    fn keep(&mut self, read: &Read) -> Result<(), Arc<Error>> {
        let kept: Vec<_> = read.kept.iter().map(Kept::said).collect();
        self.note(&kept)?;
        self.compaction.copied = read.copied;
        Ok(())
    }

    /// Removes the oldest segment, of which nothing is needed. That a version has what was folded is said elsewhere first.
    fn drop_oldest(&mut self) -> Result<(), Arc<Error>> {
        self.tell_again(1)?;
        if let Some(log) = &mut self.log {
            log.drop_oldest()?;
        }
        self.forget_segments();
        Ok(())
    }

    /// Has one of the segments, but for the oldest so many, say what a version has; and what is known of the other replicas.
    fn tell_again(&mut self, but_for: usize) -> Result<(), Arc<Error>> {
        let (folded, settled) = (self.compaction.folded, self.compaction.settled);
        let segments = || self.compaction.segments.0.iter().skip(but_for);
        let is_told_of_fold = !folded.is_some() || segments().any(|held| held.folded.covers(folded));
        let is_told_of_others =
            settled == Settled::default() || segments().any(|held| held.settled == settled);
        let time_ms = self.state.clock.now_ms();
        let mut said = Vec::new();
        if !is_told_of_fold {
            said.push(LogRecord::Folded {
                time_ms,
                sequence: folded.sequence,
                before_ms: folded.before_ms,
            });
        }
        if !is_told_of_others {
            said.push(LogRecord::Settled { time_ms, settled });
        }
        match said.is_empty() {
            true => Ok(()),
            false => self.note(&said),
        }
    }

    /// Gives up segments of which every row is too old.
    fn drop_old(&mut self) -> Result<(), Arc<Error>> {
        if self.state.ttl_ms.is_none() {
            return Ok(());
        }
        let (ttl_ms, now_ms) = (self.state.ttl_ms, self.state.clock.now_ms());
        let (history, first_sequence) = (self.history, self.segment_first());
        let last = self.compaction.segments.0.back();
        let is_last_old = last.is_some_and(|held| {
            held.first_sequence == first_sequence
                && held.latest_ms > 0
                && is_old(held.latest_ms, ttl_ms, now_ms)
        });
        if let Some(log) = self.log.as_mut().filter(|_| is_last_old) {
            log.end_segment(history)?;
        }
        while let Some(held) = self.compaction.segments.0.front().copied() {
            let oldest = self.log.as_ref().and_then(|log| log.oldest());
            let is_oldest = oldest.is_some_and(|oldest| oldest.first_sequence == held.first_sequence);
            if !is_oldest || !is_old(held.latest_ms, ttl_ms, now_ms) {
                break;
            }
            self.drop_oldest()?;
        }
        Ok(())
    }

    /// Gives up segments that hold nothing but what is in the version that serves: all up to this sequence is.
    pub fn drop_folded(&mut self, folded: Folded, sequence: u64) -> Result<(), Arc<Error>> {
        let history = self.history;
        self.compaction.folded = folded;
        let Some(log) = &mut self.log else { return Ok(()) };
        let segments = &self.compaction.segments.0;
        let is_behind = |held: &&Held| held.first_sequence <= sequence.saturating_add(1);
        let mut gone = segments.iter().skip(1).filter(is_behind).count();
        if log.next_sequence() <= sequence.saturating_add(1) {
            // Or what is said of the fold would keep the rest of the segment.
            log.end_segment(history)?;
            gone = segments.len();
        }
        // Said first: once the segments are gone nothing else says that there was a fold. A full disk must not keep them for that.
        let told = self.tell_again(gone);
        if let Some(log) = &mut self.log {
            log.forget(sequence, history)?;
        }
        self.forget_segments();
        told
    }

    fn segment_first(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.segment_first())
    }

    fn forget_segments(&mut self) {
        let Some(log) = &self.log else { return };
        let oldest = log
            .oldest()
            .map_or(log.segment_first(), |oldest| oldest.first_sequence);
        self.compaction.segments.forget_before(oldest);
    }
}

impl Kept {
    fn said(&self) -> LogRecord<'_> {
        LogRecord::Kept {
            sequence: self.sequence,
            copied: self.copied,
            kind: self.kind,
            body: &self.body,
        }
    }
}
