//! How far this node is with each of the other replicas, and until when it may answer lookups therefore.
//!
//! Pure: it asks nobody, and time is passed in. Its invariants: a replica that may have what this node misses keeps it from answering
//! until it has been asked, is gone, or has answered neither it nor lookups for as long as is configured; and a node that stood still has to ask all of
//! them again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How many leases longer a node waits for a replica that leaves lookups to it, where that one's name comes first.
const TURN_LEASES: u32 = 4;

/// How far it is with a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It may have what this node misses, since then.
    Unknown { since: Instant },
    /// It said that this node missed nothing.
    Heard { until: Instant },
    /// It is gone, does not answer, or leaves lookups to this node as this one does to it.
    Away,
}

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nobody listens there.
    Gone,
    /// No answer.
    Silent,
    /// It answers, and does not give what it has.
    GivesNothing,
}

/// What a replica says whose rows this node cannot write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder {
    /// It answers no lookups itself.
    pub(super) leaves_lookups: bool,
    /// It has seen all rows of this node.
    pub(super) has_ours: bool,
}

#[derive(Debug)]
struct Replica {
    standing: Standing,
    /// When the first of the failures since its last answer began.
    failing_since: Option<Instant>,
    /// Since when this node cannot write what it has, while it answers no lookups itself.
    stuck_since: Option<Instant>,
    /// All that it has is to be looked through.
    wants_all: bool,
    /// When it was asked last and this node had missed nothing, in milliseconds of Unix time.
    clean_ms: Option<u64>,
    /// It has rows that this node cannot take from it, and does not have.
    is_lacked: bool,
}

/// Times that standings are judged by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// How long an answer is good for.
    pub(super) lease: Duration,
    /// How long a replica that may have something is waited for.
    pub(super) wait_max: Duration,
}

/// What this node knows of each other replica, from which its read lease is judged.
#[derive(Debug)]
pub(super) struct Standings {
    /// This node's name.
    name: String,
    times: Times,
    replicas: BTreeMap<String, Replica>,
    /// When it was judged last: long ago where this process stood still.
    judged: Instant,
}

/// What a judgement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Lookups are answered until then, or not.
    pub(super) until: Option<Instant>,
    /// What the node has by the map is all there.
    pub(super) is_whole: bool,
    /// Replicas that do not answer.
    pub(super) away: usize,
    /// It stood still, and asks all of them again.
    pub(super) stood_still: bool,
}

impl Standings {
    /// Nobody has been asked yet.
    pub(super) fn new(name: &str, times: Times, now: Instant) -> Standings {
        Standings {
            name: name.to_owned(),
            times,
            replicas: BTreeMap::new(),
            judged: now,
        }
    }

    /// These replicas there are now. At the start of this node each may have what it missed.
    pub(super) fn set(&mut self, names: &[String], is_start: bool, now: Instant) {
        self.replicas.retain(|name, _| names.contains(name));
        for name in names {
            self.replicas.entry(name.clone()).or_insert(Replica {
                standing: match is_start {
                    true => Standing::Unknown { since: now },
                    // It is heard before that ends, or given up.
                    false => Standing::Heard {
                        until: now + self.times.lease,
                    },
                },
                failing_since: None,
                stuck_since: None,
                wants_all: is_start,
                clean_ms: None,
                is_lacked: false,
            });
        }
    }

    /// Whether it is one of them still.
    pub(super) fn has(&self, name: &str) -> bool {
        self.replicas.contains_key(name)
    }

    /// All that each of them has is to be looked through once more.
    pub(super) fn want_all(&mut self) {
        for replica in self.replicas.values_mut() {
            replica.wants_all = true;
        }
    }

    /// All that this one has is to be looked through once more.
    pub(super) fn want(&mut self, name: &str) {
        if let Some(replica) = self.replicas.get_mut(name) {
            replica.wants_all = true;
        }
    }

    pub(super) fn wants_all(&self, name: &str) -> bool {
        self.replicas.get(name).is_some_and(|replica| replica.wants_all)
    }

    /// A replica has rows that this node cannot take: none of its lookups is answered from then on, whether the replica is there or not.
    pub(super) fn lacks(&mut self, name: &str) {
        if let Some(replica) = self.replicas.get_mut(name) {
            replica.is_lacked = true;
        }
    }

    /// It has none such any more: this node serves another version.
    pub(super) fn lacks_nothing(&mut self, name: &str) {
        if let Some(replica) = self.replicas.get_mut(name) {
            replica.is_lacked = false;
        }
    }

    /// All that a replica has was looked through.
    pub(super) fn has_all(&mut self, name: &str) {
        if let Some(replica) = self.replicas.get_mut(name) {
            replica.wants_all = false;
        }
    }

    /// A replica that was asked at `asked` has nothing that this node missed.
    pub(super) fn heard(&mut self, name: &str, asked: Instant) {
        let until = asked + self.times.lease;
        if let Some(replica) = self.replicas.get_mut(name) {
            replica.failing_since = None;
            // What is to be looked through first may be what it missed before the replica was started, which has no note of it. One that
            // was given up is not back before: what it has and this node cannot write is missing here still.
            if !replica.wants_all || matches!(replica.standing, Standing::Heard { .. }) {
                replica.standing = Standing::Heard { until };
                replica.stuck_since = None;
            }
        }
    }

    /// That it has nothing which this node missed is true of all that it had at that time, too.
    pub(super) fn clean(&mut self, name: &str, asked_ms: u64) {
        if let Some(replica) = self.replicas.get_mut(name).filter(|replica| !replica.wants_all) {
            replica.clean_ms = replica.clean_ms.max(Some(asked_ms));
        }
    }

    /// Since when none of them has had anything that this node missed; nothing where one was not asked yet.
    pub(super) fn clean_since_ms(&self) -> Option<u64> {
        let mut since = self.replicas.values().map(|replica| replica.clean_ms);
        since.try_fold(u64::MAX, |since, clean_ms| Some(since.min(clean_ms?)))
    }

    /// Forgets those for whom `is_over` is true of when they were asked last and this node had missed nothing; nothing where all that one
    /// has is to be looked through.
    pub(super) fn forget(&mut self, is_over: impl Fn(&str, Option<u64>) -> bool) {
        self.replicas.retain(|name, replica| {
            let clean_ms = replica.clean_ms.filter(|_| !replica.wants_all);
            !is_over(name, clean_ms)
        });
    }

    /// A replica says that this node missed something. Where it was away this node answers lookups without it already.
    pub(super) fn missed(&mut self, name: &str, now: Instant) {
        if let Some(replica) = self.replicas.get_mut(name) {
            replica.failing_since = None;
            if matches!(replica.standing, Standing::Heard { .. }) {
                replica.standing = Standing::Unknown { since: now };
            }
        }
    }

    /// A replica that was asked at `asked` did not answer, or gives nothing. Where nobody listens there, it can let nothing pass any
    /// more.
    pub(super) fn failed(&mut self, name: &str, asked: Instant, failure: Failure, now: Instant) -> bool {
        let times = self.times;
        let Some(replica) = self.replicas.get_mut(name) else {
            return false;
        };
        let failing_since = *replica.failing_since.get_or_insert(asked);
        let fails_for_long = now.saturating_duration_since(failing_since) >= times.lease / 2;
        let is_over = match replica.standing {
            Standing::Heard { .. } => failure == Failure::Gone || fails_for_long,
            // One late answer is no reason: lookups may have been left to it for hours.
            Standing::Unknown { since } => {
                let is_waited_for = now.saturating_duration_since(since) < times.wait_max;
                !is_waited_for && (failure != Failure::Silent || fails_for_long)
            }
            Standing::Away => false,
        };
        if is_over {
            replica.standing = Standing::Away;
        }
        is_over
    }

    /// This node cannot write what a replica has. Where the replica leaves lookups to others too, for as long as a replica is waited
    /// for, nobody may answer them otherwise: whether it is to be asked once more, and [given up](Standings::give_up) if it still does.
    /// Of two that leave them to each other the one whose name comes first is the first to do so.
    ///
    /// Where the replica answers lookups, they are left to it, though it was given up: not by both of two that answer and miss each
    /// other's rows.
    pub(super) fn stuck(&mut self, name: &str, holder: Holder, now: Instant) -> bool {
        let (times, comes_first) = (self.times, name < self.name.as_str());
        let Some(replica) = self.replicas.get_mut(name) else {
            return false;
        };
        if !holder.leaves_lookups {
            replica.stuck_since = None;
            if replica.standing == Standing::Away && (comes_first || holder.has_ours) {
                replica.standing = Standing::Unknown { since: now };
            }
            return false;
        }
        let since = *replica.stuck_since.get_or_insert(now);
        let turn = if comes_first { TURN_LEASES } else { 0 };
        matches!(replica.standing, Standing::Unknown { .. })
            && now.saturating_duration_since(since) >= times.wait_max + times.lease * turn
    }

    /// It counts as one that does not answer.
    pub(super) fn give_up(&mut self, name: &str) {
        if let Some(replica) = self.replicas.get_mut(name) {
            replica.standing = Standing::Away;
        }
    }

    /// Whether lookups wait for it, as it may have what this node missed.
    pub(super) fn awaits(&self, name: &str) -> bool {
        let replica = self.replicas.get(name);
        replica.is_some_and(|replica| matches!(replica.standing, Standing::Unknown { .. }))
    }

    /// Until when lookups may be answered.
    pub(super) fn judge(&mut self, now: Instant) -> Verdict {
        let stood_still = now.saturating_duration_since(self.judged) >= self.times.lease;
        self.judged = now;
        if stood_still {
            for replica in self.replicas.values_mut() {
                replica.standing = Standing::Unknown { since: now };
                (replica.failing_since, replica.stuck_since) = (None, None);
            }
        }
        let mut until = Some(now + self.times.lease);
        let (mut is_whole, mut away) = (true, 0);
        for replica in self.replicas.values() {
            match replica.standing {
                Standing::Unknown { .. } => until = None,
                Standing::Heard { until: other } => until = until.map(|until| until.min(other)),
                Standing::Away => away += 1,
            }
            is_whole &= !replica.wants_all || replica.standing == Standing::Away;
            until = until.filter(|_| !replica.is_lacked);
            is_whole &= !replica.is_lacked;
        }
        Verdict {
            until,
            is_whole,
            away,
            stood_still,
        }
    }
}

#[cfg(test)]
mod tests;
