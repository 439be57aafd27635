//! A follower's part: where its log ends, the leader's next records into it, and its promotion.
//!
//! What changes the log or the index is done by the log thread (`desk`). Invariant: records take effect behind what the log ends with, in their order,
//! once they are as durable as configured; what does not follow changes nothing.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use millpond_wal::{Body, BrokenRun, History, Log, Mark, Record, Tail, records_in};

use super::desk::{Outcome, Task};
use super::ends::begin_epoch;
use super::{EPOCH_AHEAD_MS_MAX, Lag, Note, Position, Replication, Role, Shipment, lock};
use crate::commit::Committer;
use crate::record::{FORMAT, Logged};
use crate::{Error, Store};

/// Why a follower did not take records, or was not promoted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// It follows nobody, by now or ever.
    #[error("this store follows nobody: it is {0}")]
    NotFollowing(&'static str),

    /// Records of another log.
    #[error(
        "the leader's log is another one than this store's: its history is {theirs}, and {ours} here; move this store's folder away and start it again: it takes a copy"
    )]
    History {
        /// This store's.
        ours: String,
        /// The leader's.
        theirs: String,
    },

    /// Records of a leader that another store was promoted in place of.
    #[error(
        "the records are of epoch {theirs}, and this store is in epoch {ours}: their server leads no more; name the server that was promoted"
    )]
    OlderEpoch {
        /// This store's.
        ours: u64,
        /// The records'.
        theirs: u64,
    },

    /// Records that do not follow from those that are there, or none at all.
    #[error(
        "the records do not follow from what this store has: {0}; move this store's folder away and start it again: it takes a copy of the leader's"
    )]
    Broken(String),

    /// It writes a checkpoint, and takes in no copy meanwhile.
    #[error("this store writes a checkpoint, and takes in the copy behind that; try again")]
    Busy,

    /// It has no record of its leader's: what it would lead is nothing.
    #[error(
        "this store has no record of its leader yet, so that promoting it would give up everything; promote another one, or take the key \"follow\" out of its section to begin an empty store"
    )]
    Empty,

    /// The log could not be written; the records are as good as not taken.
    #[error(transparent)]
    Storage(Arc<Error>),

    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
}

impl FollowError {
    pub(super) fn from_storage(error: Error) -> FollowError {
        FollowError::Storage(Arc::new(error))
    }
}

/// A record of the leader's log, as it goes into this one.
pub(super) struct Shipped<'s> {
    kind: u8,
    first_version: u64,
    body: &'s [u8],
}

impl<'s> Shipped<'s> {
    pub fn of((record, logged): &(Record<'s>, Logged<'s>)) -> Shipped<'s> {
        Shipped {
            kind: record.kind,
            first_version: logged.first_version,
            body: record.body,
        }
    }
}

impl Body for Shipped<'_> {
    fn kind(&self) -> u8 {
        self.kind
    }

    fn number(&self) -> u64 {
        self.first_version
    }

    fn bytes(&self) -> usize {
        self.body.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.body);
    }
}

impl Committer {
    pub(super) fn take_in(&mut self, shipment: &Shipment) -> Outcome {
        let replication = self.replication.share();
        let Role::Follows { .. } = replication.role() else {
            return Err(FollowError::NotFollowing(replication.role().as_str()));
        };
        let has_checkpoint = self.checkpoints.has_one();
        let log = &mut self.log;
        let history = next_history(log, shipment, has_checkpoint)?;
        // What had expired there has here, also once it leads; not by a clock that is wrong.
        let leaders_ms =
            Some(shipment.now_ms).filter(|ms| *ms <= now_ms().saturating_add(EPOCH_AHEAD_MS_MAX));
        if shipment.bytes.is_empty() {
            self.index.clock().observe(leaders_ms.unwrap_or_default());
            return Ok(*lock(&replication.position));
        }
        BrokenRun::check("sequence", log.next_sequence(), shipment.first)
            .map_err(|broken| FollowError::Broken(broken.to_string()))?;
        let records = check_records(&shipment.bytes, log.next_sequence(), self.next_version)?;
        begin_epoch(log, &replication.dir, history, self.next_version).map_err(FollowError::Storage)?;
        let bodies: Vec<Shipped<'_>> = records.iter().map(Shipped::of).collect();
        let group: Vec<&Shipped<'_>> = bodies.iter().collect();
        log.append(&group)
            .map_err(|failure| FollowError::Storage(failure.error))?;
        self.index.clock().observe(leaders_ms.unwrap_or_default());
        for (_, logged) in &records {
            self.next_version += u64::from(logged.entry_count);
            self.index.clock().observe(logged.time_ms);
            let done = logged.replay(&self.index, false, |_| true);
            done.map_err(|broken| {
                // They are in the log and cannot take effect: nothing may be built on them.
                log.give_up(format!(
                    "records of the leader do not fit what this store has: {broken}; move this store's folder away and start it again: it takes a copy of the leader's"
                ));
                FollowError::Broken(broken.to_string())
            })?;
        }
        let mut position = lock(&replication.position);
        *position = Position {
            history: history.id,
            epoch: history.epoch,
            sequence: log.next_sequence() - 1,
            mark: records.last().map(|(record, _)| Mark {
                epoch: history.epoch,
                crc32c: record.content_crc32c(),
            }),
            partial: 0,
        };
        Ok(*position)
    }

    pub(super) fn promote(&mut self) -> Outcome {
        let replication = self.replication.share();
        let above = match replication.role() {
            Role::Leads => return Err(FollowError::NotFollowing(Role::Leads.as_str())),
            Role::Follows { .. } | Role::Unpromoted => 0,
            Role::Fenced { epoch } => epoch,
        };
        let log = &mut self.log;
        let History { epoch, id } = log.history().ok_or(FollowError::Empty)?;
        if log.next_sequence() == 1 && !self.checkpoints.has_one() {
            return Err(FollowError::Empty);
        }
        let epoch = next_epoch(epoch.max(above));
        let history = History { epoch, id };
        begin_epoch(log, &replication.dir, history, self.next_version).map_err(FollowError::Storage)?;
        let mut position = lock(&replication.position);
        position.epoch = history.epoch;
        let sequence = log.next_sequence() - 1;
        if position.sequence != sequence {
            (position.sequence, position.mark) = (sequence, None);
        }
        let promoted = *position;
        drop(position);
        for note in [Note::Follows, Note::Fenced] {
            if let Err(error) = note.remove(&replication.dir) {
                tracing::error!(%error, dir = %replication.dir.display(), "the promotion cannot be noted in the store's folder: promote it again after its next start");
            }
        }
        replication.set_role(Role::Leads);
        tracing::warn!(
            epoch = history.epoch,
            record = promoted.sequence,
            dir = %replication.dir.display(),
            "an ordered store was promoted: it takes writes from here on"
        );
        Ok(promoted)
    }
}

/// Milliseconds of Unix time.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// What is drawn keeps epochs apart that two stores begin at once, or two images of a store.
const DRAWN: u64 = 1024;
/// Epochs are so far apart that a leader may begin a thousand of its own at starts behind a loss of power, before a store is promoted by a clock that was
/// set back.
const APART: u64 = DRAWN * DRAWN;

/// The epoch of a leader that comes back, below that of any promotion.
pub(super) fn epoch_behind(known: u64) -> u64 {
    known.saturating_add(1).saturating_add(drawn())
}

fn drawn() -> u64 {
    RandomState::new().hash_one(0u8) % DRAWN
}

/// An epoch above all that are known, and above those that are not: they began earlier, or at starts of the store that led.
pub(super) fn next_epoch(known: u64) -> u64 {
    known.saturating_add(APART).max(now_ms()).saturating_add(drawn())
}

/// In which history records of the leader are written here.
fn next_history(log: &Log, shipment: &Shipment, has_checkpoint: bool) -> Result<History, FollowError> {
    let theirs = History {
        epoch: shipment.epoch,
        id: shipment.history,
    };
    let Some(ours) = log.history() else {
        return Ok(theirs);
    };
    if theirs.id != ours.id {
        // One that has nothing becomes a copy of anything.
        return match log.next_sequence() == 1 && !has_checkpoint {
            true => Ok(theirs),
            false => Err(FollowError::History {
                ours: ours.to_string(),
                theirs: theirs.to_string(),
            }),
        };
    }
    match theirs.epoch < ours.epoch {
        true => Err(FollowError::OlderEpoch {
            ours: ours.epoch,
            theirs: theirs.epoch,
        }),
        false => Ok(theirs),
    }
}

/// The records that bytes of a leader's log are, each following from the one before.
pub(super) fn check_records(
    bytes: &[u8],
    next_sequence: u64,
    next_version: u64,
) -> Result<Vec<(Record<'_>, Logged<'_>)>, FollowError> {
    let broken = |broken: BrokenRun| FollowError::Broken(broken.to_string());
    let (mut sequence, mut version, mut records) = (next_sequence, next_version, Vec::new());
    for record in records_in(&FORMAT, bytes) {
        let record = record.map_err(FollowError::Broken)?;
        let logged = Logged::of(&record);
        BrokenRun::check("sequence", sequence, record.sequence).map_err(broken)?;
        BrokenRun::check("version", version, logged.first_version).map_err(broken)?;
        sequence += 1;
        version += u64::from(logged.entry_count);
        records.push((record, logged));
    }
    Ok(records)
}

impl Store {
    /// Where its log ends, with the mark of the last record where the log has it. Reads the log where that is not known yet.
    ///
    /// # Errors
    /// The log cannot be read, or there is none.
    pub fn position(&self) -> Result<Position, Error> {
        let Some(shared) = &self.handle.replication else {
            return Err(Error::GivenUp("a store without a log has no followers"));
        };
        let end = self.log_end(shared)?;
        let partial = lock(&shared.pieces).bytes_of(end.sequence + 1);
        Ok(Position { partial, ..end })
    }

    fn log_end(&self, shared: &Replication) -> Result<Position, Error> {
        let known = *lock(&shared.position);
        let sequence = shared.last.load(Ordering::Acquire);
        if known.sequence == sequence && (known.mark.is_some() || sequence == 0) {
            return Ok(known);
        }
        let tail = Tail::behind(&FORMAT, &shared.dir, sequence)?;
        let mut position = lock(&shared.position);
        if position.sequence <= sequence {
            position.sequence = sequence;
            position.mark = tail.and_then(|tail| tail.before());
        }
        Ok(*position)
    }

    /// Has a follower's log take the leader's next records, and waits until they are durable as configured, and shown. Pieces of a record are
    /// kept until it is whole. Returns where its log ends then.
    ///
    /// # Errors
    /// They were not taken; see [`FollowError`].
    pub fn follow(&self, shipment: Shipment) -> Result<Position, FollowError> {
        let shared = self.replicates()?;
        let last = shipment.last;
        let taken = lock(&shared.pieces).take(shipment)?;
        // Reads say that it is behind while it writes what came.
        let mut heard = lock(&shared.heard);
        (heard.last, heard.is_connected) = (last, true);
        drop(heard);
        let position = match taken {
            Some(whole) => shared.ask_wait(Task::Apply(whole))?,
            None => *lock(&shared.position),
        };
        let mut heard = lock(&shared.heard);
        heard.is_caught_up = position.sequence >= last;
        if heard.is_caught_up {
            heard.caught_up = Some(Instant::now());
        }
        Ok(position)
    }

    /// The leader did not answer, or not what can be followed.
    pub fn lost_leader(&self) {
        if let Some(shared) = &self.handle.replication {
            lock(&shared.heard).is_connected = false;
            // Whoever answers next may have another record there.
            lock(&shared.pieces).clear();
        }
    }

    /// How far it is behind its leader; `None` where it follows nobody.
    pub fn lag(&self) -> Option<Lag> {
        let shared = self.handle.replication.as_ref()?;
        // Reads of a leader wait for no lock.
        if shared.leads.load(Ordering::Acquire) || !matches!(*lock(&shared.role), Role::Follows { .. }) {
            return None;
        }
        let heard = lock(&shared.heard);
        let records = heard.last.saturating_sub(shared.last.load(Ordering::Acquire));
        let since = |at: Instant| match heard.is_connected && heard.is_caught_up && records == 0 {
            true => 0,
            false => at.elapsed().as_millis() as u64,
        };
        Some(Lag {
            is_connected: heard.is_connected,
            records,
            ms: heard.caught_up.map(since),
        })
    }

    /// Lets a follower, or a leader that was fenced, lead: it begins the next epoch of its log, and takes writes from then on. Returns
    /// where its log ends.
    ///
    /// # Errors
    /// It leads already, has nothing, or its log cannot be written.
    pub fn promote(&self) -> Result<Position, FollowError> {
        let shared = self.replicates()?;
        let promoted = shared.ask_wait(Task::Promote)?;
        lock(&shared.pieces).clear();
        Ok(promoted)
    }

    pub(super) fn replicates(&self) -> Result<&Arc<Replication>, FollowError> {
        let shared = self.handle.replication.as_ref();
        shared.ok_or(FollowError::NotFollowing("a store without a log"))
    }
}
