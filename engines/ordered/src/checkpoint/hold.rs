//! Checkpoints that followers copy, which stay until that is done, with the log behind them.
//!
//! Invariants: what is held is there, whole; a hold ends by itself, however often it is renewed.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Files;
use super::read::{Bad, Opened};
use crate::Error;

/// Followers that copy at a time.
const HOLDS_MAX: usize = 4;
/// For so long a checkpoint is held behind a follower's last question: it may be taking in what it has copied, which it does not speak of.
const LEASE: Duration = Duration::from_secs(10 * 60);
/// And for so long at most: the log behind it grows all the while.
const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

struct Hold {
    follower: String,
    sequence: u64,
    began: Instant,
    renewed: Instant,
    /// The last record of the log when the follower had come behind the checkpoint: once it has that, it goes on by the log.
    until: Option<u64>,
}

/// Who holds which.
#[derive(Default)]
pub(crate) struct Holds(Mutex<State>);

#[derive(Default)]
struct State {
    held: Vec<Hold>,
    /// Files before this record may be gone.
    removed_before: u64,
}

/// Why nothing is held for a follower.
#[derive(Debug)]
pub(crate) enum NotHeld {
    /// As many are as may.
    TooMany,
    /// There is no such checkpoint.
    Absent,
    /// It cannot be read.
    Failed(Error),
}

impl Holds {
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .held
            .retain(|hold| hold.renewed.elapsed() < LEASE && hold.began.elapsed() < LEASE_MAX);
        state
    }

    /// Holds the newest checkpoint of a folder for a follower, or the one of that sequence, if it will do.
    pub fn hold(
        &self,
        dir: &Path,
        follower: &str,
        sequence: Option<u64>,
        will_do: impl Fn(&Opened) -> bool,
    ) -> Result<Opened, NotHeld> {
        let finished = Files::list(dir).map_err(NotHeld::Failed)?.finished;
        let sequence = match sequence {
            // An older one goes with the holds of others.
            Some(sequence) => finished.first().copied().filter(|newest| *newest == sequence),
            None => finished.first().copied(),
        };
        let sequence = sequence.ok_or(NotHeld::Absent)?;
        let opened = Opened::open(dir, sequence).map_err(|bad| match bad {
            Bad::Read(error) if error.kind() == std::io::ErrorKind::NotFound => NotHeld::Absent,
            bad => NotHeld::Failed(Error::Checkpoint {
                file: super::path(dir, sequence),
                found: bad.to_string(),
                fix: "have another one written (call ordered.checkpoint)",
            }),
        })?;
        if !will_do(&opened) {
            return Err(NotHeld::Absent);
        }
        let mut state = self.lock();
        // It may have been removed since it was listed.
        if sequence < state.removed_before {
            return Err(NotHeld::Absent);
        }
        let held = &mut state.held;
        let (now, count) = (Instant::now(), held.len());
        match held.iter_mut().find(|hold| hold.follower == follower) {
            Some(hold) if hold.sequence == sequence => hold.renewed = now,
            Some(hold) => {
                (hold.sequence, hold.began, hold.renewed) = (sequence, now, now);
                hold.until = None;
            }
            None if count >= HOLDS_MAX => return Err(NotHeld::TooMany),
            None => held.push(Hold {
                follower: follower.to_owned(),
                sequence,
                began: now,
                renewed: now,
                until: None,
            }),
        }
        Ok(opened)
    }

    /// The follower goes on: whether that checkpoint is held for it.
    pub fn renew(&self, follower: &str, sequence: u64) -> bool {
        let mut state = self.lock();
        let mut own = state.held.iter_mut();
        let found = own.find(|hold| hold.follower == follower && hold.sequence == sequence);
        found.map(|hold| hold.renewed = Instant::now()).is_some()
    }

    /// Whether that checkpoint is held for it.
    pub fn is_held(&self, follower: &str, sequence: u64) -> bool {
        let state = self.lock();
        let mut held = state.held.iter();
        held.any(|hold| hold.follower == follower && hold.sequence == sequence)
    }

    /// The follower asks for records: it needs nothing held any more once it has what was `last` when it came behind its checkpoint.
    pub fn follows(&self, follower: &str, position: u64, last: u64) {
        let mut state = self.lock();
        state.held.retain_mut(|hold| {
            if hold.follower != follower {
                return true;
            }
            hold.renewed = Instant::now();
            if position.saturating_add(1) < hold.sequence {
                // It has not begun with that yet.
                return true;
            }
            position < *hold.until.get_or_insert(last)
        });
    }

    /// Removes files before a sequence, but none that is held: `remove` is told from where on all stay. Nobody waits for it.
    pub fn removing<T>(&self, sequence: u64, remove: impl FnOnce(u64) -> T) -> T {
        let mut state = self.lock();
        let least = state.held.iter().map(|hold| hold.sequence).min();
        let before = least.map_or(sequence, |least| least.min(sequence));
        state.removed_before = state.removed_before.max(before);
        drop(state);
        remove(before)
    }

    /// How many are held.
    pub fn count(&self) -> usize {
        self.lock().held.len()
    }

    /// Ends all, as their leases would.
    #[cfg(test)]
    pub fn end_all(&self) {
        self.lock().held.clear();
    }
}
