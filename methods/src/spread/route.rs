//! Where the calls of a net thread go: the map in use, and what the thread knows of its nodes.
//! Its invariant: a call keeps the route that it began with, and reports to it.

use millpond_calls::{NodeCounts, Nodes};
use millpond_nodes::{BucketMap, Node, NodeIndex, RetryOptions, Routing};
use millpond_wire_schema::{Code, Status};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a net thread keeps from call to call.
#[derive(Default)]
pub struct Kept {
    route: Option<Arc<Route>>,
    /// What was known of leases in etcd: see [`Nodes::etcd_lease_changes`].
    lease_changes: u64,
}

/// The way to the nodes of one map.
pub(super) struct Route {
    pub(super) map: Arc<BucketMap>,
    nodes: Vec<(Arc<Node>, Arc<NodeCounts>)>,
    /// This server, if it is one of them.
    pub(super) this: Option<NodeIndex>,
    routing: Mutex<Routing>,
}

impl Kept {
    /// The route of the map that calls begin with now.
    pub(super) fn route(&mut self, nodes: &Nodes) -> Result<Arc<Route>, Status> {
        let Some(map) = nodes.map() else {
            let ex = "the map of nodes is not known yet; etcd has none, or has not answered";
            return Err(Status::new(Code::NodeUnavailable, ex));
        };
        // Before they are read: what changes meanwhile is seen by the next call.
        let lease_changes = nodes.etcd_lease_changes();
        let has_changed = std::mem::replace(&mut self.lease_changes, lease_changes) != lease_changes;
        let before = match &self.route {
            Some(route) if route.map.version() == map.version() => {
                if has_changed {
                    let ended = nodes.etcd_leases_ended();
                    route.routing().replicas.leases_ended(&map, &ended);
                }
                return Ok(Arc::clone(route));
            }
            before => before.as_ref(),
        };
        let this = nodes.options.name.as_ref().and_then(|name| map.find(name));
        let mut routing = match before {
            Some(before) => before.routing().succeeded_by(Arc::clone(&map)),
            None => Routing::new(Arc::clone(&map), nodes.options.hedging, RetryOptions::default()),
        };
        routing.replicas.prefer(this);
        routing.replicas.leases_ended(&map, &nodes.etcd_leases_ended());
        let of_map = map.nodes().iter();
        let route = Arc::new(Route {
            nodes: of_map
                .map(|node| (Arc::new(node.clone()), nodes.counts(&node.name)))
                .collect(),
            this,
            routing: Mutex::new(routing),
            map,
        });
        self.route = Some(Arc::clone(&route));
        Ok(route)
    }
}

impl Route {
    /// What is known of the nodes.
    pub(super) fn routing(&self) -> MutexGuard<'_, Routing> {
        self.routing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node, and what is counted of it.
    pub(super) fn node(&self, index: NodeIndex) -> Option<(&Arc<Node>, &NodeCounts)> {
        self.nodes
            .get(index.get())
            .map(|(node, counts)| (node, &**counts))
    }

    /// A node's name.
    pub(super) fn name(&self, index: NodeIndex) -> &str {
        self.node(index).map_or("", |(node, _)| &node.name)
    }
}
