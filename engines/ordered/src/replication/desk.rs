//! What other threads ask of the log thread, and what it tells them of the log's end.
//!
//! It looks here behind each group, and while a group waits for a follower. Invariant: whoever asks gets one answer, or learns that the store is
//! closed.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::{FollowError, Position, Replication, Shipment, lock};
use crate::checkpoint::bytes::Head;
use crate::commit::Committer;

pub(super) enum Task {
    Apply(Shipment),
    Promote,
    /// The copy that lies in the folder, and [`super::Piece::epoch_last`] of it.
    Install(Head, u64),
}

pub(super) type Outcome = Result<Position, FollowError>;

/// Where the log thread finds what it is to do.
#[derive(Default)]
pub(super) struct Desk {
    waiting: Vec<(Task, SyncSender<Outcome>)>,
    is_closed: bool,
}

impl Desk {
    /// Who waits learns that nothing more is done.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.waiting.clear();
    }
}

impl Replication {
    fn ask(&self, task: Task) -> Receiver<Outcome> {
        let (sender, receiver) = sync_channel(1);
        let mut desk = lock(&self.desk);
        if !desk.is_closed {
            desk.waiting.push((task, sender));
        }
        drop(desk);
        self.is_awaited.store(true, Ordering::Release);
        self.queue.nudge();
        receiver
    }

    pub(super) fn ask_wait(&self, task: Task) -> Outcome {
        self.ask(task).recv().unwrap_or(Err(FollowError::Closed))
    }
}

impl Committer {
    /// Does what was asked since the last group, and says how far the log is.
    pub fn replicate(&mut self) {
        self.serve_desk();
        self.say_end();
    }

    /// Does what was asked.
    pub fn serve_desk(&mut self) {
        let is_awaited = &self.replication.is_awaited;
        if is_awaited.load(Ordering::Relaxed) && is_awaited.swap(false, Ordering::Acquire) {
            let waiting = std::mem::take(&mut lock(&self.replication.desk).waiting);
            for (task, sender) in waiting {
                let done = match task {
                    Task::Apply(shipment) => self.take_in(&shipment),
                    Task::Promote => self.promote(),
                    Task::Install(head, epoch_last) => self.install_copy(head, epoch_last),
                };
                self.say_end();
                let _ = sender.send(done);
            }
        }
    }

    /// A read-only log is not announced: its last records may never have been shown. Nor is what is held back.
    fn say_end(&self) {
        if self.held.is_none() && self.log.read_only().is_none() {
            self.replication.wrote(self.log.next_sequence() - 1);
        }
    }
}
