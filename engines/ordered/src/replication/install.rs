//! The log thread puts a copy of its leader's store in the place of what it has: the folder first, then memory.
//!
//! Invariants: readers see what was there before or what the copy has, and nothing between; should it fail half way, no read and no write
//! is served until the next start, which has the copy.

use std::sync::Arc;

use millpond_wal::History;

use super::aside::{commit, install, take_back};
use super::copy::may_replace;
use super::desk::Outcome;
use super::follow::FollowError;
use super::{Position, Role, lock};
use crate::Error;
use crate::checkpoint::bytes::Head;
use crate::checkpoint::path;
use crate::checkpoint::read::{Bad, Opened};
use crate::commit::Committer;
use crate::index::Index;
use crate::recover::{Base, Reporter, read_log};
use crate::tree::{Change, Content};

/// Entries of memory that are looked at in one step.
const LOOKED_AT_ONCE: usize = 1024;

impl Committer {
    /// Puts the copy that lies in the folder in the place of what is there.
    pub(super) fn install_copy(&mut self, head: Head, epoch_last: u64) -> Outcome {
        let replication = self.replication.share();
        let role = replication.role();
        let Role::Follows { .. } = role else {
            return Err(FollowError::NotFollowing(role.as_str()));
        };
        self.check_copy(&head, epoch_last)?;
        let (disk, dir) = self.checkpoints.place();
        let shield = &replication.copies.shield;
        shield.raise();
        if let Err(error) = commit(&*disk, &dir, head.sequence) {
            let error = Arc::new(error);
            match take_back(&*disk, &dir) {
                true => shield.lower(),
                false => self.give_up(&error),
            }
            return Err(FollowError::Storage(error));
        }
        let installed = install(&*disk, &dir).map_err(FollowError::from_storage);
        let installed = installed.and_then(|()| self.load_copy(&head));
        match installed {
            Ok(position) => {
                shield.lower();
                Ok(position)
            }
            Err(error) => {
                self.give_up(&error);
                Err(error)
            }
        }
    }

    /// Whether it can stand for what there is.
    fn check_copy(&mut self, head: &Head, epoch_last: u64) -> Result<(), FollowError> {
        if self.checkpoints.is_writing() {
            return Err(FollowError::Busy);
        }
        let log = &mut self.log;
        // Should a sync of what is thrown away fail, it fails before.
        log.wait_for_sync();
        if let Some(error) = log.read_only() {
            return Err(FollowError::Storage(error.clone()));
        }
        let ours = log.history().unwrap_or(head.history);
        let has = (log.next_sequence() - 1, ours);
        may_replace(has, (head.sequence, head.history), epoch_last).map_err(FollowError::Broken)
    }

    /// The folder is the copy's, and memory is not.
    fn give_up(&mut self, why: &dyn std::fmt::Display) {
        let reason = format!(
            "a copy of the leader's was not taken in to its end ({why}): start the store again, which goes on with it"
        );
        self.log.give_up(reason);
    }

    /// Reads the folder into memory, over what is there, and goes on in its log.
    fn load_copy(&mut self, head: &Head) -> Outcome {
        let (_, dir) = self.checkpoints.place();
        let replication = self.replication.share();
        let report = &mut |progress: &crate::Progress| {
            tracing::info!(
                "the ordered store {} takes in a copy of its leader's: {progress}",
                dir.display()
            );
        };
        let unsound = |bad: Bad| {
            FollowError::from_storage(Error::Checkpoint {
                file: path(&dir, head.sequence),
                found: bad.to_string(),
                fix: "it was sound when it came: look at the disk, move the folder away, and start again to copy anew",
            })
        };
        let opened = Opened::open(&dir, head.sequence).map_err(unsound)?;
        let (base, foot) = (Base::of(&opened), opened.foot);
        become_copy(&self.index, opened, &mut Reporter::new("checkpoint", report)).map_err(unsound)?;
        let mut last_ms = foot.time_ms;
        let recovered = read_log(&dir, Some(&base), report, |write, record| {
            last_ms = write.time_ms.max(last_ms);
            write.replay(&self.index, record.sequence <= foot.last_sequence, |_| true)
        });
        let recovered = recovered.map_err(FollowError::from_storage)?;
        self.index.clock().observe(last_ms);
        let log = &mut self.log;
        log.open_again(&recovered).map_err(FollowError::from_storage)?;
        self.next_version = recovered.next_number;
        self.checkpoints.replaced(log.bytes(), foot.length, foot.time_ms);
        let History { epoch, id } = log.history().unwrap_or(head.history);
        let mut position = lock(&replication.position);
        *position = Position {
            history: id,
            epoch,
            sequence: log.next_sequence() - 1,
            mark: None,
            partial: 0,
        };
        Ok(*position)
    }
}

/// Makes memory what a checkpoint holds: a block at a time, in order, what is not in it goes, and what is in it is set.
fn become_copy(index: &Index, opened: Opened, reporter: &mut Reporter<'_>) -> Result<(), Bad> {
    if index.len() == 0 {
        // Nothing has to go, so the order does not matter.
        return opened.read(|content| index.load(content), reporter);
    }
    let mut from = Vec::new();
    let each = |entries: &[Content<'_>]| {
        let Some(last) = entries.last() else { return };
        remove_but(index, &from, Some(last.key), entries);
        for entry in entries {
            index.load(*entry);
        }
        from = crate::Scan::end_behind(last.key);
    };
    opened.each_block(each, reporter)?;
    remove_but(index, &from, None, &[]);
    Ok(())
}

/// Removes the keys from one up to another that are not among those of a block.
fn remove_but(index: &Index, from: &[u8], upto: Option<&[u8]>, entries: &[Content<'_>]) {
    let is_beyond = |key: &[u8]| upto.is_some_and(|upto| key > upto);
    let mut next = Some(from.to_vec());
    while let Some(from) = next.take().filter(|from| !is_beyond(from)) {
        let mut gone = Vec::new();
        let (_, behind) = index.look_on(&from, LOOKED_AT_ONCE, |entry| {
            if is_beyond(entry.key) {
                return false;
            }
            if entries.binary_search_by(|kept| kept.key.cmp(entry.key)).is_err() {
                gone.push(entry.key.to_vec());
            }
            true
        });
        index.remove_in_parts(gone.iter().map(|key| Change::Remove(key)));
        next = behind;
    }
}
