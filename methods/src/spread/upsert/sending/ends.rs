//! What hears of an upsert's copies: a sink on its net thread, and this server's own log on that log's thread.
//! Its invariant: a node's end is reported to the routing that its call went by, once, however late it comes.

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

/// What a node was sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sent {
    /// Its copy, of that attempt.
    Copy(u32),
    /// That other nodes missed the upsert.
    Note,
}

/// The sink of what a node was sent.
pub(super) struct NodeEnd {
    pub(super) call: Shared,
    pub(super) sent: Sent,
    pub(super) share: usize,
    /// The upsert may go by another one meanwhile.
    pub(super) route: Arc<Route>,
    pub(super) node: NodeIndex,
}

impl NodeSink for NodeEnd {
    fn ended(self: Box<Self>, outbound: &Outbound, now: Instant, answer: Result<NodeAnswer<'_>, NodeError>) {
        let mut call = locked(&self.call);
        let answer = read(self.route.name(self.node), answer);
        let is_up = answer.as_ref().err().is_none_or(|error| error.is_answer);
        match is_up {
            true => self.route.routing().replicas.answered(self.node),
            false => self.route.routing().replicas.failed(self.node, now),
        }
        match self.sent {
            Sent::Copy(attempt) if attempt == call.attempt => call.ended(self.share, answer.map(upserted)),
            // One of an attempt before may have been written: this attempt's rows are newer than its.
            Sent::Copy(_) => return,
            Sent::Note => {
                // Counted from here: the turn may have begun before the node said so.
                let heard = Instant::now();
                let wait = |answer: schema::Answer<'_>| {
                    heard + Duration::from_millis(answer.wait_ms.unwrap_or_default())
                };
                call.noted(self.share, answer.map(wait));
            }
        }
        call.settle(&self.call, outbound, now);
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

fn upserted(answer: schema::Answer<'static>) -> Upserted {
    // A word that is not known promises nothing.
    let durability = Durability::of(&answer.durability).unwrap_or(Durability::Memory);
    Upserted {
        sequence: answer.sequence,
        durability,
        newer: Stamp {
            time: answer.newer.unwrap_or_default(),
            origin: 0,
        },
    }
}
