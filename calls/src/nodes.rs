//! What all net threads know of the other servers: the bucket map, which of its nodes this server is, and what is counted of each.
//!
//! It sends nothing. Its invariant: a node's counts outlive the maps that it is in.

use crate::access::Secret;
use crate::{Copies, Freshness};
use millpond_nodes::{BucketMap, CurrentMap, HedgeOptions, StampClock};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bucket maps whose calls may still be under way, beside the one in use: a caller may be that far behind.
const MAPS_KEPT: usize = 4;

millpond_metrics::counters! {
    /// What became of calls to one node.
    #[derive(Debug, Default)]
    pub struct NodeCounts {
        /// By the node's name.
        METRICS {
            pub outstanding: AtomicU64 = gauge("millpond_node_outstanding", "Calls sent to a node that have not ended."),
            pub calls: AtomicU64 = counter("millpond_node_calls_total", "Calls sent to a node, hedges and repeated ones included."),
            pub failures: AtomicU64 = counter("millpond_node_failures_total",
                "Calls to a node that ended without an answer: it could not be reached, was lost, or did not answer in time."),
            pub hedges: AtomicU64 = counter("millpond_node_hedges_total",
                "Calls sent to a node because another one was slow."),
            pub repeats: AtomicU64 = counter("millpond_node_repeats_total",
                "Calls sent to a node because another one failed."),
            pub connects: AtomicU64 = counter("millpond_node_connects_total",
                "Connections opened to a node; after the first ones each stands for one that was lost or idle."),
        }
    }
}

millpond_metrics::counters! {
    /// The map in use.
    pub struct MapInUse {
        /// Of a server that shares tables.
        METRICS {
            pub version: u64 = gauge("millpond_nodes_map_version", "Version of the map of nodes that new calls go by; 0 before the first.").max(),
        }
    }
}

/// What a server does with calls to others.
#[derive(Debug, Clone)]
pub struct NodesOptions {
    /// Which node of the map this server is; a server that only forwards is none.
    pub name: Option<String>,
    /// How often slow calls are sent to a second replica.
    pub hedging: HedgeOptions,
    /// Tables whose keys are on the nodes of the map.
    pub tables: Vec<String>,
    /// Replicas of each key that an upsert must reach; all where none is said.
    pub upsert_acks: Option<usize>,
    /// How long this node answers lookups of fresh rows without asking the other replicas again.
    pub read_lease: Duration,
    /// How long a node may take for a copy of an upsert that may be acknowledged without it.
    pub give_up: Duration,
    /// How long after an upsert was made all replicas have it, or one of them is known to miss it.
    pub settle: Duration,
    /// What calls between the servers have; where none is set, nobody is asked for it.
    pub token: Secret,
}

impl NodesOptions {
    /// The longest read lease: a node that asks for a longer one gets this, as upserts wait for it.
    pub const READ_LEASE_MAX: Duration = Duration::from_secs(2);

    /// How old an upsert may be when a node takes a copy of it, or a note that another one missed it. The rest of `settle` is for clocks
    /// that differ.
    pub fn upsert_age_max(&self) -> Duration {
        self.settle / 5 * 2
    }
}

impl Default for NodesOptions {
    fn default() -> NodesOptions {
        NodesOptions {
            name: None,
            hedging: HedgeOptions {
                delay_min: Duration::from_millis(1),
                ..HedgeOptions::default()
            },
            tables: Vec::new(),
            upsert_acks: None,
            read_lease: Duration::from_secs(1),
            give_up: Duration::from_secs(2),
            settle: Duration::from_secs(300),
            token: Secret::default(),
        }
    }
}

/// Has a map looked at: what a thread that follows it gives net threads, which wait for no file.
struct Look(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Look {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Look")
    }
}

/// What net threads share to call other nodes: options, the map in use, and counts by node.
#[derive(Debug)]
pub struct Nodes {
    /// What is configured.
    pub options: NodesOptions,
    /// Whether this node's fresh rows are all there, and which nodes miss some.
    pub fresh: Freshness,
    /// What this node's logs have of upserts over nodes.
    pub copies: Arc<Copies>,
    /// What gives the upserts that this server takes their stamps.
    pub stamps: StampClock,
    /// The map in use; none until the first is known.
    current: OnceLock<CurrentMap>,
    /// Versions of maps that callers may have split by.
    versions: Mutex<Vec<u64>>,
    counts: Mutex<BTreeMap<String, Arc<NodeCounts>>>,
    /// Nodes whose lease in etcd has ended, by name: they may be in a map that is still to come.
    etcd_ended: Mutex<BTreeSet<String>>,
    /// How often that changed.
    etcd_lease_changes: AtomicU64,
    look: OnceLock<Look>,
}

impl Nodes {
    /// Knows no map yet.
    pub fn new(options: NodesOptions) -> Nodes {
        let random = |of: u8| RandomState::new().hash_one(of) | 1;
        Nodes {
            options,
            fresh: Freshness::new(random(0), Instant::now()),
            copies: Arc::default(),
            stamps: StampClock::new(random(1)),
            current: OnceLock::new(),
            versions: Mutex::default(),
            counts: Mutex::default(),
            etcd_ended: Mutex::default(),
            etcd_lease_changes: AtomicU64::new(0),
            look: OnceLock::new(),
        }
    }

    /// The map for a call that begins now.
    pub fn map(&self) -> Option<Arc<BucketMap>> {
        self.current.get().map(CurrentMap::load)
    }

    /// From now on `look` has the map looked at soon; it waits for nothing.
    pub fn set_look(&self, look: impl Fn() + Send + Sync + 'static) {
        let _ = self.look.set(Look(Box::new(look)));
    }

    /// Another server goes by another map: this one's is looked at before its time.
    pub fn look_at_map(&self) {
        if let Some(Look(look)) = self.look.get() {
            look();
        }
    }

    /// What a page of metrics says of the map.
    pub fn in_use(&self) -> MapInUse {
        MapInUse {
            version: self.map().map_or(0, |map| map.version()),
        }
    }

    /// Begins new calls with that map, unless it is older than the one in use; says whether it did.
    ///
    /// # Errors
    /// As [`CurrentMap::offer`].
    pub fn offer(&self, map: Arc<BucketMap>) -> Result<bool, millpond_nodes::Error> {
        let version = map.version();
        let is_first = self.current.get().is_none();
        let current = self.current.get_or_init(|| CurrentMap::new(Arc::clone(&map)));
        let changes = current.offer(map)? || is_first;
        if changes {
            let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
            versions.push(version);
            let extra = versions.len().saturating_sub(MAPS_KEPT + 1);
            versions.drain(..extra);
        }
        Ok(changes)
    }

    /// Whether a caller may have split its call by the map of that version: the one in use, one not long before it, or one that this
    /// server has still to read: rows are where a map says before it is published.
    pub fn knows(&self, version: u64) -> bool {
        // Nearly every call, and without the lock that all net threads share.
        if self.map().is_some_and(|map| map.version() <= version) {
            return true;
        }
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.contains(&version)
    }

    /// The node of that name has a lease in etcd, or has one no more.
    pub fn set_etcd_lease(&self, name: &str, is_held: bool) {
        let mut ended = self.etcd_ended.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = match is_held {
            true => ended.remove(name),
            false => ended.insert(name.to_owned()),
        };
        if changes {
            self.etcd_lease_changes.fetch_add(1, Ordering::Release);
        }
    }

    /// How often [`Nodes::etcd_leases_ended`] has changed.
    pub fn etcd_lease_changes(&self) -> u64 {
        self.etcd_lease_changes.load(Ordering::Acquire)
    }

    /// Nodes whose lease in etcd has ended.
    pub fn etcd_leases_ended(&self) -> BTreeSet<String> {
        self.etcd_ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether a table's keys are on the nodes of the map.
    pub fn spreads(&self, table: &str) -> bool {
        self.options.tables.iter().any(|spread| spread == table)
    }

    /// What is counted of the node of that name.
    pub fn counts(&self, name: &str) -> Arc<NodeCounts> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get(name) {
            Some(found) => Arc::clone(found),
            None => Arc::clone(counts.entry(name.to_owned()).or_default()),
        }
    }

    /// What is counted of every node that was called.
    pub fn all_counts(&self) -> Vec<(String, Arc<NodeCounts>)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let all = counts
            .iter()
            .map(|(name, counts)| (name.clone(), Arc::clone(counts)));
        all.collect()
    }
}

impl NodeCounts {
    /// A call is sent.
    pub fn sent(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.outstanding.fetch_add(1, Ordering::Relaxed);
    }

    /// A call has ended.
    pub fn ended(&self, failed: bool) {
        self.outstanding.fetch_sub(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(failed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn map(version: u64) -> Arc<BucketMap> {
        let text =
            format!("version = {version}\nbuckets = 4\nnodes = [{{ name = \"a\", addresses = [\"a:1\"] }}]");
        Arc::new(BucketMap::from_toml(&text).unwrap())
    }

    #[test]
    fn the_maps_that_callers_may_have_are_known() {
        let nodes = Nodes::new(NodesOptions::default());
        assert!(nodes.map().is_none() && !nodes.knows(1));
        for (version, changes) in [(1, true), (1, false), (2, true), (3, true)] {
            assert_eq!(nodes.offer(map(version)), Ok(changes));
        }
        assert!(nodes.offer(map(2)).is_err());
        assert!([1, 2, 3].into_iter().all(|version| nodes.knows(version)) && nodes.knows(4));
        for version in 4..9 {
            nodes.offer(map(version)).unwrap();
        }
        assert!(nodes.knows(9) && nodes.knows(8) && nodes.knows(4) && !nodes.knows(3));
        assert_eq!(nodes.map().unwrap().version(), 8);
    }

    #[test]
    fn counts_stay_with_the_name() {
        let nodes = Nodes::new(NodesOptions::default());
        nodes.counts("a").sent();
        nodes.counts("a").ended(true);
        let counted = nodes.all_counts();
        let [(name, counts)] = counted.as_slice() else {
            panic!("{counted:?}")
        };
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        assert_eq!(name, "a");
        assert_eq!(
            (of(&counts.calls), of(&counts.failures), of(&counts.outstanding)),
            (1, 1, 0)
        );
    }
}
