//! `features.missed`: another node asks whether it missed upserts that this one has taken.
//! Its invariant: a node that missed something gets no lease, and one that got a lease is told before it gets the next.

use crate::features_upsert::overlay;
use crate::{Served, at_once};
use millpond_calls::{Heard, Nodes, NodesOptions, Served as Call};
use millpond_catalog::Catalog;
use millpond_wire_payload::{Encoder, Payload, Reserved};
use millpond_wire_schema::{Code, Field as _, Status, features_missed as schema};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded, _| {
        let nodes = nodes_with(call, &decoded.node, payload)?;
        let fresh = &nodes.fresh;
        let has_seen = decoded.run == Some(fresh.run());
        // What is noted from here on may be of upserts that are not much older.
        let at_ms = unix_ms(SystemTime::now());
        // Nobody has seen what is not there yet.
        let is_there = |seen: &&schema::Seen<'_>| {
            overlay(catalog, &seen.table).is_ok_and(|(_, own)| seen.sequence <= own.sequence())
        };
        let seen = || decoded.seen.iter().filter(|_| has_seen).filter(is_there);
        let lease = Duration::from_millis(decoded.lease_ms).min(NodesOptions::READ_LEASE_MAX);
        let now = call.asked.clock.read();
        let missed = fresh.ask(
            &decoded.node,
            seen().map(|seen| (&*seen.table, seen.sequence)),
            (lease, now),
        );
        if missed.is_empty() {
            let heard = |seen: &schema::Seen<'_>| Heard {
                at_ms,
                whole_ms: seen.whole_ms.unwrap_or_default(),
                newest_ms: seen.newest_ms.unwrap_or_default(),
            };
            fresh.hear(&decoded.node, seen().map(|seen| (&*seen.table, heard(seen))));
        }
        let missed = missed.into_iter().map(|missed| schema::Missed {
            table: missed.table.into(),
            from: missed.from,
            to: missed.to,
        });
        let answer = schema::Answer {
            run: fresh.run(),
            missed: missed.collect(),
            catching_up: fresh.leaves_lookups(now),
        };
        Ok(move |out: &mut Encoder<'_>| schema::Answer::write(&answer, out))
    })
}

/// In milliseconds of Unix time.
fn unix_ms(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The other servers, among which is the node that calls.
///
/// # Errors
/// They are not as the caller takes them to be, or it is none of them: it has not their token.
pub(crate) fn nodes_with<'c>(
    call: &Call<'c, crate::Engines>,
    node: &str,
    payload: &Payload<'_>,
) -> Result<&'c Arc<Nodes>, Status> {
    let Some(nodes) = call.calls.nodes() else {
        let ex = "this server shares no tables with others; it has no section [nodes]";
        return Err(Status::new(Code::BadArgument, ex));
    };
    let token = Reserved::of(payload)?.token.map(|token| token.0);
    check_token(nodes, token.or(call.asked.meta.token), "_token")?;
    if nodes.map().is_some_and(|map| map.find(node).is_some()) {
        return Ok(nodes);
    }
    let shown: String = node.chars().take(64).collect();
    let ex = format!("the map of nodes that this server goes by has no node {shown:?}; try again");
    Err(Status::new(Code::NodeUnavailable, ex))
}

/// Whether a call comes from one of the servers, as far as their token says it; `key` is where it is to be.
///
/// # Errors
/// [`Code::Unauthenticated`]: this server has a token, and that is not it.
pub(crate) fn check_token(nodes: &Nodes, given: Option<&str>, key: &str) -> Result<(), Status> {
    let token = &nodes.options.token;
    if token.is_empty() || given.is_some_and(|given| token.is(given)) {
        return Ok(());
    }
    let name = nodes.options.name.as_deref().unwrap_or("without a name");
    let problem = match given {
        None => "is missing",
        Some(_) => "is wrong",
    };
    let ex = format!(
        "key \"{key}\" {problem}: node {name:?} takes calls between servers with the token of its section [nodes] alone; set the same \
         nodes.token on all servers that share its tables"
    );
    Err(Status::new(Code::Unauthenticated, ex))
}
