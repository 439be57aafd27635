//! `ordered.inspect`, answered on the net thread.
//! Its invariants: no value is read; a client can read the answer.

use crate::{Served, at_once, lag, led_store, store, takes_copy};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Inspected, Role, Store};
use millpond_wire_payload::{Encoder, Payload, VALUES_MAX};
use millpond_wire_schema::{Code, Field as _, Status, ordered_inspect as schema};

/// What the answer of a key has at most: bytes, and values with their names.
const KEY_BYTES: usize = 80;
const KEY_VALUES: usize = 11;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded, reserved| {
        let table = decoded.table.as_deref();
        // Of the store as a whole the epoch is a part of the answer.
        let store = match decoded.keys {
            Some(_) => led_store(catalog, table, reserved)?,
            None => store(catalog, table)?,
        };
        let limit = (call.calls.answer_bytes_max / KEY_BYTES).min(VALUES_MAX / KEY_VALUES);
        if let Some(keys) = decoded.keys.as_ref().filter(|keys| keys.len() > limit) {
            let ex = format!(
                "{} keys, and the limit is {limit}; ask for fewer keys a call",
                keys.len()
            );
            return Err(Status::new(Code::TooLarge, ex));
        }
        let answer = match decoded.keys {
            Some(keys) => {
                let (lag_records, lag_ms) = lag(store);
                let found = store.read_whole(|store| store.inspect(&keys));
                let found = found.map_err(takes_copy)?;
                schema::Answer {
                    keys: Some(found.into_iter().map(inspected).collect()),
                    store: None,
                    lag_records,
                    lag_ms,
                }
            }
            None => schema::Answer {
                store: Some(held(store)),
                ..schema::Answer::default()
            },
        };
        Ok(move |out: &mut Encoder<'_>| schema::Answer::write(&answer, out))
    })
}

/// As an answer has it.
pub(crate) fn inspected(inspected: Inspected) -> schema::Inspected<'static> {
    schema::Inspected {
        kind: inspected.kind.map_or("none", |kind| kind.as_str()).into(),
        version: inspected.version,
        ttl_ms: inspected.ttl_ms,
        bytes: inspected.bytes as u64,
        count: inspected.count.map(|count| count as u64),
    }
}

fn held(store: &Store) -> schema::Held<'static> {
    schema::Held {
        entries: store.len() as u64,
        entry_bytes: store.entry_bytes(),
        memory_bytes: store.tree_bytes(),
        memory_bytes_max: store.memory_bytes_max(),
        eviction: store.eviction().as_str().into(),
        evicted: store.evicted(),
        expiring: store.expiring(),
        durability: store.durability().as_str().into(),
        read_only: store.read_only().is_some(),
        replication: (store.epoch() > 0).then(|| replication(store)),
    }
}

fn replication(store: &Store) -> schema::Replication<'static> {
    let (role, lag, copy) = (store.role(), store.lag(), store.copy_progress());
    let followers = store.followers().into_iter();
    schema::Replication {
        role: role.as_str().into(),
        epoch: store.epoch(),
        record: store.last_sequence(),
        leader: match &role {
            Role::Follows { leader } => Some(leader.to_string().into()),
            Role::Leads | Role::Fenced { .. } | Role::Unpromoted => None,
        },
        connected: lag.map(|lag| lag.is_connected),
        lag_records: lag.map(|lag| lag.records),
        lag_ms: lag.and_then(|lag| lag.ms),
        acknowledging: store.is_acknowledging(),
        copied_bytes: copy.map(|copy| copy.bytes),
        copied_of_bytes: copy.map(|copy| copy.of_bytes),
        installing: copy.map(|copy| copy.is_installing),
        followers: followers
            .map(|follower| schema::Follower {
                name: follower.name.into(),
                record: follower.sequence,
                age_ms: follower.age.as_millis() as u64,
            })
            .collect(),
    }
}
