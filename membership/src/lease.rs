//! This process as a node that others call: a key that lives as long as its lease. Its invariant: the key is never put without a
//! lease, so that a process that dies is gone after the lease's time.

use crate::Error;
use crate::gateway::Etcd;
use crate::messages::Pair;
use crate::state::{NodeValue, node_key};
use millpond_nodes::Node;
use std::time::Duration;

/// The registration of one process.
pub(crate) struct Lease {
    pub(crate) name: String,
    pub(crate) key: String,
    value: Vec<u8>,
    ttl: Duration,
    /// The lease that it has, or had until etcd could not be asked.
    id: Option<i64>,
    /// Whether the key was put under it: a lease whose put failed is used again, not left behind.
    is_put: bool,
}

impl Lease {
    pub(crate) fn new(cluster: &str, node: &Node, ttl: Duration) -> Lease {
        Lease {
            name: node.name.clone(),
            key: node_key(cluster, &node.name),
            value: NodeValue::written(node),
            ttl,
            id: None,
            is_put: false,
        }
    }

    /// Keeps the lease, or registers anew where it is lost; says which lease is new.
    pub(crate) async fn keep(&mut self, etcd: &Etcd) -> Result<Option<i64>, Error> {
        let kept = match self.id {
            Some(id) if etcd.keep_alive(id).await? => Some(id),
            _ => None,
        };
        let id = match kept {
            Some(_) if self.is_put => return Ok(None),
            Some(id) => id,
            None => {
                self.is_put = false;
                self.id = None;
                let id = etcd.grant(self.ttl).await?;
                self.id = Some(id);
                id
            }
        };
        etcd.put(&self.key, &self.value, id).await?;
        self.is_put = true;
        Ok(Some(id))
    }

    /// Puts the key again where somebody removed or changed it while the lease lives.
    pub(crate) async fn restore(&mut self, etcd: &Etcd, found: Option<&Pair>) -> Result<Option<i64>, Error> {
        let Some(id) = self.id else {
            return self.keep(etcd).await;
        };
        if found.is_some_and(|pair| pair.lease.0 == id && pair.value.0 == self.value) {
            return Ok(None);
        }
        match etcd.put(&self.key, &self.value, id).await {
            Ok(()) => Ok(None),
            Err(error) if error.is_not_found() => {
                self.id = None;
                self.keep(etcd).await
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a key's lease is not this one.
    pub(crate) fn is_other(&self, pair: &Pair) -> bool {
        self.id.is_some_and(|id| id != pair.lease.0)
    }

    /// Leaves at once, as far as etcd answers.
    pub(crate) async fn leave(&mut self, etcd: &Etcd) {
        if let Some(id) = self.id.take() {
            // What cannot be revoked ends with the lease.
            let _ = etcd.revoke(id).await;
        }
    }
}
