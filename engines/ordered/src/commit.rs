//! The log thread's work: from the puts that wait to their answers, one group at a time.
//!
//! Knows neither bytes (`log`) nor threads (`store`). Invariant: nothing of a group is visible or
//! answered before all of it is as durable as configured, and a group that fails leaves no trace in
//! memory; whether it leaves one on the disk, its puts receive in their error.

use std::collections::HashMap;
use std::sync::Arc;

use millpond_wal::{Failure, Log, Pending, Queue, Reply, next_group};

use crate::index::Index;
use crate::put::{Put, PutError, PutOutcome};
use crate::record::Accepted;
use crate::space::Space;
use crate::{Durability, Error};

/// A group is cut here, so that the first put of a long queue does not wait for all of it.
const GROUP_BYTES_MAX: usize = 4 << 20;

pub(crate) struct Committer {
    pub index: Arc<Index>,
    /// `None` keeps everything in memory only.
    pub log: Option<Log>,
    pub durability: Durability,
    pub next_version: u64,
    /// A group is no larger than a segment, if its puts allow it.
    pub segment_bytes_max: u64,
    /// Memory that the entries may take.
    pub memory_bytes_max: Option<u64>,
}

/// A put of the group and what becomes of it.
struct Judged {
    reply: Reply<Put>,
    verdict: Verdict,
}

enum Verdict {
    Write(Accepted),
    Refuse {
        error: PutError,
        /// The put met an entry of this very group, or lacks the space that it takes: if the group fails, so does the reason to
        /// refuse.
        met_group: bool,
    },
}

/// Versions that keys will have once the puts judged so far are written.
type Overlay = HashMap<Vec<u8>, u64>;

impl Committer {
    /// Commits groups until the queue is closed and empty.
    pub fn run(mut self, queue: &Queue<Put>) -> Result<(), Error> {
        let segment_bytes_max = usize::try_from(self.segment_bytes_max).unwrap_or(usize::MAX);
        let bytes_max = segment_bytes_max.min(GROUP_BYTES_MAX);
        while let Some(group) = next_group(queue, &mut self.log, bytes_max, None) {
            self.commit(group);
        }
        self.log.map_or(Ok(()), Log::finish)
    }

    fn commit(&mut self, group: Vec<Pending<Put>>) {
        if let Some(error) = self.log.as_ref().and_then(Log::read_only) {
            for pending in group {
                pending.reply.send(Err(PutError::ReadOnly(error.clone())));
            }
            return;
        }
        let first_version = self.next_version;
        let group = self.judge(group);
        match self.write(&group) {
            Ok(()) => self.publish(group),
            Err(failure) => {
                self.next_version = first_version;
                fail(group, &failure);
            }
        }
    }

    /// Tests conditions and space in order, each put seeing those before it, and gives out versions.
    fn judge(&mut self, group: Vec<Pending<Put>>) -> Vec<Judged> {
        let mut overlay = group
            .iter()
            .any(|pending| pending.work.is_conditional())
            .then(Overlay::new);
        let index = self.index.clone();
        let puts = group.iter().map(|pending| &pending.work);
        let mut space = Space::of_group(&index, self.memory_bytes_max, puts);
        let mut judge_one = |Pending {
                                 work: put,
                                 bytes,
                                 reply,
                             }: Pending<Put>| {
            let conflict = overlay.as_ref().and_then(|overlay| self.conflict(&put, overlay));
            let refused = conflict.or_else(|| space.as_mut()?.take(&put).err());
            if let Some((error, met_group)) = refused {
                return Judged {
                    reply,
                    verdict: Verdict::Refuse { error, met_group },
                };
            }
            let first_version = self.next_version;
            if let Some(overlay) = &mut overlay {
                let keys = put.entries.iter().map(|(key, _)| key.clone());
                overlay.extend(keys.zip(first_version..));
            }
            self.next_version += put.entries.len() as u64;
            let accepted = Accepted {
                entries: put.entries,
                bytes,
                first_version,
            };
            Judged {
                reply,
                verdict: Verdict::Write(accepted),
            }
        };
        group.into_iter().map(&mut judge_one).collect()
    }

    /// The first condition that does not hold, and whether an entry of the group is to blame.
    fn conflict(&self, put: &Put, overlay: &Overlay) -> Option<(PutError, bool)> {
        let absent = put.if_absent.then_some(0);
        let wanted = || [absent, put.if_version].into_iter().flatten();
        if !put.is_conditional() {
            return None;
        }
        for (key, _) in &put.entries {
            let in_group = overlay.get(key).copied();
            let found = in_group.unwrap_or_else(|| self.index.version(key));
            if let Some(expected) = wanted().find(|&expected| expected != found) {
                let error = PutError::Conflict {
                    key: key.clone(),
                    expected,
                    found,
                };
                return Some((error, in_group.is_some()));
            }
        }
        None
    }

    fn write(&mut self, group: &[Judged]) -> Result<(), Failure> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let accepted: Vec<&Accepted> = group
            .iter()
            .filter_map(|judged| match &judged.verdict {
                Verdict::Write(accepted) => Some(accepted),
                Verdict::Refuse { .. } => None,
            })
            .collect();
        log.append(&accepted)
    }

    /// Shows the group to readers, then answers it.
    fn publish(&self, group: Vec<Judged>) {
        let mut answers = Vec::with_capacity(group.len());
        for Judged { reply, verdict } in group {
            let answer = match verdict {
                Verdict::Write(put) => {
                    let versions = put.first_version..;
                    let count = put.entries.len();
                    self.index.apply(&put.entries, put.first_version);
                    let versions = versions.take(count).collect();
                    Ok(PutOutcome {
                        versions,
                        durability: self.durability,
                    })
                }
                Verdict::Refuse { error, .. } => Err(error),
            };
            answers.push((reply, answer));
        }
        for (reply, answer) in answers {
            reply.send(answer);
        }
    }
}

fn fail(group: Vec<Judged>, failure: &Failure) {
    for Judged { reply, verdict } in group {
        reply.send(Err(match verdict {
            Verdict::Write(_) if failure.is_in_doubt => PutError::OutcomeUnknown(failure.error.clone()),
            // Nothing was written for a put that was refused, whatever became of those it met.
            Verdict::Write(_) | Verdict::Refuse { met_group: true, .. } => {
                PutError::Storage(failure.error.clone())
            }
            Verdict::Refuse {
                error,
                met_group: false,
            } => error,
        }));
    }
}
