//! All connections that a net thread opens: to nodes, and to the process of this server that has its ordered stores.
//!
//! It reads no answer. Its invariant: calls to the stores leave over one connection of a thread, in their order.

use crate::pool::NodePool;
use millpond_calls::{Outbound, Service};
use millpond_fronts_answer::{Reach, Serving};
use millpond_net::Outward;
use std::time::Instant;

/// A net thread's connections to nodes, and to the process that has the stores.
pub struct Pools(Vec<NodePool>);

impl Pools {
    /// These, where there are any.
    pub fn new(nodes: Option<NodePool>, stores: Option<NodePool>) -> Option<Pools> {
        let pools: Vec<NodePool> = nodes.into_iter().chain(stores).collect();
        (!pools.is_empty()).then_some(Pools(pools))
    }
}

impl<S: Service> Reach<S> for Pools {
    fn another(&self) -> Box<dyn Reach<S>> {
        Box::new(Pools(self.0.iter().map(NodePool::begin).collect()))
    }

    fn wake_at(&self) -> Option<Instant> {
        self.0.iter().filter_map(Reach::<S>::wake_at).min()
    }

    fn turn(&mut self, outbound: &Outbound, now: Instant, asked: &mut Vec<Outward<Serving<S>>>) {
        for pool in &mut self.0 {
            Reach::<S>::turn(pool, outbound, now, asked);
        }
    }
}
