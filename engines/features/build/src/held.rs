//! The keys that one node holds, of a table that is spread over several.
//!
//! It knows no bucket map: whoever builds says which keys are held. Its invariant: keys of other nodes leave no trace in a version.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use millpond_engines_features::{NodeShare, Table};

use crate::error::Error;

/// A node, and which keys it holds.
#[derive(Clone)]
pub struct Held {
    share: NodeShare,
    holds: Arc<dyn Fn(u64) -> bool + Send + Sync>,
}

impl Held {
    /// What a node has by its map; `holds` says of a key (of a text, its hash) whether it is among it.
    pub fn new(share: NodeShare, holds: impl Fn(u64) -> bool + Send + Sync + 'static) -> Held {
        Held {
            share,
            holds: Arc::new(holds),
        }
    }

    /// What the manifest says of it.
    pub fn share(&self) -> &NodeShare {
        &self.share
    }

    /// Whether the node holds the key.
    pub fn holds(&self, key: u64) -> bool {
        (self.holds)(key)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({})", self.share)
    }
}

/// A delta has keys of the node of its base, by the same map.
pub(crate) fn check_base(held: Option<&Held>, base: &Table) -> Result<(), Error> {
    let (share, there) = (held.map(Held::share), base.node());
    if share == there {
        return Ok(());
    }
    let shown =
        |share: Option<&NodeShare>| share.map_or("all nodes".to_owned(), |share| format!("node {share}"));
    let path: PathBuf = base.path().to_path_buf();
    let problem = format!(
        "it is for {}, the delta for {}; after a change of the map build anew",
        shown(there),
        shown(share)
    );
    Err(Error::Base { path, problem })
}
