//! What hears of an upsert's copies: sinks on its net thread, and this server's own log on that log's thread.
//! Its invariant: a node's end is reported to the routing once, however late it comes.

use super::{Sending, Shared, locked};
use crate::spread::part::payload;
use crate::spread::route::Route;
use millpond_calls::{NodeAnswer, NodeError, NodeSink, Outbound};
use millpond_engines_features::{Durability, Stamp, UpsertError, Upserted};
use millpond_nodes::NodeIndex;
use millpond_wire_schema::{Field as _, features_upsert as schema};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What this server's log has said of its copy.
#[derive(Clone, Default)]
pub(super) struct Here(Arc<Mutex<Option<Result<Upserted, UpsertError>>>>);

impl Here {
    /// The log has ended with it: on its thread, or while the upsert hands it over, which has the lock then.
    pub(super) fn ended(&self, result: Result<Upserted, UpsertError>, call: &Mutex<Sending>) {
        let is_good = result.is_ok();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        // Where something is left to be sent, the net thread looks soon.
        if is_good && let Ok(mut call) = call.try_lock() {
            call.take_here();
            call.answer_if_whole();
        }
    }

    pub(super) fn take(&self) -> Option<Result<Upserted, UpsertError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Reports to the routing how a call to a node has ended.
fn report(route: &Route, node: NodeIndex, is_up: bool, now: Instant) {
    let mut routing = route.routing();
    match is_up {
        true => routing.replicas.answered(node),
        false => routing.replicas.failed(node, now),
    }
}

/// Reads a node's answer to an upsert.
fn read(name: &str, answer: Result<NodeAnswer<'_>, NodeError>) -> Result<schema::Answer<'static>, NodeError> {
    let payload = payload(name, answer?)?;
    let decoded = schema::Answer::decode(&payload);
    decoded
        .map(|(answer, _)| schema::Answer::own(answer))
        .map_err(|error| NodeError::unavailable(name, &format!("answered what cannot be used: {error}")))
}

/// A copy's sink.
pub(super) struct CopySink {
    pub(super) call: Shared,
    pub(super) share: usize,
    pub(super) attempt: u32,
    pub(super) node: NodeIndex,
}

impl NodeSink for CopySink {
    fn ended(self: Box<Self>, outbound: &Outbound, now: Instant, answer: Result<NodeAnswer<'_>, NodeError>) {
        let mut call = locked(&self.call);
        let route = Arc::clone(&call.begun.route);
        let answer = read(route.name(self.node), answer);
        let is_up = answer.as_ref().err().is_none_or(|error| error.is_answer);
        report(&route, self.node, is_up, now);
        // A copy of an attempt before may have been written: this attempt's rows are newer than its.
        if self.attempt == call.attempt {
            call.ended(self.share, answer.map(upserted));
            call.settle(&self.call, outbound, now);
        }
    }
}

fn upserted(answer: schema::Answer<'static>) -> Upserted {
    let durability = match &*answer.durability {
        "synced" => Durability::Synced,
        "logged" => Durability::Logged,
        _ => Durability::Memory,
    };
    Upserted {
        sequence: answer.sequence,
        durability,
        newer: Stamp {
            time: answer.newer.unwrap_or_default(),
            origin: 0,
        },
    }
}

/// The sink of a note that other nodes missed the upsert.
pub(super) struct NoteSink {
    pub(super) call: Shared,
    pub(super) share: usize,
    pub(super) node: NodeIndex,
}

impl NodeSink for NoteSink {
    fn ended(self: Box<Self>, outbound: &Outbound, now: Instant, answer: Result<NodeAnswer<'_>, NodeError>) {
        let mut call = locked(&self.call);
        let route = Arc::clone(&call.begun.route);
        let answer = read(route.name(self.node), answer);
        let is_up = answer.as_ref().err().is_none_or(|error| error.is_answer);
        report(&route, self.node, is_up, now);
        // Counted from here: the turn may have begun before the node said so.
        let heard = Instant::now();
        let wait = answer.map(|answer| heard + Duration::from_millis(answer.wait_ms.unwrap_or_default()));
        call.noted(self.share, wait);
        call.settle(&self.call, outbound, now);
    }
}
