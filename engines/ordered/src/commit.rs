//! The log thread's work: from the writes that wait to their answers, one group at a time.
//!
//! Knows neither bytes (`record`) nor threads (`store`). Invariant: nothing of a group is visible or answered before all of it is as durable
//! as configured. With acknowledge = "follower", also not before a follower has it (`held`). A failed group changes nothing in memory; each
//! write's error says whether it may be on the disk.

mod held;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use millpond_wal::{Failure, Log, Pending, Queue, Reply, next_group};

use crate::checkpoint::keeper::Checkpoints;
use crate::error::WriteError;
use crate::eviction::Room;
use crate::index::Index;
use crate::judge::{Judge, Refusal, Verdict};
use crate::record::Accepted;
use crate::replication::{Acknowledge, Kept};
use crate::sweep::{Due, Sweep};
use crate::tree::{BROUGHT_AT_ONCE, Near};
use crate::write::{Write, Written};
use crate::{Durability, Error};
use held::{Appended, Held};

/// A group is cut here, so that the first write of a long queue does not wait for all of it.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// Where a group waits for nothing but a write to its file, a write that reads begins another behind so many operations: looking for its keys
/// among what these changed, and noting that, costs more than the file does.
const PART_OPERATIONS: usize = 64;

pub(crate) struct Committer {
    pub index: Arc<Index>,
    pub log: Log,
    pub durability: Durability,
    pub next_version: u64,
    /// A group is no larger than a segment, if its writes allow it.
    pub segment_bytes_max: u64,
    pub room: Arc<Room>,
    pub checkpoints: Checkpoints,
    pub replication: Kept,
    /// How long callers wait for a follower to have their group, where one must.
    pub acknowledge_within: Duration,
    /// What is in the log and not shown.
    pub held: Option<Held>,
}

/// A write of the group, what becomes of it, and its caller, unless it was answered.
type Judged = (Option<Reply<Write>>, Verdict);

impl Committer {
    /// Commits groups until the queue is closed and empty.
    pub fn run(mut self, queue: &Queue<Write>) -> Result<(), Error> {
        let segment_bytes_max = usize::try_from(self.segment_bytes_max).unwrap_or(usize::MAX);
        let bytes_max = segment_bytes_max.min(GROUP_BYTES_MAX);
        let mut sweep = Sweep::default();
        let mut wait = self.wait(&sweep);
        while let Some(group) = next_group(queue, Some(&mut self.log), bytes_max, wait) {
            self.show_held();
            self.commit(group);
            self.sweep(&mut sweep);
            self.replicate();
            wait = self.wait(&sweep);
            // A follower that has nothing yet may become a copy of any store.
            if self.log.next_sequence() > 1 || self.replication.may_write().is_ok() {
                // Memory lacks what is held back, and a checkpoint would stand for it.
                let held = self.held.is_some();
                self.checkpoints.attend(&mut self.log, self.next_version, !held);
            }
        }
        self.checkpoints.stop();
        // What was acknowledged does not wait for the end of another file's sync.
        let finished = self.log.finish();
        self.replication
            .note_closed(finished.is_ok() || self.durability.syncs_each_group());
        drop(self.checkpoints);
        finished
    }

    /// How long its next sweep can be waited for. What another server leads is swept there.
    fn wait(&self, sweep: &Sweep) -> Option<Duration> {
        match self.replication.may_write() {
            Ok(()) if self.held.is_none() => sweep.wait(&self.index, &self.room),
            _ => None,
        }
    }

    /// Removes some entries that have expired or are beyond the limit, by the log: no restart shows them again.
    fn sweep(&mut self, sweep: &mut Sweep) {
        if self.replication.may_write().is_err() || self.held.is_some() {
            return;
        }
        let counts = self.checkpoints.counts();
        let due = match sweep.wait(&self.index, &self.room) {
            None => Due::default(),
            Some(wait) if wait.is_zero() => sweep.due(&self.index, &self.room),
            Some(_) => return,
        };
        if due.keys.is_empty() {
            // Others may have removed what could not be.
            return counts.swept(None);
        }
        if let Some(error) = self.log.read_only() {
            counts.swept(Some(error));
            return sweep.failed(due);
        }
        let versions = (self.next_version, self.index.clock().now_ms());
        let accepted = Accepted::removing(due.keys.iter().cloned(), versions);
        let appended = self.log.append(&[&accepted]);
        counts.swept(appended.as_ref().err().map(|failure| &*failure.error));
        match appended {
            Ok(()) => {
                self.next_version = accepted.next_version();
                self.settle(Appended::Swept(accepted, due.evicted));
            }
            Err(_) => sweep.failed(due),
        }
    }

    fn commit(&mut self, group: Vec<Pending<Write>>) {
        let mut left = VecDeque::from(group);
        while !left.is_empty() {
            self.commit_some(&mut left);
        }
    }

    /// Commits the longest run of writes from the front that one append may cover.
    fn commit_some(&mut self, left: &mut VecDeque<Pending<Write>>) {
        // Batches that only read are refused too: after a copy that was taken in by half, memory is no state of the store.
        if let Some(error) = self.log.read_only() {
            for pending in left.drain(..) {
                pending.reply.send(Err(WriteError::ReadOnly(error.clone())));
            }
            return;
        }
        let held = self.held.as_ref().map(|_| WriteError::NoFollower);
        if let Some(error) = self.replication.may_write().err().or(held) {
            let (changes, reads): (VecDeque<_>, VecDeque<_>) =
                left.drain(..).partition(|pending| pending.work.changes());
            for pending in changes {
                pending.reply.send(Err(error.clone()));
            }
            *left = reads;
            if left.is_empty() {
                return;
            }
        }
        let first_version = self.next_version;
        let group = self.judge(left);
        match self.write(&group) {
            Ok(false) => self.publish(group),
            Ok(true) => self.settle(Appended::Group(group)),
            Err(failure) => {
                self.next_version = first_version;
                fail(group, &failure);
            }
        }
    }

    /// What becomes of the next writes, with the versions that they get.
    fn judge(&mut self, left: &mut VecDeque<Pending<Write>>) -> Vec<Judged> {
        let count = self.part(left);
        let writes = left.iter().take(count).map(|pending| &pending.work);
        let mut judge = Judge::new(&self.index, &self.room, self.next_version, writes);
        let mut replies = Vec::with_capacity(count);
        // The first is judged whatever the store may hold: each part ends the wait of one at least.
        while replies.len() < count
            && let Some(mut pending) = left.pop_front()
        {
            if let Some(again) = judge.judge(pending.work) {
                pending.work = again;
                left.push_front(pending);
                break;
            }
            replies.push(Some(pending.reply));
            if judge.is_full() {
                break;
            }
        }
        let (verdicts, next_version) = judge.finish();
        self.next_version = next_version;
        replies.into_iter().zip(verdicts).collect()
    }

    /// How many of the next writes are judged together.
    fn part(&self, left: &VecDeque<Pending<Write>>) -> usize {
        if self.durability.syncs_each_group() || self.replication.acknowledge == Acknowledge::Follower {
            return left.len();
        }
        let mut operations = 0;
        let joins = |pending: &&Pending<Write>| {
            let joins = operations < PART_OPERATIONS || !pending.work.reads();
            operations += pending.work.operations();
            joins
        };
        left.iter().take_while(joins).count()
    }

    /// Whether there was anything for the log.
    fn write(&mut self, group: &[Judged]) -> Result<bool, Failure> {
        let accepted = group.iter().filter_map(|(_, verdict)| verdict.as_ref().ok());
        // A batch that only reads leaves nothing in the log.
        let accepted = accepted.filter(|accepted| !accepted.changes.is_empty());
        let records: Vec<&Accepted> = accepted.flat_map(Accepted::records).collect();
        self.log.append(&records).map(|()| !records.is_empty())
    }

    /// Shows the group to readers, then answers it.
    fn publish(&self, group: Vec<Judged>) {
        let mut answers = Vec::with_capacity(group.len());
        let mut group = group.into_iter();
        while group.len() > 0 {
            let mut found = self.bring(group.as_slice()).into_iter();
            for (reply, verdict) in group.by_ref().take(BROUGHT_AT_ONCE) {
                let near = only_key(&verdict).and_then(|_| found.next());
                answers.push((reply, self.make(verdict, near.unwrap_or_default())));
            }
        }
        for (reply, answer) in answers {
            if let Some(reply) = reply {
                reply.send(answer);
            }
        }
    }

    /// Has the memory of the next writes of one key brought; where each key was found, but for a last one.
    fn bring(&self, group: &[Judged]) -> Vec<Near<'_>> {
        let next = group.iter().take(BROUGHT_AT_ONCE);
        let mut found = Vec::new();
        self.index
            .bring(next.filter_map(|(_, verdict)| only_key(verdict)), &mut found);
        found
    }

    fn make(&self, verdict: Verdict, near: Near<'_>) -> Result<Written, WriteError> {
        match verdict {
            Ok(accepted) => {
                self.room.count(accepted.evicted());
                accepted.apply_to(&self.index, near);
                Ok(accepted.written(self.durability))
            }
            Err(Refusal { error, .. }) => Err(error),
        }
    }
}

/// The key of a write that changes one. Writes of several have their memory brought by themselves.
fn only_key(verdict: &Verdict) -> Option<&[u8]> {
    match verdict.as_ref().ok()?.changes.as_slice() {
        [change] => Some(&change.key),
        _ => None,
    }
}

fn fail(group: Vec<Judged>, failure: &Failure) {
    for (reply, verdict) in group {
        let Some(reply) = reply else { continue };
        reply.send(Err(match verdict {
            // A batch that changed nothing has left nothing.
            Ok(accepted) if failure.is_in_doubt && !accepted.changes.is_empty() => {
                WriteError::OutcomeUnknown(failure.error.clone())
            }
            // Nothing was written for a write that was refused, whatever became of those it met.
            Ok(_) | Err(Refusal { met_group: true, .. }) => WriteError::Storage(failure.error.clone()),
            Err(Refusal {
                error,
                met_group: false,
            }) => error,
        }));
    }
}
