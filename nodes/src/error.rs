//! What can be wrong with a bucket map, or with a call that uses one. Its invariant: each case names the node, the bucket or the
//! key of the file that is wrong, and says what would be right.

use crate::{
    ADDRESSES_MAX, BUCKETS_MAX, MAP_BYTES_MAX, NAME_BYTES_MAX, NODES_MAX, REPLICAS_MAX, VERSION_MAX,
};

/// Why a map, or a change of maps, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither the TOML nor the JSON of a map.
    #[error("the bucket map cannot be read: {0}")]
    Unreadable(String),
    /// More text than a map may have.
    #[error(
        "the bucket map has {bytes} bytes, more than {MAP_BYTES_MAX}; write buckets as ranges, or use fewer"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A version that no map may have.
    #[error("version {version} of the bucket map is not within 1 to {VERSION_MAX}")]
    Version {
        /// What the map says.
        version: u64,
    },
    /// No bucket, or too many.
    #[error("buckets = {buckets} is not within 1 to {BUCKETS_MAX}")]
    Buckets {
        /// What the map says.
        buckets: u64,
    },
    /// A map without a node.
    #[error("the bucket map has no node; list at least one under `nodes`")]
    NoNodes,
    /// More nodes than a map may have.
    #[error("the bucket map has {nodes} nodes, more than {NODES_MAX}")]
    TooManyNodes {
        /// How many it has.
        nodes: usize,
    },
    /// A name that no node may have.
    #[error("node {name:?}: {why}; a name is 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' and '-'")]
    Name {
        /// The start of what the map says.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two nodes of one name.
    #[error("two nodes are called {name:?}; give each a name of its own")]
    SameName {
        /// That name.
        name: String,
    },
    /// A node that cannot be reached.
    #[error("node {node:?} has {addresses} addresses; it needs 1 to {ADDRESSES_MAX}")]
    Addresses {
        /// The node.
        node: String,
        /// How many it has.
        addresses: usize,
    },
    /// An address that is none.
    #[error("node {node:?}: address {address:?}: {why}; write HOST:PORT, unix:PATH or tls://HOST:PORT")]
    Address {
        /// The node.
        node: String,
        /// The start of what the map says.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two nodes at one address, or one node that has it twice.
    #[error("address {address:?} of node {node:?} is already that of node {first:?}")]
    SameAddress {
        /// The address.
        address: String,
        /// The node that had it first.
        first: String,
        /// The node that has it again.
        node: String,
    },
    /// Buckets of a node that cannot be read.
    #[error("node {node:?}: buckets = {text:?}: {why}; write numbers and ranges, as in \"0-511,1024\"")]
    Ranges {
        /// The node.
        node: String,
        /// The part that is wrong.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A bucket that the map does not have.
    #[error("node {node:?} has bucket {bucket}, and the map has buckets 0 to {}", buckets - 1)]
    NoSuchBucket {
        /// The node.
        node: String,
        /// The bucket.
        bucket: u64,
        /// How many the map has.
        buckets: u32,
    },
    /// A node that has a bucket twice.
    #[error("node {node:?} has bucket {bucket} twice; a replica is on another node")]
    SameReplica {
        /// The node.
        node: String,
        /// The bucket.
        bucket: u32,
    },
    /// A bucket on too many nodes.
    #[error("bucket {bucket} is on more than {REPLICAS_MAX} nodes")]
    TooManyReplicas {
        /// The first such bucket.
        bucket: u32,
    },
    /// Buckets on no node.
    #[error(
        "buckets {first} to {last} are on no node ({missing} of {buckets} have none); give them to a node"
    )]
    Hole {
        /// The first bucket without a node.
        first: u32,
        /// The last one of that range.
        last: u32,
        /// How many buckets have no node.
        missing: u32,
        /// How many buckets there are.
        buckets: u32,
    },
    /// A node list that says both how buckets are spread and where they are.
    #[error(
        "node {node:?} lists its buckets, and `replicas` would spread them by itself; leave out one of the two"
    )]
    TwoForms {
        /// The first node that lists its buckets.
        node: String,
    },
    /// A node that says nothing of its buckets beside others that do.
    #[error(
        "node {node:?} lists no buckets, and other nodes do; write buckets = \"\" where a node has none yet"
    )]
    NoBuckets {
        /// The first such node.
        node: String,
    },
    /// More replicas than nodes, more than may be, or none.
    #[error(
        "replicas = {replicas} is not within 1 to {}, with {nodes} nodes and at most {REPLICAS_MAX} replicas",
        nodes.min(&REPLICAS_MAX)
    )]
    Replicas {
        /// What the map says.
        replicas: u64,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A change to an older map.
    #[error(
        "version {offered} of the bucket map is older than version {current}, which is in use; publish a higher version"
    )]
    Older {
        /// The version that is in use.
        current: u64,
        /// The one that was refused.
        offered: u64,
    },
    /// Two maps of one version.
    #[error(
        "the bucket map has changed and its version, {version}, has not; publish every change under a higher version"
    )]
    SameVersion {
        /// The version of both.
        version: u64,
    },
    /// More keys than positions can count.
    #[error("a call has {keys} keys, more than {}; split it", u32::MAX)]
    TooManyKeys {
        /// How many.
        keys: usize,
    },
}

/// The start of a text that somebody else wrote, for a message.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}
