//! A call that each node could answer: it goes to one after the other until one does.
//!
//! It splits nothing. Its invariants: no node is asked twice, and none has more time than what is left of the call's.

use super::NodesOptions;
use super::cluster::Cluster;
use super::drive::is_of_the_call;
use crate::CallError;
use millpond_nodes::{Asked, Replicas};
use std::time::Duration;
use tokio::time::Instant;

/// What the first node answers that `read` takes; `left` is what is left of the call's time, where it has a deadline.
pub(super) async fn ask_any<T>(
    cluster: &Cluster,
    method: &str,
    payload: &[u8],
    left: impl Fn() -> Option<Duration>,
    options: &NodesOptions,
    read: impl Fn(&[u8], &str) -> Result<T, CallError>,
) -> Result<T, CallError> {
    let (mut last, mut nodes) = (None, cluster.nodes());
    while let Some(node) = cluster.take_next(&mut nodes) {
        let Some(client) = cluster.client(node) else {
            continue;
        };
        let left_now = left();
        let timeout = left_now.map_or(options.node_timeout, |left| left.min(options.node_timeout));
        let asked = cluster.routing().replicas.sent(node, Instant::now().into_std());
        let mut counted = Counted {
            cluster,
            asked: Some(asked),
        };
        let ended = client.call_within(method, payload, left_now, timeout).await;
        match &ended {
            Ok(_) | Err(CallError::Status(_)) => counted.ended(|replicas| replicas.answered(node)),
            // These say nothing of the node; the last of them had less time than nodes have.
            Err(CallError::TooManyInFlight { .. } | CallError::Unsendable { .. }) => {}
            Err(CallError::Timeout { .. }) if timeout < options.node_timeout => {}
            Err(_) => counted.ended(|replicas| replicas.failed(node, Instant::now().into_std())),
        }
        drop(counted);
        match ended.and_then(|answer| read(&answer, cluster.name(node))) {
            Ok(answer) => return Ok(answer),
            Err(error) if is_of_the_call(&error) || left().is_some_and(|left| left.is_zero()) => {
                return Err(error);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| CallError::Map("the map has no node".to_owned())))
}

/// A call to a node, which counts for as long as it is under way: its caller may leave.
struct Counted<'c> {
    cluster: &'c Cluster,
    asked: Option<Asked>,
}

impl Counted<'_> {
    /// It says something of the node.
    fn ended(&mut self, tell: impl FnOnce(&mut Replicas)) {
        self.asked = None;
        tell(&mut self.cluster.routing().replicas);
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take() {
            let now = Instant::now().into_std();
            self.cluster.routing().replicas.abandoned(asked, now);
        }
    }
}
