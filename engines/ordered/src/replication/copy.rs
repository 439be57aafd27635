//! A leader's part in a follower's copy: pieces of a checkpoint, and the records behind it, while the store goes on.
//!
//! A thread of its own reads and answers; it begins with the first question. Invariant: what a follower is given pieces of stays until it
//! follows, or its hold ends; where no checkpoint will do, one is written by the usual way.

mod serve;

use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use millpond_wal::{Disk, History};

use super::{NotLeader, Position, Replication, lock};
use crate::checkpoint::keeper::Meet;
use crate::{Error, Store};

/// How often it is looked which files nobody needs any more.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Questions that wait at a time.
const WAITING_MAX: usize = 64;

/// A follower's question for a part of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyAsk {
    /// Its name, the same in all its questions, those for records too.
    pub follower: String,
    /// Where its log ends.
    pub position: Position,
    /// What it is to have next.
    pub wanted: Wanted,
    /// At most this many bytes are sent at once, of a checkpoint or of records.
    pub bytes_max: usize,
}

/// What a follower is to have next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Which checkpoint there is.
    Checkpoint,
    /// Bytes of that one.
    Bytes {
        /// Its sequence.
        checkpoint: u64,
        /// From where on.
        offset: u64,
    },
    /// Records of the log behind it.
    Records {
        /// Its sequence.
        checkpoint: u64,
        /// The last record that the follower has of them, or the one before the first.
        behind: u64,
        /// Bytes of the next one that it has.
        partial: u64,
    },
}

/// A part of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Of the leader's log.
    pub history: [u8; 16],
    /// The checkpoint's, or that in which the records were written.
    pub epoch: u64,
    /// The checkpoint's sequence; 0 while it is being written.
    pub checkpoint: u64,
    /// Bytes of its file.
    pub length: u64,
    /// The last record that may show in it: the copy is whole with the records up to there.
    pub last_sequence: u64,
    /// Where the bytes begin: in the checkpoint's file, or which record is the first.
    pub first: u64,
    /// Of the file, or records as they lie in the log, or a piece of one.
    pub bytes: Vec<u8>,
    /// Of a piece of a record: bytes before it.
    pub skipped: u64,
    /// Of a piece of a record: bytes behind it.
    pub rest: u64,
    /// Where the checkpoint is named: with which record the follower's epoch ended in this log, where that is known and it has; else 0.
    pub epoch_last: u64,
}

/// Why a follower gets no part of a copy.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The store leads nobody.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),

    /// The follower's log is another one, or may have gone another way.
    #[error(
        "a copy would replace what the follower may have alone: {0}; if that is not wanted, move the follower's folder away and start it again"
    )]
    Refused(String),

    /// The checkpoint is not held any more.
    #[error("checkpoint {0} is not held for this follower any more; begin the copy anew")]
    Gone(u64),

    /// A place that the checkpoint does not have.
    #[error("offset {found}, and the checkpoint has {length} bytes")]
    Offset {
        /// The place.
        found: u64,
        /// The checkpoint's.
        length: u64,
    },

    /// More followers than may copy at a time.
    #[error("too many followers copy this store already; try again later")]
    TooMany,

    /// The checkpoint or the log cannot be read, or no checkpoint be written.
    #[error(transparent)]
    Storage(Arc<Error>),

    /// The store is closed or closing, or keeps no log.
    #[error("the store is closed, or keeps no log")]
    Closed,
}

/// Called once with the answer, on the thread that reads for copies.
pub type CopyDone = Box<dyn FnOnce(Result<Piece, CopyError>) + Send + 'static>;

/// How far a follower's copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyProgress {
    /// Bytes of the leader's checkpoint that are there.
    pub bytes: u64,
    /// Bytes of all of it; 0 until that is known.
    pub of_bytes: u64,
    /// Whether it is taken in, so that reads are refused.
    pub is_installing: bool,
}

/// Whether a leader's checkpoint, of that sequence and history, can stand for what a store has, its last record and its history; why not, if not. A store
/// without a record becomes a copy of anything. One epoch has one writer: records of the checkpoint's epoch are those that it stands for, and records of
/// an earlier one are, up to the record with which that ended in the leader's log.
pub(super) fn may_replace(
    (last, ours): (u64, History),
    (sequence, theirs): (u64, History),
    epoch_last: u64,
) -> Result<(), String> {
    let is_known = ours.epoch == theirs.epoch || (ours.epoch < theirs.epoch && last <= epoch_last);
    if last == 0 {
        Ok(())
    } else if ours.id != theirs.id {
        Err("their histories differ".to_owned())
    } else if !is_known {
        Err(format!(
            "it is of epoch {}, and this store in epoch {}",
            theirs.epoch, ours.epoch
        ))
    } else if last >= sequence {
        Err(format!(
            "it stands for the records before {sequence}, and this store has record {last}"
        ))
    } else {
        Ok(())
    }
}

#[derive(Default)]
struct State {
    waiting: Vec<(CopyAsk, CopyDone)>,
    is_started: bool,
    is_stopped: bool,
}

/// What copies need, of a leader and of a follower.
pub(crate) struct Copies {
    state: Mutex<State>,
    changed: Condvar,
    /// Where a follower writes what it copies, and how large its segments are.
    pub disk: Arc<dyn Disk>,
    pub segment_bytes_max: u64,
    pub progress: Mutex<Option<CopyProgress>>,
    pub(super) shield: super::shield::Shield,
}

impl Copies {
    /// Of a store on that disk, with segments of that size.
    pub fn new(disk: Arc<dyn Disk>, segment_bytes_max: u64) -> Copies {
        Copies {
            state: Mutex::default(),
            changed: Condvar::new(),
            disk,
            segment_bytes_max,
            progress: Mutex::default(),
            shield: super::shield::Shield::default(),
        }
    }

    pub fn stop(&self) {
        lock(&self.state).is_stopped = true;
        self.changed.notify_all();
    }

    /// Waits for questions, for so long at most; none once the store is closed.
    fn next(&self, longest: Duration) -> Option<Vec<(CopyAsk, CopyDone)>> {
        let waits = |state: &mut State| state.waiting.is_empty() && !state.is_stopped;
        let waited = self.changed.wait_timeout_while(lock(&self.state), longest, waits);
        let (mut state, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        match state.is_stopped {
            true => None,
            false => Some(std::mem::take(&mut state.waiting)),
        }
    }
}

impl Replication {
    /// Answers questions until the store is closed.
    fn give_copies(&self, meet: &Meet) {
        let mut giver = serve::Giver::new(self, meet);
        while let Some(asked) = self.copies.next(LOOK_EVERY) {
            for (ask, done) in asked {
                done(giver.answer(&ask));
            }
            giver.close_ended();
        }
        let left = std::mem::take(&mut lock(&self.copies.state).waiting);
        for (_, done) in left {
            done(Err(CopyError::Closed));
        }
    }
}

impl Store {
    /// Gives a follower a part of a copy of this store. Where a checkpoint has to be written for it first, the answer says so at once, and
    /// the follower asks again.
    pub fn copy(&self, ask: CopyAsk, done: CopyDone) {
        let parts = self.handle.replication.as_ref().zip(self.handle.meet.as_ref());
        let Some((shared, meet)) = parts else {
            return done(Err(CopyError::Closed));
        };
        let mut state = lock(&shared.copies.state);
        let refused = match (state.is_stopped, state.waiting.len() < WAITING_MAX) {
            (true, _) => Some(CopyError::Closed),
            (false, false) => Some(CopyError::TooMany),
            (false, true) => None,
        };
        if let Some(error) = refused {
            drop(state);
            return done(Err(error));
        }
        if !state.is_started {
            let (serves, meet) = (Arc::clone(shared), Arc::clone(meet));
            let thread = thread::Builder::new().name("ordered-copy".into());
            match thread.spawn(move || serves.give_copies(&meet)) {
                Ok(_) => state.is_started = true,
                Err(error) => {
                    drop(state);
                    return done(Err(CopyError::Storage(Arc::new(Error::Thread(error)))));
                }
            }
        }
        state.waiting.push((ask, done));
        drop(state);
        shared.copies.changed.notify_all();
    }

    /// Followers that copy it now.
    pub fn copies_given(&self) -> usize {
        self.handle.meet.as_ref().map_or(0, |meet| meet.holds.count())
    }

    /// How far its copy of its leader's store is, while it takes one.
    pub fn copy_progress(&self) -> Option<CopyProgress> {
        let copies = &self.handle.replication.as_ref()?.copies;
        let progress = *lock(&copies.progress);
        progress.map(|progress| CopyProgress {
            is_installing: copies.shield.is_raised(),
            ..progress
        })
    }
}
