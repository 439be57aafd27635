//! Answers a follower's questions for a copy, one after the other.
//!
//! Invariant: a follower whose records may be its own alone is given nothing that would replace them.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};

use millpond_wal::{History, Tail};

use super::{CopyAsk, CopyError, Piece, Wanted, may_replace};
use crate::Error;
use crate::checkpoint::bytes::{Foot, Head};
use crate::checkpoint::hold::NotHeld;
use crate::checkpoint::keeper::{Meet, is_held_back};
use crate::checkpoint::read::Opened;
use crate::checkpoint::{self, Checkpoint};
use crate::record::FORMAT;
use crate::replication::{Position, Replication, Role, ends, lock};

/// No more is read of a checkpoint at once.
const PIECE_BYTES_MAX: usize = 4 << 20;

/// A checkpoint that is held for a follower.
struct Given {
    head: Head,
    foot: Foot,
    file: File,
    /// Where it is in the log behind it.
    tail: Option<Tail>,
}

/// What the thread has between two questions.
pub(super) struct Giver<'r> {
    shared: &'r Replication,
    meet: &'r Meet,
    given: BTreeMap<String, Given>,
    /// A checkpoint that is written for whoever asks.
    awaited: Option<Receiver<Result<Checkpoint, Arc<Error>>>>,
}

impl<'r> Giver<'r> {
    pub fn new(shared: &'r Replication, meet: &'r Meet) -> Giver<'r> {
        Giver {
            shared,
            meet,
            given: BTreeMap::new(),
            awaited: None,
        }
    }

    pub fn answer(&mut self, ask: &CopyAsk) -> Result<Piece, CopyError> {
        if self.shared.role() != Role::Leads {
            return Err(self.shared.not_leader().into());
        }
        self.check(&ask.position)?;
        match ask.wanted {
            Wanted::Checkpoint => self.choose(ask),
            Wanted::Bytes { checkpoint, offset } => self.bytes(ask, checkpoint, offset),
            Wanted::Records {
                checkpoint,
                behind,
                partial,
            } => self.records(ask, checkpoint, (behind, partial)),
        }
    }

    /// Whether this store's records can stand for what the follower has.
    fn check(&self, has: &Position) -> Result<(), CopyError> {
        if has.sequence == 0 {
            return Ok(());
        }
        let ours = *lock(&self.shared.position);
        let last = self.shared.offered.load(Ordering::SeqCst);
        let refused = |why: String| Err(CopyError::Refused(why));
        if has.history != ours.history {
            return refused("it is a copy of another store, as their histories differ".into());
        }
        if has.epoch > ours.epoch {
            return refused(format!(
                "it is in epoch {}, and this store in epoch {}",
                has.epoch, ours.epoch
            ));
        }
        if has.sequence > last {
            return refused(format!(
                "it has record {}, and this store ends at record {last}",
                has.sequence
            ));
        }
        Ok(())
    }

    /// Holds a checkpoint for the follower, or has one written.
    fn choose(&mut self, ask: &CopyAsk) -> Result<Piece, CopyError> {
        if let Some(written) = self.awaited.take() {
            match written.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.awaited = Some(written);
                    return Ok(self.being_written());
                }
                Ok(Ok(_)) => {}
                // It is asked for again.
                Ok(Err(error)) if is_held_back(&error) => {}
                Ok(Err(error)) => return Err(CopyError::Storage(error)),
                Err(TryRecvError::Disconnected) => return Err(CopyError::Closed),
            }
        }
        let has = ask.position;
        let epoch = History {
            epoch: has.epoch,
            id: has.history,
        };
        let epoch_last = ends::last_of(&self.shared.dir, epoch);
        let will_do = |opened: &Opened| {
            let theirs = (opened.head.sequence, opened.head.history);
            may_replace((has.sequence, epoch), theirs, epoch_last).is_ok()
        };
        match self
            .meet
            .holds
            .hold(&self.shared.dir, &ask.follower, None, will_do)
        {
            Ok(opened) => Ok(Piece {
                epoch_last,
                ..self.open(&ask.follower, opened).piece(Vec::new(), 0)
            }),
            Err(NotHeld::Absent) => {
                self.check_epoch(&has, epoch_last)?;
                self.awaited = Some(self.meet.ask());
                Ok(self.being_written())
            }
            Err(error) => Err(not_held(error, 0)),
        }
    }

    /// Whether a checkpoint of this store's epoch will do.
    fn check_epoch(&self, has: &Position, epoch_last: u64) -> Result<(), CopyError> {
        let ours = lock(&self.shared.position).epoch;
        if has.sequence == 0 || has.epoch == ours || has.sequence <= epoch_last {
            return Ok(());
        }
        let why = match epoch_last {
            0 => format!(
                "its records are of epoch {}, this store is in epoch {ours}, and it is not known any more where the one ended",
                has.epoch
            ),
            _ => format!(
                "it has record {}, and its epoch {} ended with record {epoch_last} here",
                has.sequence, has.epoch
            ),
        };
        Err(CopyError::Refused(why))
    }

    fn being_written(&self) -> Piece {
        let ours = *lock(&self.shared.position);
        Piece {
            history: ours.history,
            epoch: ours.epoch,
            checkpoint: 0,
            length: 0,
            last_sequence: 0,
            first: 0,
            bytes: Vec::new(),
            skipped: 0,
            rest: 0,
            epoch_last: 0,
        }
    }

    /// Keeps a checkpoint that is held for a follower open.
    fn open(&mut self, follower: &str, opened: Opened) -> &mut Given {
        let (head, foot) = (opened.head, opened.foot);
        let given = Given {
            head,
            foot,
            file: opened.into_file(),
            tail: None,
        };
        let entry = self.given.entry(follower.to_owned());
        entry.insert_entry(given).into_mut()
    }

    /// Closes the files whose holds have ended: the disk may have their space again.
    pub fn close_ended(&mut self) {
        let holds = &self.meet.holds;
        self.given
            .retain(|name, given| holds.is_held(name, given.head.sequence));
    }

    /// The checkpoint that a follower goes on with. Behind a restart of this process it is held anew.
    fn held(&mut self, ask: &CopyAsk, checkpoint: u64) -> Result<&mut Given, CopyError> {
        let holds = &self.meet.holds;
        let is_known = self
            .given
            .get(&ask.follower)
            .is_some_and(|given| given.head.sequence == checkpoint);
        if !is_known || !holds.renew(&ask.follower, checkpoint) {
            let found = holds.hold(&self.shared.dir, &ask.follower, Some(checkpoint), |_| true);
            let opened = found.map_err(|error| not_held(error, checkpoint))?;
            return Ok(self.open(&ask.follower, opened));
        }
        self.given
            .get_mut(&ask.follower)
            .ok_or(CopyError::Gone(checkpoint))
    }

    fn bytes(&mut self, ask: &CopyAsk, checkpoint: u64, offset: u64) -> Result<Piece, CopyError> {
        let shared = self.shared;
        let given = self.held(ask, checkpoint)?;
        let length = given.foot.length;
        if offset > length {
            return Err(CopyError::Offset {
                found: offset,
                length,
            });
        }
        let left = usize::try_from(length - offset).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(ask.bytes_max).min(PIECE_BYTES_MAX)];
        given.file.read_exact_at(&mut bytes, offset).map_err(|source| {
            CopyError::Storage(Arc::new(Error::Read {
                file: checkpoint::path(&shared.dir, checkpoint),
                action: "read the checkpoint",
                source,
            }))
        })?;
        Ok(given.piece(bytes, offset))
    }

    /// What is held back until a follower has it is given too: without it, a copy that it shows in could not be whole.
    fn records(
        &mut self,
        ask: &CopyAsk,
        checkpoint: u64,
        (behind, partial): (u64, u64),
    ) -> Result<Piece, CopyError> {
        let shared = self.shared;
        let last = shared.offered.load(Ordering::SeqCst);
        let given = self.held(ask, checkpoint)?;
        if behind > last || behind.saturating_add(1) < checkpoint {
            return Err(CopyError::Gone(checkpoint));
        }
        let failed = |error| CopyError::Storage(Arc::new(error));
        let mut tail = match given.tail.take() {
            Some(tail) if tail.next_sequence() == behind + 1 => tail,
            _ => {
                let tail = Tail::behind(&FORMAT, &shared.dir, behind).map_err(failed)?;
                tail.ok_or(CopyError::Gone(checkpoint))?
            }
        };
        let taken = tail.take(last, partial, ask.bytes_max).map_err(failed)?;
        let taken = taken.ok_or(CopyError::Gone(checkpoint))?;
        given.tail = Some(tail);
        let history = taken.history.unwrap_or(given.head.history);
        Ok(Piece {
            history: history.id,
            epoch: history.epoch,
            skipped: taken.skipped,
            rest: taken.rest,
            ..given.piece(taken.bytes, taken.first)
        })
    }
}

impl Given {
    fn piece(&self, bytes: Vec<u8>, first: u64) -> Piece {
        Piece {
            history: self.head.history.id,
            epoch: self.head.history.epoch,
            checkpoint: self.head.sequence,
            length: self.foot.length,
            last_sequence: self.foot.last_sequence,
            first,
            bytes,
            skipped: 0,
            rest: 0,
            epoch_last: 0,
        }
    }
}

fn not_held(error: NotHeld, checkpoint: u64) -> CopyError {
    match error {
        NotHeld::TooMany => CopyError::TooMany,
        NotHeld::Absent => CopyError::Gone(checkpoint),
        NotHeld::Failed(error) => CopyError::Storage(Arc::new(error)),
    }
}
