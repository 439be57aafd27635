//! Where a key lives, and which node is asked for it.
//!
//! A [`BucketMap`] says which nodes hold a key; [`Split`] groups the keys of a call by node; [`Replicas`] chooses among the nodes
//! of a bucket; [`Hedging`] says when a slow call is sent to a second one; [`Pins`] which version of a table all nodes are asked
//! for. [`FanOut`] is one call over all of these, of a [`Routing`]; [`StampClock`] orders upserts of several servers. All of it is pure: nothing here opens a socket, starts
//! a thread or reads a clock; time is passed in. The format of a map is drawn in docs/formats/bucket-map.md.
//! The invariant: a map that could be made has at least one node for every bucket, and never changes.
//!
//! ```
//! use millpond_nodes::{BucketMap, Replicas, Split};
//! use std::time::Instant;
//!
//! let map = BucketMap::from_toml(
//!     r#"
//!     version = 1
//!     buckets = 1024
//!     replicas = 2
//!     nodes = [
//!         { name = "a", addresses = ["10.0.0.1:13500"] },
//!         { name = "b", addresses = ["10.0.0.2:13500"] },
//!         { name = "c", addresses = ["10.0.0.3:13500"] },
//!     ]
//!     "#,
//! )?;
//! let mut replicas = Replicas::new(&map);
//! let mut split = Split::default();
//! let now = Instant::now();
//! split.split(&map, &[42, 7, 42], |nodes| replicas.choose(nodes, now).node())?;
//! let keys: usize = split.groups().map(|group| group.keys.len()).sum();
//! assert_eq!(keys, 3);
//! # Ok::<(), millpond_nodes::Error>(())
//! ```

mod address;
mod current;
mod error;
mod fan_out;
mod file;
mod hash;
mod hedge;
mod latencies;
mod map;
mod pins;
mod ranges;
mod replicas;
mod routing;
mod split;
mod spread;
mod stamps;

pub use address::{TLS, check_address, host_of};
pub use current::CurrentMap;
pub use error::Error;
pub use fan_out::{CopyId, FanOut, Missing, Outcome, ToSend, Verdict};
pub use file::{MapFile, NodeFile};
pub use hash::{bucket_of, hash, text_key};
pub use hedge::{Action, Attempt, Event, HedgeOptions, Hedging, Sent};
pub use latencies::Latencies;
pub use map::{BucketMap, Node, NodeIndex};
pub use pins::Pins;
pub use replicas::{Asked, Choice, Replicas, RetryOptions};
pub use routing::Routing;
pub use split::{Group, Split};
pub use stamps::StampClock;

/// Buckets of a map at most.
pub const BUCKETS_MAX: u32 = 65_536;
/// Nodes of a map at most.
pub const NODES_MAX: usize = 1_024;
/// Replicas of a bucket at most.
pub const REPLICAS_MAX: usize = 8;
/// Addresses of a node at most.
pub const ADDRESSES_MAX: usize = 16;
/// Bytes of a node's name at most.
pub const NAME_BYTES_MAX: usize = 64;
/// Bytes of an address at most.
pub const ADDRESS_BYTES_MAX: usize = 256;
/// Bytes of a map's text at most: what etcd takes as one request when nothing else is configured.
pub const MAP_BYTES_MAX: usize = 1_572_864;
/// The largest version of a map: the largest integer of TOML.
pub const VERSION_MAX: u64 = i64::MAX as u64;
