//! A follower's part in a copy: what its leader gives goes into files beside the store's own, until it is whole.
//!
//! Whoever asks the leader does this; the log thread goes on meanwhile. Invariant: the store's own files are not touched, and what is
//! called whole is a sound checkpoint of the leader's, with all records that it needs, on the disk.

use std::io;
use std::path::Path;
use std::sync::Arc;

use millpond_wal::{Begin, BrokenRun, Disk, Durability, History, Log, LogFile, Recovered, write_all};

use super::aside::{Aside, aside, clear};
use super::copy::{CopyProgress, Piece, Wanted, may_replace};
use super::desk::Task;
use super::follow::{FollowError, Shipped, check_records};
use super::{Pieces, Position, Replication, Shipment, lock};
use crate::checkpoint::read::Opened;
use crate::checkpoint::{bytes::Head, look_for_room, path};
use crate::error::folder_error;
use crate::record::FORMAT;
use crate::recover::Reporter;
use crate::{Error, Store};

/// So much of a checkpoint is synced at once.
const SYNCED_BYTES: u64 = 16 << 20;

/// Why a part of a copy was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// What came is not of the same copy, or is damaged: it is begun anew.
    #[error("the copy is begun anew: {0}")]
    Anew(String),

    /// It would replace what this store may have alone.
    #[error(
        "the leader's checkpoint cannot take the place of what this store has: {0}; move this store's folder away and start it again: it takes a copy"
    )]
    Refused(String),

    /// The disk.
    #[error(transparent)]
    Storage(#[from] Error),
}

/// What came of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Took {
    /// The leader has nothing yet: ask again a little later.
    Nothing,
    /// There is more.
    Part,
    /// All is there: [`Incoming::install`] it.
    Whole,
}

/// A copy of the leader's store that is being taken.
pub struct Incoming {
    shared: Arc<Replication>,
    stage: Stage,
    /// [`Piece::epoch_last`] of the first piece.
    epoch_last: u64,
}

/// What the leader said of its checkpoint, the same in all pieces of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named {
    sequence: u64,
    length: u64,
    last_sequence: u64,
}

enum Stage {
    Begins,
    Checkpoint {
        named: Named,
        file: Box<dyn LogFile>,
        come: u64,
        synced: u64,
    },
    Records {
        named: Named,
        head: Head,
        log: Box<Log>,
        next_version: u64,
        pieces: Pieces,
    },
    Whole {
        head: Head,
    },
}

impl Store {
    /// Begins to take a copy of its leader's store. What an earlier attempt has left is removed.
    ///
    /// # Errors
    /// It follows nobody, or its folder cannot be written.
    pub fn take_copy(&self) -> Result<Incoming, FollowError> {
        let shared = self.replicates()?;
        let role = shared.role();
        if !matches!(role, super::Role::Follows { .. }) {
            return Err(FollowError::NotFollowing(role.as_str()));
        }
        let cleared = clear(&*shared.copies.disk, &shared.dir);
        cleared.map_err(FollowError::from_storage)?;
        *lock(&shared.copies.progress) = Some(CopyProgress::default());
        // The leader has had more than it could be given.
        lock(&shared.heard).is_caught_up = false;
        Ok(Incoming {
            shared: Arc::clone(shared),
            stage: Stage::Begins,
            epoch_last: 0,
        })
    }
}

impl Incoming {
    /// What to ask the leader for next.
    pub fn wanted(&self) -> Wanted {
        match &self.stage {
            Stage::Begins | Stage::Whole { .. } => Wanted::Checkpoint,
            Stage::Checkpoint { named, come, .. } => Wanted::Bytes {
                checkpoint: named.sequence,
                offset: *come,
            },
            Stage::Records {
                named, log, pieces, ..
            } => Wanted::Records {
                checkpoint: named.sequence,
                behind: log.next_sequence() - 1,
                partial: pieces.bytes_of(log.next_sequence()),
            },
        }
    }

    /// Takes what the leader answered to that.
    ///
    /// # Errors
    /// It is none of this copy, or damaged, or the disk failed; the copy is to be begun anew then.
    pub fn take(&mut self, piece: &Piece) -> Result<Took, TakeError> {
        let (disk, dir) = (Arc::clone(&self.shared.copies.disk), self.shared.dir.clone());
        let named = Named {
            sequence: piece.checkpoint,
            length: piece.length,
            last_sequence: piece.last_sequence,
        };
        let expected = match &self.stage {
            Stage::Begins if piece.checkpoint == 0 => return Ok(Took::Nothing),
            Stage::Begins => {
                self.begin(&*disk, &dir, piece, named)?;
                return Ok(Took::Part);
            }
            Stage::Whole { .. } => return Ok(Took::Whole),
            Stage::Checkpoint { named, .. } | Stage::Records { named, .. } => *named,
        };
        if named != expected {
            let why = format!("a part of {named:?} came, and {expected:?} is copied");
            return Err(TakeError::Anew(why));
        }
        match &mut self.stage {
            Stage::Checkpoint { .. } => self.take_bytes(&disk, &dir, piece),
            Stage::Records { .. } => self.take_records(&*disk, &dir, piece),
            Stage::Begins | Stage::Whole { .. } => Ok(Took::Nothing),
        }
    }

    /// Makes the file that the checkpoint goes to.
    fn begin(&mut self, disk: &dyn Disk, dir: &Path, piece: &Piece, named: Named) -> Result<(), TakeError> {
        let has = *lock(&self.shared.position);
        check_place(&has, piece)?;
        self.epoch_last = piece.epoch_last;
        look_for_room(dir, named.length)
            .map_err(|source| folder_error(dir, "begin a copy of the leader's store in it", source))?;
        let file = disk.create(&aside(&path(dir, named.sequence)));
        let file = file.map_err(|source| folder_error(dir, "make the file of a copy", source))?;
        self.progress(0, named.length);
        let mut heard = lock(&self.shared.heard);
        (heard.last, heard.is_connected) = (heard.last.max(named.last_sequence), true);
        drop(heard);
        self.stage = Stage::Checkpoint {
            named,
            file,
            come: 0,
            synced: 0,
        };
        Ok(())
    }

    fn progress(&self, bytes: u64, of_bytes: u64) {
        *lock(&self.shared.copies.progress) = Some(CopyProgress {
            bytes,
            of_bytes,
            is_installing: false,
        });
    }

    fn take_bytes(&mut self, disk: &Arc<dyn Disk>, dir: &Path, piece: &Piece) -> Result<Took, TakeError> {
        let Stage::Checkpoint {
            named,
            file,
            come,
            synced,
        } = &mut self.stage
        else {
            return Ok(Took::Nothing);
        };
        let failed = |source| TakeError::Storage(folder_error(dir, "write a copy to it", source));
        let left = named.length - *come;
        if piece.first != *come || piece.bytes.is_empty() || piece.bytes.len() as u64 > left {
            let (count, from) = (piece.bytes.len(), piece.first);
            let why = format!("{count} bytes from offset {from} came, and those from {come} are wanted");
            return Err(TakeError::Anew(why));
        }
        write_all(&**file, &piece.bytes, *come).map_err(failed)?;
        *come += piece.bytes.len() as u64;
        let is_whole = *come == named.length;
        if is_whole || *come - *synced >= SYNCED_BYTES {
            file.sync().map_err(failed)?;
            *synced = *come;
        }
        let (named, come) = (*named, *come);
        self.progress(come, named.length);
        if !is_whole {
            return Ok(Took::Part);
        }
        let head = verify(dir, named, piece)?;
        let begin = Begin {
            sequence: head.sequence,
            number: head.first_version,
        };
        let log = Log::open(
            &FORMAT,
            Arc::new(Aside(Arc::clone(disk))),
            dir,
            Durability::Logged,
            self.shared.copies.segment_bytes_max,
            &Recovered::none(&FORMAT, begin, Some(head.history)),
        )?;
        self.stage = Stage::Records {
            named,
            head,
            log: Box::new(log),
            next_version: head.first_version,
            pieces: Pieces::default(),
        };
        self.finish_if_whole(&**disk, dir)
    }

    fn take_records(&mut self, disk: &dyn Disk, dir: &Path, piece: &Piece) -> Result<Took, TakeError> {
        let Stage::Records {
            named,
            log,
            next_version,
            pieces,
            ..
        } = &mut self.stage
        else {
            return Ok(Took::Nothing);
        };
        if piece.bytes.is_empty() {
            return Ok(Took::Nothing);
        }
        let come = pieces.take(piece.shipment(named.last_sequence));
        let Some(piece) = come.map_err(|error| TakeError::Anew(error.to_string()))? else {
            return Ok(Took::Part);
        };
        let anew = |broken: BrokenRun| TakeError::Anew(broken.to_string());
        let theirs = History {
            epoch: piece.epoch,
            id: piece.history,
        };
        let ours = log.history().unwrap_or(theirs);
        if theirs.id != ours.id || theirs.epoch < ours.epoch {
            let why = format!("records of history {theirs} came behind those of {ours}");
            return Err(TakeError::Anew(why));
        }
        BrokenRun::check("sequence", log.next_sequence(), piece.first).map_err(anew)?;
        let records = check_records(&piece.bytes, log.next_sequence(), *next_version);
        let records = records.map_err(|error| TakeError::Anew(error.to_string()))?;
        let storage = |error: Arc<Error>| {
            folder_error(
                dir,
                "write records of a copy to it",
                io::Error::other(error.to_string()),
            )
        };
        log.begin_epoch(theirs, *next_version).map_err(storage)?;
        let bodies: Vec<Shipped<'_>> = records.iter().map(Shipped::of).collect();
        let group: Vec<&Shipped<'_>> = bodies.iter().collect();
        log.append(&group).map_err(|failure| storage(failure.error))?;
        *next_version += records
            .iter()
            .map(|(_, logged)| u64::from(logged.entry_count))
            .sum::<u64>();
        self.finish_if_whole(disk, dir)
    }

    /// Brings all of it to the disk once the records up to the checkpoint's end are there.
    fn finish_if_whole(&mut self, disk: &dyn Disk, dir: &Path) -> Result<Took, TakeError> {
        let Stage::Records { named, head, log, .. } = &self.stage else {
            return Ok(Took::Nothing);
        };
        if log.next_sequence() <= named.last_sequence {
            return Ok(Took::Part);
        }
        let head = *head;
        if let Stage::Records { log, .. } = std::mem::replace(&mut self.stage, Stage::Whole { head }) {
            log.finish()?;
        }
        disk.sync_dir(dir)
            .map_err(|source| folder_error(dir, "sync it behind a copy", source))?;
        Ok(Took::Whole)
    }

    /// Puts the copy in the place of what the store has, durably, and shows it. Reads are refused while that goes on; the log thread does it.
    /// Returns where its log ends then.
    ///
    /// # Errors
    /// The copy is not whole, the store was promoted meanwhile, or its folder cannot be written; [`FollowError::Busy`] where it is to be
    /// called again a little later.
    pub fn install(&mut self) -> Result<Position, FollowError> {
        let Stage::Whole { head } = self.stage else {
            return Err(FollowError::Broken("the copy is not whole".into()));
        };
        self.shared.ask_wait(Task::Install(head, self.epoch_last))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        *lock(&self.shared.copies.progress) = None;
    }
}

impl Piece {
    fn shipment(&self, last: u64) -> Shipment {
        Shipment {
            history: self.history,
            epoch: self.epoch,
            first: self.first,
            last,
            bytes: self.bytes.clone(),
            skipped: self.skipped,
            rest: self.rest,
            now_ms: 0,
        }
    }
}

/// Whether the checkpoint that the leader names can stand for what this store has.
fn check_place(has: &Position, piece: &Piece) -> Result<(), TakeError> {
    let history = |epoch, id| History { epoch, id };
    let ours = (has.sequence, history(has.epoch, has.history));
    let theirs = (piece.checkpoint, history(piece.epoch, piece.history));
    may_replace(ours, theirs, piece.epoch_last).map_err(TakeError::Refused)
}

/// Reads all of the checkpoint that came.
fn verify(dir: &Path, named: Named, piece: &Piece) -> Result<Head, TakeError> {
    let unsound = |why: String| TakeError::Anew(format!("the checkpoint that came is unsound: {why}"));
    let file = aside(&path(dir, named.sequence));
    let opened = Opened::open_at(file, named.sequence).map_err(|bad| unsound(bad.to_string()))?;
    let (head, foot) = (opened.head, opened.foot);
    let mut report = |_: &crate::Progress| ();
    opened
        .read(|_| (), &mut Reporter::new("checkpoint", &mut report))
        .map_err(|bad| unsound(bad.to_string()))?;
    let is_named = head.history.id == piece.history
        && head.history.epoch == piece.epoch
        && foot.last_sequence == named.last_sequence;
    match is_named {
        true => Ok(head),
        false => Err(unsound("it is another one than the leader has named".into())),
    }
}
