//! Where in the log's files a follower's next record is, looked for by a thread of its own: whoever knows its place does not wait for those who do
//! not.
//!
//! Invariant: one place is looked for at a time, and one of each follower.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use millpond_wal::Tail;

use super::super::{Replication, lock};
use super::{PullError, Waiting};
use crate::record::FORMAT;

/// What the thread that answers knows of followers.
#[derive(Default)]
pub(super) struct Places {
    /// What each follower reads next.
    pub tails: BTreeMap<String, Tail>,
    /// Followers whose place is being looked for.
    pub sought: BTreeSet<String>,
}

impl Replication {
    /// Has a question's place looked for. One of a follower whose place is being looked for already gets nothing, and asks again.
    pub(super) fn seek(&self, waiting: Waiting, seek: &SyncSender<Waiting>, sought: &mut BTreeSet<String>) {
        if !sought.insert(waiting.pull.follower.clone()) {
            let nothing = self.nothing(&lock(&self.position));
            return (waiting.done)(Ok(nothing));
        }
        match seek.try_send(waiting) {
            Ok(()) => {}
            Err(TrySendError::Full(waiting)) => {
                sought.remove(&waiting.pull.follower);
                (waiting.done)(Err(PullError::TooMany));
            }
            Err(TrySendError::Disconnected(waiting)) => self.place_one(waiting),
        }
    }

    /// Looks for the places of questions, until nobody asks any more.
    pub(super) fn place(&self, sought: &Receiver<Waiting>) {
        sought.iter().for_each(|waiting| self.place_one(waiting));
    }

    fn place_one(&self, waiting: Waiting) {
        let closed = |waiting: Waiting| (waiting.done)(Err(PullError::Closed));
        if lock(&self.shipping.state).is_stopped {
            return closed(waiting);
        }
        let tail = Tail::behind(&FORMAT, &self.dir, waiting.pull.position.sequence);
        let mut state = lock(&self.shipping.state);
        if state.is_stopped {
            drop(state);
            return closed(waiting);
        }
        state.placed.push((waiting, tail));
        drop(state);
        self.shipping.changed.notify_all();
    }
}
