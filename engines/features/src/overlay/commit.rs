//! The log thread's work: from the upserts that wait to their answers, one group at a time; and taking away what is too old or
//! folded.
//!
//! Knows no threads. Invariant: nothing of a group is visible or answered before all of it is as durable as configured, and a
//! group that fails leaves no trace in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millpond_wal::{Error, Failure, Log, Pending, Queue, Reply, next_group};

use super::State;
use super::compact::Compaction;
use super::folded::{Folded, Settled};
use super::index::{Entry, Index, Writer};
use super::record::{LogRecord, Written};
use super::stamp::Stamp;
use super::stored::{self, StoredRows, VARYING};
use super::upsert::{Job, Parts, Upsert, UpsertError, Upserted};

/// A group is cut here, so that the first upsert of a long queue does not wait for all of it.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// Keys whose places and cells are asked for ahead.
const AHEAD: usize = 32;
/// How often old rows are looked for, and at how many places then: 655,360 a second.
const SWEEP: Duration = Duration::from_millis(100);
const SWEEP_PLACES: usize = 1 << 16;
/// How often the log notes up to when rows are too old.
const TOLD: Duration = Duration::from_secs(1);

/// What the log thread owns of an overlay, or shares with lookups.
pub(super) struct Committer {
    /// What lookups read: the sequence that they see up to, counts, and what was folded.
    pub state: Arc<State>,
    /// The only writer of the index, so that readers need no lock.
    pub writer: Writer,
    /// `None` keeps everything in memory only.
    pub log: Option<Log>,
    /// Which log records belong to: a version names it beside the sequence up to which it was folded.
    pub history: u64,
    /// A hash of the columns, in each record: a start refuses rows of other columns.
    pub layout: u64,
    /// Of a stored row; [`VARYING`] where rows differ in length.
    pub row_bytes: usize,
    /// That of the next record.
    pub next_sequence: u64,
    /// Memory that rows may take: an upsert that needs more is refused.
    pub bytes_max: u64,
    /// Bounds a group and a step of compaction; a shorter log is not compacted.
    pub segment_bytes_max: u64,
    /// Where the search for old rows goes on.
    pub swept: Swept,
    /// What each segment still has in force, and the steps that give segments back.
    pub compaction: Compaction,
}

/// How far the search for old rows is.
pub(super) struct Swept {
    place: usize,
    at: Instant,
    /// When all places were looked at for the sake of one upsert.
    whole: Option<Instant>,
    told: Instant,
    /// Whether something went that the log was not told of.
    is_untold: bool,
}

impl Swept {
    pub fn new() -> Swept {
        let now = Instant::now();
        Swept {
            place: 0,
            at: now,
            whole: None,
            told: now,
            is_untold: false,
        }
    }
}

/// An upsert whose rows are whole.
struct Accepted {
    reply: Reply<Job>,
    /// Little-endian: of the rows, then of those that are removed.
    keys: Vec<u8>,
    rows: Vec<u8>,
    stamp: Stamp,
    /// The highest stamp of a row that stays because it is newer.
    newer: Stamp,
}

/// The row that each key will have once the group is written; `None` where it is removed.
type Ahead = HashMap<u64, Option<Vec<u8>>>;

impl Committer {
    /// Commits groups until the queue is closed and empty.
    pub fn run(mut self, queue: &Queue<Job>) -> Result<(), Error> {
        let segment_bytes_max = usize::try_from(self.segment_bytes_max).unwrap_or(usize::MAX);
        let bytes_max = segment_bytes_max.min(GROUP_BYTES_MAX);
        if self.compaction.folded.is_some() {
            self.give_back_folded(self.compaction.folded);
        }
        self.give_back(true);
        loop {
            let sweep = self.state.ttl_ms.map(|_| SWEEP);
            let longest = self.compaction.wait().into_iter().chain(sweep).min();
            let Some(group) = next_group(queue, self.log.as_mut(), bytes_max, longest) else {
                break;
            };
            let is_idle = group.is_empty();
            self.commit(group);
            self.sweep();
            self.give_back(is_idle);
        }
        self.log.map_or(Ok(()), Log::finish)
    }

    fn commit(&mut self, group: Vec<Pending<Job>>) {
        let read_only = self.log.as_ref().and_then(Log::read_only).cloned();
        let is_partial =
            |pending: &Pending<Job>| matches!(&pending.work, Job::Upsert(upsert) if upsert.parts.is_some());
        let mut ahead = group.iter().any(is_partial).then(Ahead::new);
        let (mut accepted, mut told, mut more) = (Vec::new(), Vec::new(), 0);
        for Pending { work, reply, .. } in group {
            match (work, &read_only) {
                (work, Some(error)) => {
                    // The job may own the last reference to a table; drop it before answering.
                    drop(work);
                    reply.send(Err(UpsertError::ReadOnly(Arc::clone(error))));
                }
                (told_of @ (Job::Folded(_) | Job::Settled(_)), None) => told.push((told_of, reply)),
                (Job::Upsert(upsert), None) => match self.space_for(&upsert, more) {
                    Ok(needed) => {
                        if let Some(done) = self.accept(upsert, reply, ahead.as_mut()) {
                            more += needed;
                            accepted.push(done);
                        }
                    }
                    Err(error) => {
                        self.state.counts.refused.fetch_add(1, Ordering::Relaxed);
                        drop(upsert);
                        reply.send(Err(error));
                    }
                },
            }
        }
        let time_ms = self.state.clock.now_ms();
        match self.write(&accepted, time_ms) {
            Ok(()) => self.publish(accepted, time_ms),
            Err(failure) => fail(accepted, &failure),
        }
        for (work, reply) in told {
            match work {
                Job::Folded(folded) => self.forget(folded),
                Job::Settled(settled) => self.settle(settled),
                Job::Upsert(_) => {}
            }
            let sequence = self.state.sequence.load(Ordering::Acquire);
            reply.send(Ok(self.upserted(sequence, Stamp::default())));
        }
    }

    fn upserted(&self, sequence: u64, newer: Stamp) -> Upserted {
        Upserted {
            sequence,
            durability: self.state.durability,
            newer,
        }
    }

    /// Leaves out of a stamped upsert what is there already, or newer: the log is to say nothing that a start would have to undo.
    /// The highest stamp of what is newer.
    fn strip(&self, upsert: &mut Upsert) -> Stamp {
        let (own, mut newer) = (upsert.stamp, Stamp::default());
        if !own.is_some() {
            return newer;
        }
        // A row that was made before is in a version, or a newer one is: that one's stamp is not known any more.
        let folded = Stamp::of_ms(self.compaction.folded.before_ms);
        let mut is_older = |key: &u64| {
            let found = self.writer.get(*key).map(|entry| entry.stamp);
            let stamp = found.unwrap_or_default().max(folded);
            if stamp > own {
                newer = newer.max(stamp);
            }
            stamp < own
        };
        let kept: Vec<bool> = upsert.keys.iter().map(&mut is_older).collect();
        upsert.remove.retain(&mut is_older);
        if kept.contains(&false) {
            let (mut left, rows) = (Vec::new(), StoredRows::new(self.row_bytes, &upsert.rows));
            for (row, _) in rows.zip(&kept).filter(|(_, is_kept)| **is_kept) {
                stored::push(self.row_bytes, row, &mut left);
            }
            upsert.rows = left;
            let mut kept = kept.iter();
            upsert.keys.retain(|_| kept.next() == Some(&true));
        }
        newer
    }

    /// What an upsert adds to memory, beside `more` of the group's upserts before it.
    fn space_for(&mut self, upsert: &Upsert, more: u64) -> Result<u64, UpsertError> {
        let entry_bytes = self.state.index.entry_bytes();
        let keys = || upsert.keys.iter().chain(&upsert.remove);
        // Rows of some columns are none of these.
        let row_bytes = self.row_bytes;
        let rows = || {
            let rows = StoredRows::new(row_bytes, &upsert.rows).filter(|_| row_bytes == VARYING);
            rows.map(|row| Index::row_bytes(row.len()))
        };
        let most = entry_bytes.saturating_mul(keys().count() as u64) + rows().sum::<u64>();
        let bytes = |committer: &Committer| committer.state.index.bytes().saturating_add(more);
        // Those that are there matter only where space is short.
        if bytes(self).saturating_add(most) <= self.bytes_max {
            return Ok(most);
        }
        self.sweep_whole();
        let mut rows = rows();
        let grown = |key| {
            let row = rows.next().unwrap_or_default();
            match self.writer.row_bytes_of(key) {
                Some(before) => row.saturating_sub(before),
                None => entry_bytes + row,
            }
        };
        let needed = keys().copied().map(grown).sum();
        match needed > 0 && bytes(self).saturating_add(needed) > self.bytes_max {
            true => Err(UpsertError::Full {
                bytes: bytes(self),
                more: needed,
                max: self.bytes_max,
                can_be_folded: self.log.is_some(),
            }),
            false => Ok(needed),
        }
    }

    /// Makes rows whole that have some columns only: the others are as the row has them, or as the default row. Where these cannot
    /// be read the upsert is answered, and nothing is left of it.
    fn accept(&self, mut upsert: Upsert, reply: Reply<Job>, ahead: Option<&mut Ahead>) -> Option<Accepted> {
        let (stamp, newer) = (upsert.stamp, self.strip(&mut upsert));
        if upsert.keys.is_empty() && upsert.remove.is_empty() {
            // All of it is there, or newer, and as durable as it would be.
            let answer = self.upserted(self.state.sequence.load(Ordering::Acquire), newer);
            drop(upsert);
            reply.send(Ok(answer));
            return None;
        }
        let keys = upsert.keys.iter().chain(&upsert.remove);
        let keys = keys.flat_map(|key| key.to_le_bytes()).collect();
        let Some(ahead) = ahead else {
            return Some(Accepted {
                reply,
                keys,
                rows: upsert.rows,
                stamp,
                newer,
            });
        };
        let rows = match &upsert.parts {
            None => upsert.rows,
            Some(parts) => match self.whole_rows(&upsert, parts, ahead) {
                Ok(rows) => rows,
                Err(error) => {
                    drop(upsert);
                    reply.send(Err(UpsertError::Base(Arc::new(error))));
                    return None;
                }
            },
        };
        for (&key, row) in upsert.keys.iter().zip(StoredRows::new(self.row_bytes, &rows)) {
            ahead.insert(key, Some(row.to_vec()));
        }
        ahead.extend(upsert.remove.iter().map(|key| (*key, None)));
        Some(Accepted {
            reply,
            keys,
            rows,
            stamp,
            newer,
        })
    }

    /// The rows of an upsert of some columns with the columns that it does not have.
    fn whole_rows(
        &self,
        upsert: &Upsert,
        parts: &Parts,
        ahead: &Ahead,
    ) -> Result<Vec<u8>, crate::error::Error> {
        let part_bytes: usize = parts.iter().map(|(_, bytes)| bytes).sum();
        let mut rows = Vec::with_capacity(upsert.keys.len() * self.row_bytes);
        // A key may come twice in one upsert.
        let mut own = Ahead::new();
        let given = upsert.rows.chunks_exact(part_bytes.max(1));
        for (&key, mut part) in upsert.keys.iter().zip(given) {
            let row = match own.get(&key).or_else(|| ahead.get(&key)) {
                Some(row) => row.clone(),
                None => upsert.base.fresh_row(key),
            };
            let mut row = row.unwrap_or_else(|| upsert.base.row_of_absent());
            for &(offset, bytes) in parts {
                let Some((new, rest)) = part.split_at_checked(bytes) else {
                    break;
                };
                if let Some(old) = row.get_mut(offset..offset + bytes) {
                    old.copy_from_slice(new);
                }
                part = rest;
            }
            rows.extend_from_slice(&row);
            own.insert(key, Some(row));
        }
        // What is gone of a file that was cut reads as zeros, which must not become rows.
        upsert.base.check_whole()?;
        Ok(rows)
    }

    fn said<'a>(&self, accepted: &'a Accepted, time_ms: u64) -> LogRecord<'a> {
        LogRecord::Upsert {
            time_ms,
            stamp: accepted.stamp,
            layout: self.layout,
            row_bytes: self.row_bytes as u32,
            keys: &accepted.keys,
            rows: &accepted.rows,
        }
    }

    fn write(&mut self, group: &[Accepted], time_ms: u64) -> Result<(), Failure> {
        let written = group.iter().map(|accepted| Written {
            said: self.said(accepted, time_ms),
            history: self.history,
        });
        let written: Vec<_> = written.collect();
        let Some(log) = &mut self.log else { return Ok(()) };
        log.append(&written.iter().collect::<Vec<_>>())?;
        for written in written {
            self.compaction.segments.note(log.segment_first(), written.said);
        }
        Ok(())
    }

    /// Shows the group to readers, then answers it.
    fn publish(&mut self, group: Vec<Accepted>, time_ms: u64) {
        let mut answers = Vec::with_capacity(group.len());
        for accepted in group {
            let (sequence, stamp, mut newer) = (self.next_sequence, accepted.stamp, accepted.newer);
            let said = self.said(&accepted, time_ms);
            let written_ms = said.written_ms();
            for (at, (key, row)) in said.changes().enumerate() {
                if at.is_multiple_of(AHEAD) {
                    let keys = accepted.keys.as_chunks().0.iter().skip(at).take(AHEAD);
                    self.writer.prefetch(keys.map(|key| u64::from_le_bytes(*key)));
                }
                // Another one of the group may be newer.
                if let Some(found) = self.newer_than(stamp, key) {
                    newer = newer.max(found);
                    continue;
                }
                self.writer.put(&Entry {
                    key,
                    sequence,
                    written_ms,
                    stamp,
                    row,
                });
            }
            self.next_sequence += 1;
            self.state.sequence.store(sequence, Ordering::Release);
            self.state.counts.upserts.fetch_add(1, Ordering::Relaxed);
            self.state.newest.fetch_max(stamp.time, Ordering::Relaxed);
            answers.push((accepted.reply, self.upserted(sequence, newer)));
        }
        for (reply, answer) in answers {
            reply.send(Ok(answer));
        }
    }

    /// The stamp of a key's entry, where a stamped upsert is older.
    fn newer_than(&self, stamp: Stamp, key: u64) -> Option<Stamp> {
        let found = stamp.is_some().then(|| self.writer.get(key)).flatten()?.stamp;
        (found > stamp).then_some(found)
    }

    /// Writes what is no upsert, in one group.
    pub fn note(&mut self, said: &[LogRecord<'_>]) -> Result<(), Arc<Error>> {
        let history = self.history;
        let Some(log) = &mut self.log else { return Ok(()) };
        let written: Vec<_> = said.iter().map(|&said| Written { said, history }).collect();
        log.append(&written.iter().collect::<Vec<_>>())
            .map_err(|failure| failure.error)?;
        said.iter()
            .for_each(|said| self.compaction.segments.note(log.segment_first(), *said));
        self.next_sequence = log.next_sequence();
        // A fold may end here; lookups see all upserts up to it, as there are none but those before.
        let last = self.next_sequence.saturating_sub(1);
        self.state.sequence.store(last, Ordering::Release);
        Ok(())
    }

    /// Takes away what is in the versions that are open, and gives its log back; nothing where a version had more than that.
    fn forget(&mut self, folded: Folded) {
        if !folded.covers(self.compaction.folded) {
            return;
        }
        let has = |entry: &Entry<()>| folded.has(entry.sequence, entry.stamp);
        // First: another node that reads pages meanwhile is to know that rows may be in a version alone.
        self.state.show_folded(folded);
        self.writer.take_away(0, usize::MAX, has);
        self.give_back_folded(folded);
    }

    fn give_back_folded(&mut self, folded: Folded) {
        // What stays was made later, or came later, and may stand before what goes.
        let first_left = self.writer.first_sequence().unwrap_or(u64::MAX);
        let sequence = folded.sequence.min(first_left.saturating_sub(1));
        if let Err(error) = self.drop_folded(folded, sequence) {
            tracing::warn!(%error, "the log of an overlay keeps segments that were folded");
        }
    }

    /// Has the log say what the other replicas have: a fold and a start read it there.
    fn settle(&mut self, settled: Settled) {
        let settled = settled.max(self.compaction.settled);
        if settled == self.compaction.settled || self.log.is_none() {
            return;
        }
        let time_ms = self.state.clock.now_ms();
        // The log's own failures show in the next upsert.
        if self.note(&[LogRecord::Settled { time_ms, settled }]).is_ok() {
            self.compaction.settled = settled;
            self.state.show_settled(settled);
        }
    }

    /// Looks at some places for rows that are too old, if it is time.
    fn sweep(&mut self) {
        if self.state.ttl_ms.is_none() || self.swept.at.elapsed() < SWEEP {
            return;
        }
        self.swept.at = Instant::now();
        self.swept.place = self
            .sweep_from(self.swept.place, SWEEP_PLACES)
            .unwrap_or_default();
        if self.swept.is_untold && self.swept.told.elapsed() >= TOLD {
            self.swept.told = Instant::now();
            let time_ms = self.state.clock.now_ms();
            let written_ms = time_ms.saturating_sub(self.state.ttl_ms.unwrap_or_default());
            // The log's own failures show in the next upsert.
            self.swept.is_untold = self.note(&[LogRecord::Expired { time_ms, written_ms }]).is_err();
        }
    }

    /// At all places, for an upsert that does not fit; once a second at most.
    fn sweep_whole(&mut self) {
        if self.state.ttl_ms.is_none() || self.swept.whole.is_some_and(|whole| whole.elapsed() < TOLD) {
            return;
        }
        self.sweep_from(0, usize::MAX);
        self.swept.whole = Some(Instant::now());
    }

    fn sweep_from(&mut self, place: usize, places: usize) -> Option<usize> {
        let ttl_ms = self.state.ttl_ms?;
        let now_ms = self.state.clock.now_ms();
        let is_old = |entry: &Entry<()>| super::is_old(entry.written_ms, Some(ttl_ms), now_ms);
        let (count, next) = self.writer.take_away(place, places, is_old);
        self.state.counts.expired.fetch_add(count, Ordering::Relaxed);
        self.swept.is_untold |= count > 0;
        next
    }
}

fn fail(group: Vec<Accepted>, failure: &Failure) {
    for accepted in group {
        let error = Arc::clone(&failure.error);
        accepted.reply.send(Err(match failure.is_in_doubt {
            true => UpsertError::OutcomeUnknown(error),
            false => UpsertError::Storage(error),
        }));
    }
}
