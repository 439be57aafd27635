//! Which node a version was built for, and which buckets of keys it has.
//!
//! The engine asks nobody about buckets: it says what the version's builder said. Its invariant: a delta is for the node of its base.

use serde::{Deserialize, Serialize};

/// What a version that was built for one node has of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node's name.
    pub name: String,
    /// The version of the bucket map.
    pub map_version: u64,
    /// How many buckets that map has.
    pub buckets: u32,
    /// Those that the node holds, as "0-511,1024".
    pub held: String,
}

impl std::fmt::Display for NodeShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NodeShare {
            name,
            map_version,
            buckets,
            held,
        } = self;
        write!(f, "{name} of map {map_version}, buckets {held} of {buckets}")
    }
}
