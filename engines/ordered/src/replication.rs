//! One store, its leader, takes writes; others, its followers, have the records of its log in logs of their own.
//!
//! `ship` reads a leader's log for followers, `follow` puts what they get into theirs and promotes them. Nothing here knows a
//! network. Invariants: a follower's log is the beginning of its leader's, record by record; a store that has heard of a higher epoch of
//! its history takes no write until it is promoted itself.

mod acknowledge;
pub(crate) mod aside;
mod copy;
mod desk;
mod ends;
mod follow;
mod incoming;
mod install;
mod note;
mod pieces;
mod shield;
mod ship;

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millpond_wal::{History, Log, Queue};

use crate::error::{WriteError, folder_error};
use crate::store::Handle;
use crate::write::Write;
use crate::{Durability, Error, Store};
pub(crate) use acknowledge::Acks;
use desk::Desk;
pub(crate) use note::Note;
use pieces::Pieces;
use ship::Shipping;
pub(crate) use ship::WAIT_MAX;

pub use acknowledge::{Acknowledge, Unacknowledged};
pub(crate) use copy::Copies;
pub use copy::{CopyAsk, CopyDone, CopyError, CopyProgress, Piece, Wanted};
pub use follow::FollowError;
pub use incoming::{Incoming, TakeError, Took};
pub use shield::TakesCopy;
pub use ship::{FollowerSeen, Pull, PullDone, PullError};

/// What the log says of a leader that leads no more.
const REPLACED: &str = "another server leads this ordered store by now: writes are refused here; let it follow that server (docs/operations.md)";

/// What it says of a store that followed and is opened without a leader.
const ORPHANED: &str = "this ordered store has another server's records and was not promoted: writes are refused here; name its leader in \"follow\", or promote it (docs/operations.md)";
/// How far the epoch of another store may be ahead of this machine's clock: epochs are moments, and whoever could name any would stop a leader for good.
const EPOCH_AHEAD_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// What a store is to the others that have its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It takes writes.
    Leads,
    /// It has the records of a leader.
    Follows {
        /// As [`crate::Options::follows`] says it.
        leader: Arc<str>,
    },
    /// It led, and another store was promoted since.
    Fenced {
        /// That store's epoch.
        epoch: u64,
    },
    /// It has another server's records, and neither follows it now nor was promoted.
    Unpromoted,
}

impl Role {
    /// "leader", "follower", "fenced" or "unpromoted".
    pub fn as_str(&self) -> &'static str {
        match self {
            Role::Leads => "leader",
            Role::Follows { .. } => "follower",
            Role::Fenced { .. } => "fenced",
            Role::Unpromoted => "unpromoted",
        }
    }
}

/// A write came to a store that takes none, for what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLeader(Role);

impl NotLeader {
    /// Where writes are taken, as far as this store knows it.
    pub fn leader(&self) -> Option<&str> {
        match &self.0 {
            Role::Follows { leader } => Some(leader),
            Role::Leads | Role::Fenced { .. } | Role::Unpromoted => None,
        }
    }
}

impl fmt::Display for NotLeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the leader: ")?;
        match &self.0 {
            Role::Follows { leader } => {
                write!(f, "this store follows {leader}, which takes its writes; write there")
            }
            Role::Fenced { epoch } => write!(
                f,
                "another server leads this store, in epoch {epoch}; write there"
            ),
            Role::Unpromoted => f.write_str(
                "this store has another server's records and was not promoted; name its leader in \"follow\", or promote it",
            ),
            // It was promoted a moment ago.
            Role::Leads => f.write_str("the role of this store has just changed; try again"),
        }
    }
}

impl std::error::Error for NotLeader {}

/// Where a log ends: what a follower has, by its own durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Of the log that it is of.
    pub history: [u8; 16],
    /// The log's.
    pub epoch: u64,
    /// The last record; 0 where there is none.
    pub sequence: u64,
    /// Of that record, where the log still has it.
    pub mark: Option<millpond_wal::Mark>,
    /// Bytes of the next record that have come: what is asked for is behind them.
    pub partial: u64,
}

/// Records on their way from a leader's log to a follower's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipment {
    /// Of the leader's log.
    pub history: [u8; 16],
    /// In which the records were written; the leader's own where there are none.
    pub epoch: u64,
    /// The sequence of the first.
    pub first: u64,
    /// The leader's last record.
    pub last: u64,
    /// As they lie in the leader's log, or a piece of the first; empty where nothing came in time.
    pub bytes: Vec<u8>,
    /// Of a piece: bytes of its record before it.
    pub skipped: u64,
    /// Of a piece: bytes of its record behind it.
    pub rest: u64,
    /// The leader's time, in milliseconds of Unix time.
    pub now_ms: u64,
}

/// How far a follower is behind its leader, as far as it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    /// Whether the leader answered the last question.
    pub is_connected: bool,
    /// Records that the leader had then, and this store has not.
    pub records: u64,
    /// Since it last had all that its leader had; `None` where it never did.
    pub ms: Option<u64>,
}

/// Replication state that all threads of a store share.
pub(crate) struct Replication {
    dir: PathBuf,
    /// Whether `role` is [`Role::Leads`].
    leads: AtomicBool,
    role: Mutex<Role>,
    /// The last record that is in the log, by its durability, and shown.
    last: AtomicU64,
    /// The last one that is in the log by its durability, shown or held back until a follower has it: followers get all of them.
    offered: AtomicU64,
    pub acknowledge: Acknowledge,
    pub acks: Acks,
    position: Mutex<Position>,
    heard: Mutex<Heard>,
    /// Of a record that comes in several answers.
    pieces: Mutex<Pieces>,
    desk: Mutex<Desk>,
    /// Whether the log thread has something to look at.
    is_awaited: AtomicBool,
    queue: Arc<Queue<Write>>,
    shipping: Shipping,
    copies: Copies,
}

/// What a follower knows of its leader.
#[derive(Debug, Default)]
struct Heard {
    is_connected: bool,
    last: u64,
    /// Whether it had all that the leader had when that answered last.
    is_caught_up: bool,
    caught_up: Option<Instant>,
}

impl Replication {
    /// Of a store that is opened; `log` is its log, and whether there is a checkpoint. A copy that leads begins an epoch of its own, and so does a
    /// leader whose log may have lost records that followers have: what it writes in their place is told from them by that. The second is below
    /// that of any promotion: a server that comes back does not replace the one that was promoted meanwhile.
    ///
    /// # Errors
    /// Whether it leads cannot be read, or noted.
    pub fn open(
        dir: &Path,
        queue: Arc<Queue<Write>>,
        (log, next_version, has_checkpoint): (&mut Log, u64, bool),
        (follows, acknowledge, durability): (Option<String>, Acknowledge, Durability),
        copies: Copies,
    ) -> Result<Replication, Error> {
        let sequence = log.next_sequence() - 1;
        let has_any = sequence > 0 || has_checkpoint;
        let role = Replication::begins_as(dir, follows, epoch_of(log), has_any)?;
        let looked = Note::Copied.is_in(dir);
        let is_copy = looked.map_err(|source| folder_error(dir, "look for its file \"copied\"", source))?;
        let looked = note::may_have_lost(dir);
        let may_have_lost = looked.map_err(|source| folder_error(dir, "read its file \"open\"", source))?;
        let next: Option<fn(u64) -> u64> = match &role {
            Role::Leads if is_copy => Some(follow::next_epoch),
            // Also where nothing is left of what followers have; and of a store that was replaced, should it lead again.
            Role::Leads | Role::Fenced { .. } if may_have_lost => Some(follow::epoch_behind),
            _ => None,
        };
        if let Some((next, history)) = next.zip(log.history()) {
            let epoch = next(history.epoch);
            let begun = ends::begin_epoch(log, dir, History { epoch, ..history }, next_version);
            begun.map_err(|error| {
                let source = std::io::Error::other(error.to_string());
                folder_error(dir, "begin an epoch in its log", source)
            })?;
        }
        // Behind the epoch: a start that was broken off before is made again.
        let noted = match durability {
            Durability::Logged => Note::Open.write(dir, &note::run_of_system()),
            Durability::Synced | Durability::Memory => Note::Open.remove(dir),
        };
        noted.map_err(|source| folder_error(dir, "note in it that it is open", source))?;
        if is_copy {
            let removed = Note::Copied.remove(dir);
            removed.map_err(|source| folder_error(dir, "remove its file \"copied\"", source))?;
        }
        let History { epoch, id } = log.history().unwrap_or(History {
            epoch: 0,
            id: [0; 16],
        });
        Ok(Replication {
            dir: dir.to_owned(),
            leads: AtomicBool::new(role == Role::Leads),
            role: Mutex::new(role),
            last: AtomicU64::new(sequence),
            offered: AtomicU64::new(sequence),
            acknowledge,
            acks: Acks::default(),
            position: Mutex::new(Position {
                history: id,
                epoch,
                sequence,
                mark: None,
                partial: 0,
            }),
            heard: Mutex::default(),
            pieces: Mutex::default(),
            desk: Mutex::default(),
            is_awaited: AtomicBool::new(false),
            queue,
            shipping: Shipping::default(),
            copies,
        })
    }

    /// What a store is when it is opened. One that has nothing is what its options say.
    fn begins_as(dir: &Path, follows: Option<String>, epoch: u64, has_any: bool) -> Result<Role, Error> {
        let noted = |source| folder_error(dir, "note in it whose records it has", source);
        if let Some(leader) = follows {
            Note::Follows.write(dir, "").map_err(noted)?;
            let leader = leader.into();
            return Ok(Role::Follows { leader });
        }
        if let Some(epoch) = note::fenced(dir)?.filter(|fenced| *fenced > epoch) {
            tracing::warn!(epoch, dir = %dir.display(), "{REPLACED}");
            return Ok(Role::Fenced { epoch });
        }
        if !Note::Follows.is_in(dir).map_err(noted)? {
            return Ok(Role::Leads);
        }
        if has_any {
            tracing::warn!(epoch, dir = %dir.display(), "{ORPHANED}");
            return Ok(Role::Unpromoted);
        }
        Note::Follows.remove(dir).map_err(noted)?;
        Ok(Role::Leads)
    }

    /// For the log thread: a handle that closes replication when it is dropped, so that whoever waits gets an answer.
    pub fn keep(self) -> Kept {
        Kept(Arc::new(self))
    }

    /// Whether it is this store that takes writes.
    #[inline]
    pub fn may_write(&self) -> Result<(), WriteError> {
        match self.leads.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(WriteError::NotLeader(self.not_leader())),
        }
    }

    fn not_leader(&self) -> NotLeader {
        NotLeader(self.role())
    }

    fn role(&self) -> Role {
        lock(&self.role).clone()
    }

    fn set_role(&self, role: Role) {
        let mut held = lock(&self.role);
        self.leads.store(role == Role::Leads, Ordering::Release);
        *held = role;
    }

    /// Another store of this history was promoted to that epoch: this one leads no more, if it did. Not of an epoch that is to begin in a day or
    /// later; whether it is no such one.
    fn fence(&self, epoch: u64) -> bool {
        if epoch > follow::now_ms().saturating_add(EPOCH_AHEAD_MS_MAX) {
            return false;
        }
        let mut role = lock(&self.role);
        // A promotion sets the epoch before the role.
        let is_older = epoch <= lock(&self.position).epoch;
        let is_known = matches!(*role, Role::Fenced { epoch: known } if known >= epoch);
        if is_older || is_known || matches!(*role, Role::Follows { .. } | Role::Unpromoted) {
            return true;
        }
        self.leads.store(false, Ordering::Release);
        *role = Role::Fenced { epoch };
        drop(role);
        tracing::error!(epoch, dir = %self.dir.display(), "{REPLACED}");
        if let Err(error) = Note::Fenced.write(&self.dir, &format!("{epoch}\n")) {
            tracing::error!(%error, dir = %self.dir.display(), "that cannot be noted in the store's folder: do not start it again as a leader");
        }
        // Who waits for a follower waits in vain.
        self.queue.nudge();
        true
    }

    /// The log was closed, and whether all of it is on the disk.
    pub fn note_closed(&self, is_whole: bool) {
        let noted = match is_whole {
            true => Note::Open.remove(&self.dir),
            // Of no run of the system: what was shown may be lost.
            false => Note::Open.write(&self.dir, ""),
        };
        if let Err(error) = noted {
            tracing::warn!(%error, dir = %self.dir.display(), "that the store was closed cannot be noted in its folder");
        }
    }

    /// Everything up to this record is in the log and shown.
    fn wrote(&self, last: u64) {
        self.last.store(last, Ordering::SeqCst);
        self.offer(last);
    }

    /// Everything up to this record is in the log: followers may have it.
    pub fn offer(&self, last: u64) {
        if self.offered.swap(last, Ordering::SeqCst) != last {
            self.shipping.wrote();
        }
    }

    /// A follower has everything up to this record, which is this log's own there.
    fn acknowledged(&self, sequence: u64) {
        if self.acks.note(sequence) {
            self.queue.nudge();
        }
    }

    /// For the log thread: as [`Queue::wait_for_nudge`].
    pub fn wait_for_nudge(&self, longest: Duration) -> bool {
        self.queue.wait_for_nudge(longest)
    }

    /// For the log thread: as [`Queue::pass_over`].
    pub fn pass_over(&self) {
        self.queue.pass_over();
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// The log thread's hold of it.
pub(crate) struct Kept(Arc<Replication>);

impl Kept {
    /// For others.
    pub fn share(&self) -> Arc<Replication> {
        self.0.clone()
    }
}

impl Deref for Kept {
    type Target = Arc<Replication>;

    fn deref(&self) -> &Arc<Replication> {
        &self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        lock(&self.0.desk).close();
        self.0.shipping.stop();
        self.0.copies.stop();
    }
}

/// 0 of a log without one.
fn epoch_of(log: &Log) -> u64 {
    log.history().map_or(0, |history| history.epoch)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    /// Whether this store takes the write: one that changes nothing, or where it leads and holds nothing back.
    pub fn admits(&self, write: &Write) -> Result<(), WriteError> {
        let Some(shared) = self.replication.as_ref().filter(|_| write.changes()) else {
            return Ok(());
        };
        shared.may_write()?;
        match shared.acks.is_stalled() {
            true => Err(WriteError::NoFollower),
            false => Ok(()),
        }
    }
}

impl Store {
    /// What it is to others that have its records; a store without a log leads.
    pub fn role(&self) -> Role {
        let shared = self.handle.replication.as_ref();
        shared.map_or(Role::Leads, |shared| shared.role())
    }

    /// The epoch of its log; 0 where there is none.
    pub fn epoch(&self) -> u64 {
        let shared = self.handle.replication.as_ref();
        shared.map_or(0, |shared| lock(&shared.position).epoch)
    }

    /// The last record of its log that is shown; 0 where there is none.
    pub fn last_sequence(&self) -> u64 {
        let shared = self.handle.replication.as_ref();
        shared.map_or(0, |shared| shared.last.load(Ordering::Acquire))
    }
}
