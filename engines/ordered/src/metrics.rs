//! What a page of metrics, `*infos` and INFO have of a store.
//!
//! Invariant: a figure is read from what counts it, without a wait for whoever writes.

use std::sync::atomic::Ordering;

use millpond_metrics::Metric;

use crate::checkpoint::keeper::Counts;
use crate::replication::WAIT_MAX;
use crate::{Role, Store};

impl Store {
    /// What a page and `*infos` have of it. Of several processes one has the stores.
    pub const METRICS: &'static [Metric<Store>] = &[
        Metric::gauge("millpond_store_keys", "Keys in the store.", |store: &Store| {
            store.len() as f64
        })
        .info("keys"),
        Metric::gauge(
            "millpond_store_bytes",
            "Memory that the store's entries take: keys, values and 48 bytes each.",
            |store: &Store| store.entry_bytes() as f64,
        ),
        Metric::gauge(
            "millpond_store_memory_bytes",
            "Memory that the store's tree has taken, with what is free in it for entries to come.",
            |store: &Store| store.handle.index.tree_bytes() as f64,
        )
        .info("memory_bytes"),
        Metric::gauge(
            "millpond_store_expiring_keys",
            "Keys in the store that expire, those that have and are not removed yet among them.",
            |store: &Store| store.handle.index.expiring() as f64,
        )
        .info("expiring"),
        Metric::counter(
            "millpond_store_evicted_total",
            "Keys removed to make room for writes, by the store's eviction.",
            |store: &Store| store.evicted() as f64,
        )
        .info("evicted"),
        Metric::gauge(
            "millpond_store_read_only",
            "1 once its log failed: reads go on, puts are refused until a restart.",
            |store: &Store| f64::from(store.read_only().is_some()),
        ),
        Metric::gauge(
            "millpond_store_log_bytes",
            "Bytes of the log since the last checkpoint: what a start reads behind it.",
            |store: &Store| store.counted(|counts| counts.log_bytes.load(Ordering::Relaxed) as f64),
        ),
        Metric::gauge(
            "millpond_store_checkpoint_bytes",
            "Bytes of the last checkpoint; 0 where there is none.",
            |store: &Store| store.counted(|counts| counts.bytes.load(Ordering::Relaxed) as f64),
        ),
        Metric::gauge(
            "millpond_store_checkpoint_seconds",
            "How long the last checkpoint took to write; 0 where this process has written none.",
            |store: &Store| store.counted(|counts| counts.took_ms.load(Ordering::Relaxed) as f64 / 1e3),
        ),
        Metric::gauge(
            "millpond_store_checkpoint_age_seconds",
            "Since the last checkpoint was finished; 0 where there is none.",
            |store: &Store| store.counted(|counts| store.age_s(counts.taken_ms.load(Ordering::Relaxed))),
        ),
        Metric::gauge(
            "millpond_store_checkpoint_failing",
            "1 while the last attempt to write a checkpoint failed: the log grows.",
            |store: &Store| store.counted(|counts| f64::from(counts.is_failing.load(Ordering::Relaxed))),
        ),
        Metric::gauge(
            "millpond_store_sweep_failing",
            "1 while keys that have expired, or are beyond the limit, cannot be removed: they take memory.",
            |store: &Store| {
                store.counted(|counts| f64::from(counts.is_sweep_failing.load(Ordering::Relaxed)))
            },
        ),
    ];

    /// What a page has of its followers and its leader.
    pub const REPLICATION_METRICS: &'static [Metric<Store>] = &[
        Metric::gauge(
            "millpond_store_leads",
            "1 where the store takes writes; 0 where it follows another server's, or another was promoted in its place.",
            |store: &Store| f64::from(store.role() == Role::Leads),
        )
        .info("leads"),
        Metric::gauge(
            "millpond_store_record",
            "The last record of its log; 0 where there is none.",
            |store: &Store| store.last_sequence() as f64,
        ),
        Metric::gauge(
            "millpond_store_follower_connected",
            "Of a follower: 1 while its leader answers.",
            |store: &Store| f64::from(store.lag().is_some_and(|lag| lag.is_connected)),
        ),
        Metric::gauge(
            "millpond_store_follower_lag_records",
            "Of a follower: records that its leader had when it last answered, and this store has not.",
            |store: &Store| store.lag().map_or(0.0, |lag| lag.records as f64),
        ),
        Metric::gauge(
            "millpond_store_follower_lag_seconds",
            "Of a follower: for how long it has not had all that its leader had, as far as it knows; 0 until it had once.",
            |store: &Store| {
                store
                    .lag()
                    .and_then(|lag| lag.ms)
                    .map_or(0.0, |ms| ms as f64 / 1e3)
            },
        ),
        Metric::gauge(
            "millpond_store_followers",
            "Of a leader: servers that asked for its records within the last minute.",
            |store: &Store| {
                let mut seen = store.followers();
                seen.retain(|follower| follower.age <= WAIT_MAX);
                seen.len() as f64
            },
        )
        .info("followers"),
        Metric::gauge(
            "millpond_store_unacknowledged",
            "1 while no follower has the store's last writes in time (acknowledge = \"follower\"): they are held back, and further ones refused.",
            |store: &Store| f64::from(store.is_acknowledging() == Some(false)),
        ),
        Metric::gauge(
            "millpond_store_follower_copying",
            "Of a follower: 1 while it takes a copy of its leader's store, as the leader's log begins behind what it has.",
            |store: &Store| f64::from(store.copy_progress().is_some()),
        ),
        Metric::gauge(
            "millpond_store_follower_copied_bytes",
            "Of a follower that takes a copy: bytes of the leader's checkpoint that it has; 0 otherwise.",
            |store: &Store| store.copy_progress().map_or(0.0, |copy| copy.bytes as f64),
        ),
        Metric::gauge(
            "millpond_store_follower_copy_bytes",
            "Of a follower that takes a copy: bytes of the leader's checkpoint; 0 otherwise.",
            |store: &Store| store.copy_progress().map_or(0.0, |copy| copy.of_bytes as f64),
        ),
        Metric::gauge(
            "millpond_store_copies_given",
            "Of a leader: checkpoints that it holds for followers which copy it, with the log behind them.",
            |store: &Store| store.copies_given() as f64,
        ),
    ];

    pub(crate) fn counted(&self, count: impl FnOnce(&Counts) -> f64) -> f64 {
        self.handle.meet.as_ref().map_or(0.0, |meet| count(&meet.counts))
    }

    /// Seconds since a moment of the store's clock; 0 where it is none.
    fn age_s(&self, since_ms: u64) -> f64 {
        let age_ms = self.handle.index.clock().now_ms().saturating_sub(since_ms);
        if since_ms == 0 { 0.0 } else { age_ms as f64 / 1e3 }
    }
}
