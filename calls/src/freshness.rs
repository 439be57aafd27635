//! Whether this node's fresh rows are all there, and which other nodes miss some of them.
//!
//! A node answers lookups of tables with fresh rows under a lease that it renews by asking the other replicas whether it missed
//! an upsert. Whoever lets an upsert pass without a node has a replica that took it note so first, and waits until the node's
//! lease from that replica has ended or the node has been told. Its invariants: a node that is noted to miss something gets no
//! lease before it has caught up; and judging a lookup takes two atomic loads.

use millpond_wire_schema::{Code, Status};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

millpond_metrics::counters! {
    /// What a page says of a node's fresh rows.
    #[derive(Debug)]
    pub struct Fresh {
        /// Of a server with `[nodes]`.
        METRICS {
            pub catching_up: bool = gauge("millpond_nodes_catching_up",
                "1 while this node leaves lookups of tables with fresh rows to other replicas, because it may have missed upserts."),
            pub catch_ups: u64 = counter("millpond_nodes_catch_ups_total",
                "Times this node took from another one what it may have missed."),
            pub rows: u64 = counter("millpond_nodes_caught_up_rows_total",
                "Rows and removals that it had missed and took then."),
            pub ahead: u64 = counter("millpond_nodes_ahead_rows_total",
                "Rows and removals that it had missed and refused, because their times are ahead of its clock."),
            pub alone: u64 = gauge("millpond_nodes_unheard",
                "Replicas of this node's buckets that do not answer: what they have and this node misses is not known."),
            pub missing: u64 = gauge("millpond_nodes_missing",
                "Nodes that this one knows to have missed upserts."),
            pub upserts_without: u64 = counter("millpond_nodes_upserts_without_total",
                "Upserts that this server acknowledged without some of their replicas."),
            pub upserts_split_anew: u64 = counter("millpond_nodes_upserts_split_anew_total",
                "Times this server sent an upsert again by the map then in use, because a node went by another one."),
        }
    }
}

/// What a node missed of a table: sequences of the replica that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedRows {
    /// The table.
    pub table: String,
    /// The first upsert that it missed.
    pub from: u64,
    /// The last one.
    pub to: u64,
}

/// The read lease of this node, and notes of which nodes missed an upsert.
#[derive(Debug)]
pub struct Freshness {
    base: Instant,
    /// Of this process: another one knows nothing of what this one noted.
    run: u64,
    /// Until when lookups are answered, in microseconds behind `base`.
    until_us: AtomicU64,
    /// The newest map by which lookups are answered.
    map: AtomicU64,
    noted: Mutex<Noted>,
    catch_ups: AtomicU64,
    rows: AtomicU64,
    ahead: AtomicU64,
    alone: AtomicU64,
    /// Decisions under way to answer lookups without another replica's rows.
    about: AtomicU64,
    upserts_without: AtomicU64,
    upserts_split_anew: AtomicU64,
}

/// What another node said of a table, when it asked and had missed nothing of what this one noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// When it asked, by this server's clock: milliseconds of Unix time, as the others.
    pub at_ms: u64,
    /// Every acknowledged upsert that was made before is in its log.
    pub whole_ms: u64,
    /// When its newest upsert was made.
    pub newest_ms: u64,
}

/// By the nodes' names.
#[derive(Debug, Default)]
struct Noted {
    /// What they said when they asked last, by table.
    heard: BTreeMap<String, BTreeMap<String, Heard>>,
    /// What they missed, by table.
    missed: BTreeMap<String, BTreeMap<String, (u64, u64)>>,
    /// Until when each may answer lookups because this one said that it missed nothing.
    leases: BTreeMap<String, Instant>,
}

impl Freshness {
    /// Of a node that has heard nothing yet. `run` is a number of its process.
    pub fn new(run: u64, now: Instant) -> Freshness {
        Freshness {
            base: now,
            run,
            until_us: AtomicU64::new(0),
            map: AtomicU64::new(0),
            noted: Mutex::default(),
            catch_ups: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            alone: AtomicU64::new(0),
            about: AtomicU64::new(0),
            upserts_without: AtomicU64::new(0),
            upserts_split_anew: AtomicU64::new(0),
        }
    }

    /// The number of its process.
    pub fn run(&self) -> u64 {
        self.run
    }

    fn us(&self, at: Instant) -> u64 {
        let us = at.saturating_duration_since(self.base).as_micros();
        u64::try_from(us).unwrap_or(u64::MAX)
    }

    /// Whether a lookup by that map may be answered now.
    #[inline]
    pub fn holds(&self, map: u64, now: Instant) -> bool {
        self.until_us.load(Ordering::Acquire) > self.us(now) && map <= self.map.load(Ordering::Acquire)
    }

    /// Refuses a lookup that another replica is to answer.
    ///
    /// # Errors
    /// [`Code::NodeUnavailable`].
    #[inline]
    pub fn check(&self, map: u64, now: Instant) -> Result<(), Status> {
        match self.holds(map, now) {
            true => Ok(()),
            false => Err(catching_up()),
        }
    }

    /// Lookups are answered until then.
    pub fn extend(&self, until: Instant) {
        self.until_us.store(self.us(until), Ordering::Release);
    }

    /// No lookup is answered until [`Freshness::extend`] says so.
    pub fn lapse(&self) {
        self.until_us.store(0, Ordering::Release);
    }

    /// What this node has by that map is all there.
    pub fn has_map(&self, version: u64) {
        self.map.fetch_max(version, Ordering::AcqRel);
    }

    /// Whether what it has was all there since it was started, by some map.
    pub fn has_begun(&self) -> bool {
        self.map.load(Ordering::Acquire) > 0
    }

    /// It decides now whether to answer lookups without another replica's rows, or has decided, which is said once for each time that
    /// it begins.
    pub fn is_about_to_answer(&self, is_about: bool) {
        match is_about {
            true => self.about.fetch_add(1, Ordering::SeqCst),
            false => self.about.fetch_sub(1, Ordering::SeqCst),
        };
    }

    /// Whether another replica may answer lookups that this one does not: it does not answer them, and is not about to.
    pub fn leaves_lookups(&self, now: Instant) -> bool {
        // In this order: it answers before it is about to no longer.
        self.about.load(Ordering::SeqCst) == 0 && !self.holds(0, now)
    }

    /// It has all that another node has.
    pub fn caught_up(&self) {
        self.catch_ups.fetch_add(1, Ordering::Relaxed);
    }

    /// It took so many rows from another node.
    pub fn took(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// It did not take so many rows that another node has, as no clock has reached their times.
    pub fn refused_ahead(&self, rows: u64) {
        self.ahead.fetch_add(rows, Ordering::Relaxed);
    }

    /// So many replicas do not answer.
    pub fn set_alone(&self, replicas: u64) {
        self.alone.store(replicas, Ordering::Relaxed);
    }

    /// An upsert was acknowledged without some of its replicas.
    pub fn acknowledged_without(&self) {
        self.upserts_without.fetch_add(1, Ordering::Relaxed);
    }

    /// An upsert was sent again, by the map in use.
    pub fn split_anew(&self) {
        self.upserts_split_anew.fetch_add(1, Ordering::Relaxed);
    }

    /// Those nodes missed an upsert of a table, which is of that sequence here. Says how long one of them may still answer
    /// lookups without knowing: `lease` where it may have asked the process before this one.
    pub fn note_missed<'n>(
        &self,
        table: &str,
        nodes: impl Iterator<Item = &'n str>,
        sequence: u64,
        (lease, now): (Duration, Instant),
    ) -> Duration {
        let mut noted = self.noted();
        let mut wait = Duration::ZERO;
        for node in nodes {
            let missed = noted.missed.entry(table.to_owned()).or_default();
            let (from, to) = missed.entry(node.to_owned()).or_insert((sequence, sequence));
            (*from, *to) = ((*from).min(sequence), (*to).max(sequence));
            let ends = noted.leases.get(node).copied().unwrap_or(self.base + lease);
            wait = wait.max(ends.saturating_duration_since(now));
        }
        wait
    }

    /// A node asks whether it missed anything, and has caught up with the tables to the sequences `seen`. What it missed; it gets
    /// a lease where that is nothing.
    pub fn ask<'t>(
        &self,
        node: &str,
        seen: impl Iterator<Item = (&'t str, u64)>,
        (lease, now): (Duration, Instant),
    ) -> Vec<MissedRows> {
        let mut noted = self.noted();
        for (table, seen) in seen {
            if let Some(missed) = noted.missed.get_mut(table)
                && let Some((from, to)) = missed.get_mut(node)
            {
                *from = (*from).max(seen.saturating_add(1));
                if *from > *to {
                    missed.remove(node);
                }
            }
        }
        let of_table = noted.missed.iter();
        let missed = of_table.filter_map(|(table, nodes)| {
            let (from, to) = nodes.get(node)?;
            Some(MissedRows {
                table: table.clone(),
                from: *from,
                to: *to,
            })
        });
        let missed: Vec<MissedRows> = missed.collect();
        if missed.is_empty() {
            noted.leases.insert(node.to_owned(), now + lease);
        }
        missed
    }

    /// A node that missed nothing said this of the tables of which it has seen all that this process had before.
    pub fn hear<'t>(&self, node: &str, tables: impl Iterator<Item = (&'t str, Heard)>) {
        let tables = tables.map(|(table, heard)| (table.to_owned(), heard)).collect();
        self.noted().heard.insert(node.to_owned(), tables);
    }

    /// What these nodes have all said of a table: the earliest of their times, and the latest of their newest upserts; nothing where one
    /// has said nothing of it.
    pub fn heard_of<'n>(&self, table: &str, nodes: impl Iterator<Item = &'n str>) -> Option<Heard> {
        let noted = self.noted();
        let all = Heard {
            at_ms: u64::MAX,
            whole_ms: u64::MAX,
            newest_ms: 0,
        };
        nodes
            .map(|node| noted.heard.get(node)?.get(table).copied())
            .try_fold(all, |all, heard| {
                let heard = heard?;
                Some(Heard {
                    at_ms: all.at_ms.min(heard.at_ms),
                    whole_ms: all.whole_ms.min(heard.whole_ms),
                    newest_ms: all.newest_ms.max(heard.newest_ms),
                })
            })
    }

    /// Forgets what was noted of nodes that are none any more.
    pub fn keep(&self, is_node: impl Fn(&str) -> bool) {
        let mut noted = self.noted();
        for missed in noted.missed.values_mut() {
            missed.retain(|node, _| is_node(node));
        }
        noted.leases.retain(|node, _| is_node(node));
        noted.heard.retain(|node, _| is_node(node));
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the page of metrics; `follows` says whether this server answers lookups under a lease.
    pub fn read(&self, follows: bool, now: Instant) -> Fresh {
        let noted = self.noted();
        let nodes = noted.missed.values().flat_map(BTreeMap::keys);
        let missing: std::collections::BTreeSet<&String> = nodes.collect();
        Fresh {
            catching_up: follows && self.until_us.load(Ordering::Acquire) <= self.us(now),
            catch_ups: self.catch_ups.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            ahead: self.ahead.load(Ordering::Relaxed),
            alone: self.alone.load(Ordering::Relaxed),
            missing: missing.len() as u64,
            upserts_without: self.upserts_without.load(Ordering::Relaxed),
            upserts_split_anew: self.upserts_split_anew.load(Ordering::Relaxed),
        }
    }
}

#[cold]
fn catching_up() -> Status {
    let ex = "this node catches up with upserts that it may have missed; ask another replica, or again later";
    Status::new(Code::NodeUnavailable, ex)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const LEASE: Duration = Duration::from_secs(1);

    #[test]
    fn lookups_are_answered_under_a_lease_and_by_maps_that_are_whole() {
        let now = Instant::now();
        let fresh = Freshness::new(1, now);
        assert!(!fresh.holds(0, now) && fresh.read(true, now).catching_up);
        fresh.extend(now + LEASE);
        assert!(fresh.holds(0, now) && !fresh.holds(1, now) && !fresh.read(true, now).catching_up);
        assert!(!fresh.leaves_lookups(now));
        assert!(!fresh.has_begun());
        fresh.has_map(2);
        assert!(fresh.has_begun());
        assert!(fresh.check(2, now).is_ok() && fresh.check(3, now).is_err());
        assert!(!fresh.holds(2, now + LEASE));
        fresh.lapse();
        assert!(!fresh.holds(2, now));
    }

    #[test]
    fn a_node_gets_no_lease_before_it_has_what_it_missed() {
        let now = Instant::now();
        let fresh = Freshness::new(1, now);
        let note = |sequence, now| fresh.note_missed("t", ["b"].into_iter(), sequence, (LEASE, now));
        let ask = |seen: &[(&str, u64)], now| {
            let missed = fresh.ask("b", seen.iter().copied(), (LEASE, now));
            missed
                .iter()
                .map(|missed| (missed.from, missed.to))
                .collect::<Vec<_>>()
        };
        // It may have asked the process before.
        assert_eq!(note(5, now), LEASE);
        assert_eq!(ask(&[], now), [(5, 5)]);
        note(7, now);
        note(3, now);
        assert_eq!(ask(&[], now), [(3, 7)]);
        assert_eq!(ask(&[("t", 5)], now), [(6, 7)]);
        assert_eq!(fresh.read(true, now).missing, 1);
        assert_eq!(ask(&[("t", 7)], now), []);
        let later = now + LEASE / 2;
        assert_eq!(note(8, later), LEASE / 2);
        assert_eq!(note(8, now + LEASE * 2), Duration::ZERO);
        let heard = |at_ms, newest_ms| Heard {
            at_ms,
            whole_ms: at_ms - 1,
            newest_ms,
        };
        fresh.hear("b", [("t", heard(7, 3)), ("u", heard(7, 3))].into_iter());
        assert_eq!(fresh.heard_of("t", ["b", "c"].into_iter()), None);
        fresh.hear("c", [("t", heard(5, 4))].into_iter());
        assert_eq!(fresh.heard_of("u", ["b", "c"].into_iter()), None);
        assert_eq!(fresh.heard_of("t", ["b", "c"].into_iter()), Some(heard(5, 4)));
        fresh.keep(|_| false);
        assert_eq!(fresh.read(true, now).missing, 0);
        assert_eq!(fresh.heard_of("t", ["b"].into_iter()), None);
    }
}
