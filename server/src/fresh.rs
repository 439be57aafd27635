//! This node's fresh rows while it runs: threads that ask the other replicas of its buckets whether it missed an upsert, and take
//! from them what it missed.
//!
//! A thread for each such replica, which may wait for it, and one that judges what they have heard. Net threads read two numbers
//! (`calls::Freshness`) and wait for nothing. Its invariant: lookups are answered only until the last moment up to which every
//! replica that answers has said that nothing was missed; the rest is `standing`'s.

mod complaint;
mod link;
mod peer;
mod settling;
mod standing;
mod stream;
mod written;

use crate::halt::Halt;
use crate::nodes::{Roads, Spread};
use crate::{Error, Shared};
pub(crate) use link::{Link, LinkError};
use millpond_calls::Nodes;
use millpond_engines_features::Stamp;
use millpond_nodes::{BucketMap, Node, NodeIndex};
use millpond_threads::join_by;
use millpond_wire_frame::Limits;
use peer::Peer;
use settling::unix_ms;
use standing::{Standings, Times};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Between two looks at what was heard, as a part of the lease.
const LOOKS: u32 = 8;
/// Between two questions to a replica, and how long each may take, as parts of the lease.
const QUESTIONS: u32 = 4;
/// How long a page of rows may take.
const PAGE_MAX: Duration = Duration::from_secs(10);
/// How often a start looks whether it has caught up.
const START_LOOK: Duration = Duration::from_millis(5);

/// The threads of a running node.
pub(crate) struct CatchingUp {
    following: Arc<Following>,
    thread: JoinHandle<()>,
}

/// What its threads share.
struct Following {
    shared: Arc<Shared>,
    nodes: Arc<Nodes>,
    /// This node's name.
    name: String,
    /// Tables that are spread and have fresh rows here.
    tables: Vec<String>,
    limits: Limits,
    /// How it gets to them.
    roads: Roads,
    token: Option<String>,
    lease: Duration,
    standings: Mutex<Standings>,
    halt: Halt,
}

/// The map that they go by.
struct By {
    map: Arc<BucketMap>,
    /// The names of the other replicas of this node's buckets.
    replicas: Vec<String>,
    /// In milliseconds of Unix time.
    since_ms: u64,
}

impl By {
    fn now(map: Arc<BucketMap>, name: &str) -> By {
        By {
            replicas: names(&others(None, &map, name).0),
            map,
            since_ms: unix_ms(),
        }
    }
}

impl CatchingUp {
    /// Begins, where this server is a node and has fresh rows, and waits until what they have is all there, or as long as is
    /// configured. Then lookups are answered.
    pub(crate) fn start(shared: &Arc<Shared>, spread: &Spread) -> Result<Option<CatchingUp>, Error> {
        let config = &shared.config;
        let tables: Vec<String> = config
            .spread_overlays()
            .map(|(name, _)| name.to_owned())
            .collect();
        let named = config
            .nodes
            .as_ref()
            .and_then(|section| Some((section, section.name.clone()?)));
        let Some((section, name)) = named.filter(|_| !tables.is_empty()) else {
            return Ok(None);
        };
        let lease = spread.nodes.options.read_lease;
        let times = Times {
            lease,
            wait_max: Duration::from_millis(section.catch_up_ms_max),
        };
        if let Some(catalog) = shared.calls.state() {
            // What this server stamps is above all that it has.
            let overlays = catalog.overlays().filter(|(name, _)| tables.contains(name));
            for (table, overlay) in overlays {
                observe(spread, table, overlay.newest());
            }
        }
        let following = Arc::new(Following {
            shared: Arc::clone(shared),
            nodes: Arc::clone(&spread.nodes),
            standings: Mutex::new(Standings::new(&name, times, Instant::now())),
            name,
            tables,
            limits: Limits {
                frame_bytes_max: config.server.frame_bytes_max,
            },
            roads: spread.roads(),
            token: section.token.shown().map(str::to_owned),
            lease,
            halt: Halt::default(),
        });
        let follows = Arc::clone(&following);
        let thread = std::thread::Builder::new().name("fresh".into());
        let thread = thread.spawn(move || follows.run());
        let thread = thread.map_err(|source| millpond_net::Error::Thread {
            what: "the thread that catches up with upserts".into(),
            source,
        })?;
        let started = Instant::now();
        // A map may come later, from etcd.
        while following.nodes.map().is_some()
            && !following.is_begun()
            && started.elapsed() < times.wait_max + lease
        {
            std::thread::sleep(START_LOOK);
        }
        Ok(Some(CatchingUp { following, thread }))
    }

    /// Ends them.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        self.following.halt.stop();
        self.thread
    }
}

/// This server's stamps are above that time, which a table has; one that no clock has reached is told.
fn observe(spread: &Spread, table: &str, time: u64) {
    let newest = Stamp { time, origin: 0 };
    let now = SystemTime::now();
    if newest.is_ahead(now) {
        tracing::warn!(
            table,
            newest_ms = newest.ms(),
            "the overlay has rows with times that are ahead of this server's clock: upserts of their keys are refused until then; set \
             the clocks of the nodes"
        );
    }
    spread.nodes.stamps.observe(time, Stamp::ms_max(now));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Following {
    fn link(&self) -> Link {
        Link::new(self.limits, self.roads.clone())
    }

    /// Of the map in use; 0 before the first.
    fn map_version(&self) -> u64 {
        self.nodes.map().map_or(0, |map| map.version())
    }

    fn is_begun(&self) -> bool {
        self.nodes.fresh.holds(self.map_version(), Instant::now())
    }

    /// Changes what is known of the replicas, and says at once what that means for lookups.
    fn change<R>(&self, change: impl FnOnce(&mut Standings) -> R) -> R {
        let mut standings = lock(&self.standings);
        let changed = change(&mut standings);
        let verdict = standings.judge(Instant::now());
        let fresh = &self.nodes.fresh;
        fresh.set_alone(verdict.away as u64);
        match verdict.until {
            Some(until) => fresh.extend(until),
            None => fresh.lapse(),
        }
        if verdict.stood_still {
            let lease_ms = self.lease.as_millis() as u64;
            tracing::info!(
                lease_ms,
                "this process stood still for longer than its lease; it asks the other replicas what it missed"
            );
        }
        changed
    }

    /// Follows the map until the server stops.
    fn run(self: Arc<Following>) {
        let (mut by, mut threads) = (None::<By>, BTreeMap::new());
        let mut told = BTreeMap::new();
        // The map that gave this node buckets whose fresh rows it does not have yet.
        let mut gained = None;
        while !self.halt.within(self.lease / LOOKS) {
            match self.nodes.map() {
                Some(next) if by.as_ref().is_none_or(|by| by.map.version() != next.version()) => {
                    let before = by.as_ref().map(|by| &*by.map);
                    if self.go_by(before, &next, &mut threads) {
                        gained = Some(next.version());
                    }
                    by = Some(By::now(next, &self.name));
                }
                Some(_) => self.change(|_| ()),
                None => {}
            }
            let Some(by) = &by else { continue };
            let verdict = self.change(|standings| standings.judge(Instant::now()));
            if verdict.is_whole {
                self.nodes.fresh.has_map(by.map.version());
                if let Some(map) = gained.take() {
                    tell_of_gains(map, verdict.away);
                }
                self.settle(by, &mut told);
            }
        }
        let until = Instant::now() + self.lease;
        for (_, thread) in threads {
            // One that waits for its node touches nothing once the server stops.
            let _ = join_by(thread, until);
        }
    }

    /// What was folded of buckets that this node gets is in versions of others: its own log cannot tell that it lacks that.
    fn warn_of_folds(&self, map: u64) {
        for table in &self.tables {
            let folded_ms = self.with_overlay(table, |table, overlay| overlay.folded_in(table).before_ms);
            if let Some(folded_ms) = folded_ms.filter(|folded_ms| *folded_ms > 0) {
                tracing::warn!(
                    table,
                    map,
                    folded_ms,
                    "this node gets buckets of a table whose fresh rows were folded: what was folded of these shows here only where the version that it \
                     serves was built from the other nodes' (`millpond features fold --rebuilt`, docs/nodes.md)"
                );
            }
        }
    }

    /// A node that is started knows no map before, and asks nobody who had its buckets by that.
    fn warn_of_gains(&self, map: u64) {
        tracing::warn!(
            map,
            "this node gets buckets, and asks the nodes that had them for their fresh rows: leave it running until it says that it has them. If \
             it ends before, it does not ask those nodes again: give the buckets back by another map, and publish once more (docs/nodes.md)"
        );
        self.warn_of_folds(map);
    }

    /// Asks the replicas of a map's buckets from now on; whether this node may get buckets by it.
    fn go_by(
        self: &Arc<Following>,
        before: Option<&BucketMap>,
        map: &BucketMap,
        threads: &mut BTreeMap<String, JoinHandle<()>>,
    ) -> bool {
        let (others, mut gains) = others(before, map, &self.name);
        // By a map that this node did not read its buckets may have been others' alone.
        gains |= before.is_some_and(|before| map.version().saturating_sub(before.version()) > 1);
        let names = names(&others);
        self.nodes.fresh.keep(|name| map.find(name).is_some());
        self.change(|standings| {
            standings.set(&names, before.is_none(), Instant::now());
            if gains {
                standings.want_all();
            }
        });
        if gains {
            self.warn_of_gains(map.version());
        }
        threads.retain(|_, thread| !thread.is_finished());
        for node in others {
            if threads.contains_key(&node.name) {
                continue;
            }
            let name = node.name.clone();
            let peer = Peer::new(Arc::clone(self), node);
            let thread = std::thread::Builder::new().name("fresh-of".into());
            match thread.spawn(move || peer.run()) {
                Ok(thread) => drop(threads.insert(name, thread)),
                Err(error) => {
                    tracing::error!(node = name, %error, "no thread for what this node missed of another")
                }
            }
        }
        gains
    }
}

/// Says that a node may be stopped again which got buckets.
fn tell_of_gains(map: u64, away: usize) {
    match away {
        0 => tracing::info!(map, "this node has the fresh rows of the buckets that it got"),
        _ => tracing::warn!(
            map,
            away,
            "this node has the fresh rows of the buckets that it got, but for those of the nodes that do not answer"
        ),
    }
}

fn names(nodes: &[Node]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

/// The other nodes that may have rows which this one is to have, or know what it missed, and whether it has more buckets than before.
fn others(before: Option<&BucketMap>, map: &BucketMap, name: &str) -> (Vec<Node>, bool) {
    let mut others: BTreeMap<String, Node> = BTreeMap::new();
    let mut add = |map: &BucketMap, replicas: &[NodeIndex]| {
        for node in replicas.iter().filter_map(|node| map.node(*node)) {
            if node.name != name && !others.contains_key(&node.name) {
                others.insert(node.name.clone(), node.clone());
            }
        }
    };
    let holds = |map: &BucketMap, bucket: u32| {
        let node = map.find(name);
        node.is_some_and(|node| map.replicas(bucket).contains(&node))
    };
    let mut gains = false;
    for bucket in (0..map.buckets()).filter(|bucket| holds(map, *bucket)) {
        add(map, map.replicas(bucket));
        match before {
            // Buckets of another number are other buckets.
            Some(before) if before.buckets() != map.buckets() => {
                gains = true;
                (0..before.buckets()).for_each(|bucket| add(before, before.replicas(bucket)));
            }
            Some(before) => {
                gains |= !holds(before, bucket);
                add(before, before.replicas(bucket));
            }
            None => {}
        }
    }
    (others.into_values().collect(), gains)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn map(version: u64, nodes: &[(&str, &str)]) -> BucketMap {
        let nodes: Vec<String> = nodes
            .iter()
            .map(|(name, buckets)| {
                format!("{{ name = {name:?}, addresses = [\"{name}:1\"], buckets = {buckets:?} }}")
            })
            .collect();
        BucketMap::from_toml(&format!(
            "version = {version}\nbuckets = 4\nnodes = [{}]",
            nodes.join(", ")
        ))
        .unwrap()
    }

    #[test]
    fn the_replicas_of_a_nodes_buckets_are_asked_and_of_those_that_are_new() {
        let first = map(1, &[("a", "0-1"), ("b", "1-2"), ("c", "2-3"), ("d", "0")]);
        let check = |before: Option<&BucketMap>, map: &BucketMap, expected: &[&str], more: bool| {
            let (others, gains) = others(before, map, "a");
            let names: Vec<&str> = others.iter().map(|node| node.name.as_str()).collect();
            assert_eq!((names.as_slice(), gains), (expected, more));
        };
        check(None, &first, &["b", "d"], false);
        check(Some(&first), &first, &["b", "d"], false);
        let fewer = map(2, &[("a", "0"), ("b", "1-2"), ("c", "2-3"), ("d", "0")]);
        check(Some(&first), &fewer, &["d"], false);
        // It takes a bucket over that two others had.
        let moved = map(3, &[("a", "0,2"), ("b", "1"), ("c", "3"), ("d", "0")]);
        check(Some(&fewer), &moved, &["b", "c", "d"], true);
        check(Some(&first), &map(4, &[("b", "0-3")]), &[], false);
        // One that had its bucket too may have noted what it missed.
        let replaced = map(5, &[("a", "0"), ("b", "1-2"), ("c", "0,2-3"), ("d", "3")]);
        check(Some(&fewer), &replaced, &["c", "d"], false);
    }
}
