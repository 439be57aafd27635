//! The clients of all nodes of one map, and what is known of them. Its invariant: a node's place in the map is the place of its
//! client.

use super::NodesOptions;
use crate::{CallError, Client, Options};
use millpond_nodes::{BucketMap, Node, NodeIndex, Routing, TLS};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

pub(super) struct Cluster {
    map: Arc<BucketMap>,
    routing: Mutex<Routing>,
    clients: Vec<Client>,
}

impl Cluster {
    pub(super) fn new(map: Arc<BucketMap>, options: &NodesOptions) -> Result<Cluster, CallError> {
        let clients = map.nodes().iter().map(|node| client(node, &options.connections));
        Ok(Cluster {
            clients: clients.collect::<Result<_, _>>()?,
            routing: Mutex::new(Routing::new(map.clone(), options.hedge, options.retry)),
            map,
        })
    }

    /// The cluster of the map that follows: nodes that are in both keep their connections.
    pub(super) fn succeeded_by(
        &self,
        map: Arc<BucketMap>,
        options: &NodesOptions,
    ) -> Result<Cluster, CallError> {
        let client_of = |node: &Node| {
            let place = self.map.nodes().iter().position(|old| old == node);
            match place.and_then(|place| self.clients.get(place)) {
                Some(client) => Ok(client.clone()),
                None => client(node, &options.connections),
            }
        };
        Ok(Cluster {
            clients: map.nodes().iter().map(client_of).collect::<Result<_, _>>()?,
            routing: Mutex::new(self.routing().succeeded_by(map.clone())),
            map,
        })
    }

    pub(super) fn map(&self) -> &Arc<BucketMap> {
        &self.map
    }

    /// Held for as long as an event takes, never over a wait.
    pub(super) fn routing(&self) -> MutexGuard<'_, Routing> {
        self.routing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn client(&self, node: NodeIndex) -> Option<&Client> {
        self.clients.get(node.get())
    }

    /// All nodes.
    pub(super) fn nodes(&self) -> Vec<NodeIndex> {
        let nodes = self.map.nodes().iter();
        nodes.filter_map(|node| self.map.find(&node.name)).collect()
    }

    /// Takes the node out of some that is asked next for what each of them could answer.
    pub(super) fn take_next(&self, left: &mut Vec<NodeIndex>) -> Option<NodeIndex> {
        let now = Instant::now().into_std();
        let next = self.routing().replicas.choose(left, now).node();
        let at = left.iter().position(|node| *node == next)?;
        Some(left.swap_remove(at))
    }

    pub(super) fn name(&self, node: NodeIndex) -> &str {
        self.map.node(node).map_or("", |node| &node.name)
    }
}

/// A client of one node, which connects when it is called.
fn client(node: &Node, options: &Options) -> Result<Client, CallError> {
    let addresses: Vec<&str> = node.usable_addresses(options.tls.is_some()).collect();
    let addresses = match addresses.as_slice() {
        // What is missing is said by the client.
        [] => node.addresses.join(","),
        usable => usable.join(","),
    };
    let has_tls = addresses.starts_with(TLS);
    let options = Options {
        tls: options.tls.clone().filter(|_| has_tls),
        hedge: None,
        ..options.clone()
    };
    Client::unconnected(&addresses, options)
}
