//! The options of a client of many nodes, and what it counts. It decides nothing. Its invariant: every value does what its words say.

use crate::Options;
use millpond_nodes::{HedgeOptions, RetryOptions};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Limits and habits of a client of many nodes.
#[derive(Debug, Clone)]
pub struct NodesOptions {
    /// Of the connections to each node. [`Options::hedge`] is not used: a second copy goes to another node, as `hedge` says.
    /// [`Options::tls`] is used for nodes with an address that begins with tls://.
    pub connections: Options,
    /// How often a slow node's keys are asked of other replicas too.
    pub hedge: HedgeOptions,
    /// How long a node that failed is left out.
    pub retry: RetryOptions,
    /// A node that leaves a copy of a call unanswered for so long has failed, and other replicas are asked.
    pub node_timeout: Duration,
    /// Bytes of rows that one answer may have.
    pub answer_bytes_max: usize,
    /// What opens the methods, where the nodes ask for a token.
    pub token: Option<Token>,
}

impl Default for NodesOptions {
    /// One connection to each node; hedges for 5 % of what is sent, from the 95th percentile and 200 µs on; nodes that failed rest
    /// 100 ms to 10 s; 1 s for a node to answer; answers up to 256 MiB.
    fn default() -> NodesOptions {
        NodesOptions {
            connections: Options::default(),
            hedge: HedgeOptions::default(),
            retry: RetryOptions::default(),
            node_timeout: Duration::from_secs(1),
            answer_bytes_max: 256 << 20,
            token: None,
        }
    }
}

/// A secret: it is not in its debug form.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(not shown)")
    }
}

/// What a client of many nodes has sent since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodesCounts {
    /// Copies sent to nodes.
    pub sent: u64,
    /// Of these, those sent because another copy was slow.
    pub hedged: u64,
    /// Copies that failed, or that a node refused.
    pub failed: u64,
    /// Keys that were left without an answer.
    pub missing: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counted {
    sent: AtomicU64,
    hedged: AtomicU64,
    failed: AtomicU64,
    missing: AtomicU64,
}

impl Counted {
    pub(super) fn sent(&self, is_hedge: bool) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.hedged.fetch_add(u64::from(is_hedge), Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn missing(&self, keys: usize) {
        self.missing.fetch_add(keys as u64, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> NodesCounts {
        NodesCounts {
            sent: self.sent.load(Ordering::Relaxed),
            hedged: self.hedged.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            missing: self.missing.load(Ordering::Relaxed),
        }
    }
}
