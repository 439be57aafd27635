//! A client whose map is in etcd. It follows nothing itself: `membership` does, on a thread of its own. Its invariant: a map that
//! cannot be used changes nothing.

use super::{NodesClient, NodesOptions};
use crate::CallError;
use millpond_membership::{Event, Membership, Options};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::oneshot;

/// What the thread that follows etcd does with what it hears.
struct Heard {
    options: NodesOptions,
    /// The client, once the first map has come. Weak: the client ends its membership, and not the other way round.
    shared: OnceLock<Weak<super::Shared>>,
    first: Mutex<Option<oneshot::Sender<Result<NodesClient, CallError>>>>,
    /// Nodes whose lease has ended, by name: they may be in a map that is still to come.
    ended: Mutex<BTreeSet<String>>,
}

impl Heard {
    fn on(&self, event: Event) {
        match event {
            Event::Map(map) => self.map(&map),
            Event::NodeUp(node) => self.leases(|ended| ended.remove(&node.name)),
            Event::NodeDown { name } => self.leases(|ended| ended.insert(name)),
            // The last map and nodes stay.
            _ => {}
        }
    }

    fn map(&self, map: &millpond_nodes::BucketMap) {
        if self.shared.get().is_some() {
            // One that is older is not taken: etcd was restored from a backup, or two write it.
            self.each(|client| drop(client.offer(map.clone())));
            return self.leases(|_| true);
        }
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(first) = first else { return };
        let client = NodesClient::new(map.clone(), self.options.clone());
        if let Ok(client) = &client {
            let _ = self.shared.set(Arc::downgrade(&client.shared));
        }
        self.leases(|_| true);
        let _ = first.send(client);
    }

    /// Changes which leases have ended, and has calls go by it where that made a difference.
    fn leases(&self, change: impl FnOnce(&mut BTreeSet<String>) -> bool) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut ended) {
            self.each(|client| {
                let cluster = client.cluster();
                cluster.routing().replicas.leases_ended(cluster.map(), &ended);
            });
        }
    }

    fn each(&self, act: impl FnOnce(&NodesClient)) {
        if let Some(shared) = self.shared.get().and_then(Weak::upgrade) {
            act(&NodesClient { shared });
        }
    }
}

impl NodesClient {
    /// A client whose map and nodes are in etcd, which it follows until the last clone is dropped. Dropping that one waits until
    /// the thread has ended, at most as long as one call to etcd may take.
    ///
    /// # Errors
    /// [`CallError::Map`] where etcd's options cannot be used, or etcd has no map within `wait`; else as [`NodesClient::new`].
    pub async fn follow(
        etcd: Options,
        options: NodesOptions,
        wait: Duration,
    ) -> Result<NodesClient, CallError> {
        let (first, has_come) = oneshot::channel();
        let heard = Arc::new(Heard {
            options,
            shared: OnceLock::new(),
            first: Mutex::new(Some(first)),
            ended: Mutex::default(),
        });
        let membership = Membership::start(etcd, move |event| heard.on(event));
        let membership = membership.map_err(|error| CallError::Map(error.to_string()))?;
        let late = || CallError::Map(format!("etcd has no map for this cluster within {wait:?}"));
        let client = tokio::time::timeout(wait, has_come).await.map_err(|_| late())?;
        let client = client.map_err(|_| late())??;
        let _ = client.shared.membership.set(membership);
        Ok(client)
    }
}
