//! What is in the log and not shown yet, as no follower is known to have it.
//!
//! The log thread waits for a follower between a group's append and its show, so that everything that comes meanwhile is the next group.
//! Invariants: nothing is judged, logged or swept behind a group that is not shown; such a group is shown once a follower has it, whatever its
//! callers were told, while this store leads.

use std::time::Instant;

use super::{Committer, Judged};
use crate::error::WriteError;
use crate::judge::Refusal;
use crate::record::Accepted;
use crate::replication::{Acknowledge, Unacknowledged};

/// What was appended last.
pub(crate) enum Appended {
    /// Writes and their callers.
    Group(Vec<Judged>),
    /// Removals by a sweep, and how many of them make room.
    Swept(Accepted, usize),
}

/// An appended group or sweep that is not shown yet, and its last record.
pub(crate) struct Held {
    what: Appended,
    last: u64,
}

impl Committer {
    /// Shows what was appended, once a follower has it where one must. Should none have it in time, its callers are answered that nobody knows,
    /// and it is held back.
    pub(super) fn settle(&mut self, what: Appended) {
        if self.replication.acknowledge != Acknowledge::Follower {
            return self.show(what);
        }
        let last = self.log.next_sequence() - 1;
        self.held = Some(Held { what, last });
        let Some(why) = self.wait_for_follower(last) else {
            return self.release();
        };
        if let Some(held) = &mut self.held {
            held.what.give_up(why);
        }
        // How long that took says nothing of later groups.
        self.replication.pass_over();
        self.stall(why);
    }

    /// Shows what is held back.
    fn release(&mut self) {
        if let Some(held) = self.held.take() {
            self.replication.acks.wait_for(0);
            self.show(held.what);
        }
    }

    /// Offers the log's records up to this one to followers, and waits for one to have them; why it no longer does, if none has.
    fn wait_for_follower(&mut self, last: u64) -> Option<Unacknowledged> {
        let shared = self.replication.share();
        let began = Instant::now();
        shared.acks.wait_for(last);
        shared.offer(last);
        let mut is_closed = false;
        loop {
            if shared.may_write().is_err() {
                return Some(Unacknowledged::Replaced);
            }
            if shared.acks.has(last) {
                return None;
            }
            if is_closed {
                return Some(Unacknowledged::Closed);
            }
            let now = Instant::now();
            let until = shared.acks.ends_by(began + self.acknowledge_within);
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                let waited_ms = began.elapsed().as_millis() as u64;
                return Some(Unacknowledged::Late { waited_ms });
            }
            // What is to be synced at intervals is, whatever else is waited for.
            let sync_in = self.log.keep_pace(now);
            is_closed = shared.wait_for_nudge(sync_in.map_or(left, |sync_in| sync_in.min(left)));
            self.serve_desk();
        }
    }

    /// Shows what is held back, if a follower has it by now.
    pub(super) fn show_held(&mut self) {
        let acks = &self.replication.acks;
        let may = |held: &Held| acks.has(held.last) && self.replication.may_write().is_ok();
        if !self.held.as_ref().is_some_and(may) {
            return;
        }
        if let Some(last) = self.held.as_ref().map(|held| held.last) {
            acks.set_stalled(false);
            self.release();
            tracing::info!(
                record = last,
                dir = %self.replication.dir().display(),
                "a follower has the last writes of an ordered store: it acknowledges writes again"
            );
        }
    }

    fn stall(&self, why: Unacknowledged) {
        self.replication.acks.set_stalled(true);
        if let Unacknowledged::Late { waited_ms } = why {
            tracing::error!(
                waited_ms,
                dir = %self.replication.dir().display(),
                "no follower has the last writes of an ordered store: they are held back, and it refuses writes until one has them (acknowledge = \"follower\", docs/operations.md)"
            );
        }
    }

    /// Shows to readers, then answers.
    pub(super) fn show(&self, what: Appended) {
        match what {
            Appended::Group(group) => self.publish(group),
            Appended::Swept(accepted, evicted) => {
                self.room.count(evicted);
                self.index.remove_in_parts(accepted.changes());
            }
        }
    }
}

impl Appended {
    /// Answers its callers that nobody knows whether it stays.
    fn give_up(&mut self, why: Unacknowledged) {
        let Appended::Group(group) = self else { return };
        for (reply, verdict) in group {
            let Some(reply) = reply.take() else { continue };
            match verdict {
                Ok(accepted) if !accepted.changes.is_empty() => {
                    reply.send(Err(WriteError::Unacknowledged(why)));
                }
                // What it read may be what is held back.
                Ok(_) => reply.send(Err(WriteError::NoFollower)),
                Err(Refusal { met_group: true, .. }) => reply.send(Err(WriteError::NoFollower)),
                Err(Refusal { error, .. }) => reply.send(Err(error.clone())),
            }
        }
    }
}
