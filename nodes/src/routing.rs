//! What is known of the nodes of one map, where calls are sent by it. Calls that began on a map report to the routing of that map;
//! the next map's begins with what it can take over. Its invariant: its parts are of one map.

use crate::{BucketMap, HedgeOptions, Hedging, Pins, Replicas, RetryOptions, Split};
use std::sync::Arc;

/// A map, and what is known of its nodes.
#[derive(Debug)]
pub struct Routing {
    map: Arc<BucketMap>,
    /// Who is up, and has how many calls.
    pub replicas: Replicas,
    /// How long answers take, and the budget of hedges.
    pub hedging: Hedging,
    /// Which versions of tables are served.
    pub pins: Pins,
    /// Scratch for calls that begin.
    pub(crate) split: Split,
}

impl Routing {
    /// Nothing is known of the nodes yet.
    pub fn new(map: Arc<BucketMap>, hedge: HedgeOptions, retry: RetryOptions) -> Routing {
        Routing {
            replicas: Replicas::with(&map, retry),
            hedging: Hedging::new(hedge),
            pins: Pins::new(&map),
            split: Split::default(),
            map,
        }
    }

    /// The routing of the map that follows.
    pub fn succeeded_by(&self, next: Arc<BucketMap>) -> Routing {
        Routing {
            replicas: self.replicas.succeeded_by(&self.map, &next),
            hedging: self.hedging.clone(),
            pins: self.pins.succeeded_by(&self.map, &next),
            split: Split::default(),
            map: next,
        }
    }

    /// The map.
    pub fn map(&self) -> &Arc<BucketMap> {
        &self.map
    }
}
