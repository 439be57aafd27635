//! How far this node is with each of the other replicas, and until when it may answer lookups therefore.
//!
//! Pure: it asks nobody, and time is passed in. Its invariants: a replica that may have what this node misses keeps it from answering
//! until it has been asked, is gone, or has answered neither it nor lookups for as long as is configured; and a node that stood still has to ask all of
//! them again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How far it is with a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It may have what this node misses, since then.
    Unknown { since: Instant },
    /// It said that this node missed nothing.
    Heard { until: Instant },
    /// It is gone, or does not answer.
    Away,
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

/// See this module.
#[derive(Debug)]
pub(super) struct Standings {
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
    pub(super) fn new(times: Times, now: Instant) -> Standings {
        Standings {
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
            // What is to be looked through first may be what it missed before the replica was started, which has no note of it.
            let is_unknown = matches!(replica.standing, Standing::Unknown { .. });
            if !(is_unknown && replica.wants_all) {
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

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.replicas.keys().map(String::as_str)
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

    /// A replica that was asked at `asked` did not answer. Where nobody listens there, it can let nothing pass any more.
    pub(super) fn failed(&mut self, name: &str, asked: Instant, is_gone: bool, now: Instant) -> bool {
        let times = self.times;
        let Some(replica) = self.replicas.get_mut(name) else {
            return false;
        };
        let since = *replica.failing_since.get_or_insert(asked);
        let is_over = match replica.standing {
            Standing::Heard { .. } => is_gone || now.saturating_duration_since(since) >= times.lease / 2,
            Standing::Unknown { since } => now.saturating_duration_since(since) >= times.wait_max,
            Standing::Away => false,
        };
        if is_over {
            replica.standing = Standing::Away;
        }
        is_over
    }

    /// This node cannot write what a replica has. Where the replica leaves lookups to others too, for as long as a replica is waited
    /// for, nobody may answer them otherwise: then it counts as one that does not answer.
    pub(super) fn stuck(&mut self, name: &str, leaves_lookups: bool, now: Instant) -> bool {
        let Some(replica) = self.replicas.get_mut(name) else {
            return false;
        };
        if !leaves_lookups {
            replica.stuck_since = None;
            return false;
        }
        let since = *replica.stuck_since.get_or_insert(now);
        let is_over = matches!(replica.standing, Standing::Unknown { .. })
            && now.saturating_duration_since(since) >= self.times.wait_max;
        if is_over {
            replica.standing = Standing::Away;
        }
        is_over
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
mod tests {
    use super::*;

    const TIMES: Times = Times {
        lease: Duration::from_millis(1000),
        wait_max: Duration::from_millis(9000),
    };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn of(names: &[&str], now: Instant) -> Standings {
        let mut standings = Standings::new(TIMES, now);
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        standings.set(&names, true, now);
        standings
    }

    #[test]
    fn a_node_that_starts_asks_all_of_them() {
        let now = Instant::now();
        let mut standings = of(&["b", "c"], now);
        assert_eq!(standings.judge(now).until, None);
        standings.has_all("b");
        standings.heard("b", now);
        standings.heard("c", now);
        assert_eq!(standings.judge(now).until, None, "it has not looked through c");
        assert!(!standings.judge(now).is_whole && standings.wants_all("c"));
        // It is waited for, gone or not: it may have taken something before it went.
        assert!(!standings.failed("c", now, true, now + ms(500)));
        assert!(standings.awaits("c") && !standings.awaits("b"));
        assert_eq!(standings.judge(now + ms(500)).until, None);
        standings.has_all("c");
        standings.heard("c", now + ms(100));
        let verdict = standings.judge(now + ms(600));
        assert_eq!((verdict.until, verdict.is_whole), (Some(now + ms(1000)), true));
    }

    #[test]
    fn a_replica_that_is_gone_ends_no_lease_and_one_that_is_not_heard_is_given_up_before() {
        let now = Instant::now();
        let mut standings = of(&["b", "c"], now);
        for name in ["b", "c"] {
            standings.has_all(name);
            standings.heard(name, now);
        }
        assert!(standings.failed("b", now + ms(250), true, now + ms(250)));
        assert!(!standings.failed("c", now + ms(250), false, now + ms(500)));
        assert_eq!(standings.judge(now + ms(500)).until, Some(now + ms(1000)));
        assert!(standings.failed("c", now + ms(500), false, now + ms(750)));
        let verdict = standings.judge(now + ms(750));
        assert_eq!((verdict.until, verdict.away), (Some(now + ms(1750)), 2));
        // It is back, and a little later has what this node missed.
        standings.heard("c", now + ms(800));
        standings.missed("c", now + ms(800));
        assert_eq!(standings.judge(now + ms(800)).until, None);
        assert!(!standings.failed("c", now + ms(900), false, now + ms(5000)));
        for at in (1000..=9000).step_by(500) {
            standings.judge(now + ms(at));
        }
        assert!(standings.failed("c", now + ms(900), false, now + ms(9800)));
        assert!(standings.judge(now + ms(9800)).until.is_some());
    }

    #[test]
    fn a_node_that_stood_still_asks_again() {
        let now = Instant::now();
        let mut standings = of(&["b", "c"], now);
        standings.has_all("b");
        standings.has_all("c");
        standings.heard("b", now);
        assert!(standings.failed("c", now, false, now + ms(9000)));
        let verdict = standings.judge(now + ms(9001));
        assert_eq!(
            (verdict.until, verdict.stood_still, verdict.away),
            (None, true, 0)
        );
        // What was asked before is too old.
        standings.heard("b", now + ms(8000));
        standings.heard("c", now + ms(9100));
        let until = standings.judge(now + ms(9200)).until;
        assert_eq!(until, Some(now + ms(9000)));
        standings.heard("b", now + ms(9200));
        assert_eq!(standings.judge(now + ms(9200)).until, Some(now + ms(10_100)));
    }

    #[test]
    fn of_replicas_that_cannot_write_each_others_rows_one_is_not_waited_for() {
        let now = Instant::now();
        let mut standings = of(&["b"], now);
        // One that answers lookups has them left to it for good.
        for s in [0, 8, 16] {
            standings.heard("b", now + ms(s * 1000));
            assert!(!standings.stuck("b", false, now + ms(s * 1000)));
        }
        assert!(!standings.stuck("b", true, now + ms(20_000)));
        assert!(!standings.stuck("b", false, now + ms(28_000)));
        assert!(!standings.stuck("b", true, now + ms(29_000)));
        for s in 0..=38 {
            assert_eq!(standings.judge(now + ms(s * 999)).until, None);
        }
        assert!(!standings.stuck("b", true, now + ms(37_999)));
        assert!(standings.stuck("b", true, now + ms(38_000)));
        let verdict = standings.judge(now + ms(38_000));
        assert_eq!((verdict.until.is_some(), verdict.away), (true, 1));
        // It stays so while there is no room, and is over once its rows are here.
        standings.missed("b", now + ms(38_200));
        assert!(!standings.stuck("b", true, now + ms(38_200)));
        assert!(standings.judge(now + ms(38_300)).until.is_some());
        standings.has_all("b");
        standings.heard("b", now + ms(38_400));
        assert_eq!(standings.judge(now + ms(38_400)).away, 0);
    }

    #[test]
    fn a_node_that_lacks_rows_for_good_answers_nothing_until_it_has_them() {
        let now = Instant::now();
        let mut standings = of(&["b"], now);
        standings.lacks("b");
        assert!(standings.failed("b", now, false, now + ms(9000)));
        let verdict = standings.judge(now + ms(9000));
        assert_eq!((verdict.until, verdict.is_whole), (None, false));
        standings.heard("b", now + ms(9000));
        assert_eq!(standings.judge(now + ms(9500)).until, None);
        standings.lacks_nothing("b");
        standings.has_all("b");
        standings.heard("b", now + ms(9500));
        let verdict = standings.judge(now + ms(9900));
        assert!(verdict.until.is_some() && verdict.is_whole);
    }

    #[test]
    fn what_was_said_at_a_time_is_said_by_all_of_them() {
        let now = Instant::now();
        let mut standings = of(&["b", "c"], now);
        assert_eq!(standings.clean_since_ms(), None);
        standings.clean("b", 7);
        standings.has_all("b");
        standings.clean("b", 8);
        assert_eq!(standings.clean_since_ms(), None);
        standings.has_all("c");
        standings.clean("c", 5);
        assert_eq!(
            standings.clean_since_ms(),
            Some(5),
            "b has not counted before it was looked through"
        );
        standings.clean("c", 9);
        assert_eq!(standings.clean_since_ms(), Some(8));
        standings.set(&["b".to_owned(), "d".to_owned()], false, now);
        assert_eq!(standings.clean_since_ms(), None);
        standings.set(&[], false, now);
        assert_eq!(standings.clean_since_ms(), Some(u64::MAX));
    }

    #[test]
    fn a_map_with_more_of_it_has_all_of_them_looked_through() {
        let now = Instant::now();
        let mut standings = of(&["b"], now);
        standings.has_all("b");
        standings.heard("b", now);
        standings.set(&["b".to_owned(), "d".to_owned()], false, now);
        standings.want_all();
        assert!(standings.judge(now).until.is_some() && !standings.judge(now).is_whole);
        standings.has_all("b");
        // One that does not answer is not waited for.
        assert!(standings.failed("d", now, true, now));
        assert!(standings.judge(now).is_whole);
    }
}
