//! `features.upsert` of a table whose keys are on several servers: every replica of a key is sent the rows that it holds.
//!
//! It splits the call and writes the copies; `sending` sends them. Its invariants: all copies of an upsert have one stamp, so that
//! replicas end with the same rows in whatever order upserts reach them; and what was sent on is sent on no further.

mod begun;
mod sending;
mod shares;

use super::route::Route;
use crate::Served;
use crate::features_lookup::keys_of;
use crate::features_upsert::waiting_bytes;
use begun::Begun;
use millpond_calls::Nodes;
use millpond_catalog::Catalog;
use millpond_engines_features::Stamp;
use millpond_wire_payload::{Encoder, Encoding, Reserved};
use millpond_wire_schema::{Code, Field as _, Status, features_upsert as schema};
use sending::Sending;
use shares::Share;
use std::borrow::Cow;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Begins an upsert; its answer comes when the nodes have answered.
pub(crate) fn upsert(
    catalog: &Catalog,
    call: &mut Served<'_>,
    nodes: &Arc<Nodes>,
    (decoded, reserved): (schema::Call<'_>, &Reserved<'_>),
    deadline: Instant,
) -> Result<(), Status> {
    let Some((outbound, kept)) = call.outbound() else {
        return Err(Status::new(
            Code::Internal,
            "a call of this process's own cannot be sent on",
        ));
    };
    let route = {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.route(nodes)?
    };
    let content = Content::new(catalog, decoded)?;
    let waiting = waiting_bytes(&content.values, &content.keys, &content.remove);
    let permit = call.calls.admission.enter_holding(waiting)?;
    let token = reserved.token.map(|token| token.0).or(call.asked.meta.token);
    let begun = Begun {
        shares: shares::split(&route, &content),
        content,
        route,
        nodes: Arc::clone(nodes),
        token: token.map(str::to_owned),
        trace: reserved.trace.or(call.asked.meta.trace).map(str::to_owned),
        deadline,
    };
    let detached = call.detach(Some(permit), reserved.trace)?;
    Sending::begin(begun, detached, outbound, call.asked.clock.read());
    Ok(())
}

/// What is upserted.
struct Content {
    table: String,
    keys: Vec<u64>,
    /// A row of `dim` numbers for each of the keys.
    values: Vec<f32>,
    dim: usize,
    remove: Vec<u64>,
}

impl Content {
    fn new(catalog: &Catalog, call: schema::Call<'_>) -> Result<Content, Status> {
        let wrong = |ex: String| Err(Status::new(Code::BadArgument, ex));
        if !call.columns.is_empty() {
            return wrong(format!(
                "key \"columns\": table {:?} is on several servers, each of which would complete rows from its own; send all columns, \
                 in the table's order, and leave the key out",
                call.table
            ));
        }
        if call.rows.is_some() {
            return wrong(format!(
                "key \"rows\": table {:?} is on several servers, and upserts over nodes take numbers alone; build a version with the rows",
                call.table
            ));
        }
        let table = catalog.tables.get(call.table.as_ref());
        let hashed = |keys: Option<Vec<u64>>, texts: Option<Vec<Cow<'_, [u8]>>>| match (table, &texts) {
            (Some(table), _) => keys_of(table, keys, texts),
            (None, None) => Ok(keys.unwrap_or_default()),
            (None, Some(_)) => {
                let ex = format!(
                    "table {:?} is on other servers alone, so this one cannot hash texts for it; send `keys`, or call a server that has \
                     some of the table",
                    call.table
                );
                Err(Status::new(Code::BadArgument, ex))
            }
        };
        let keys = hashed(call.keys, call.texts)?;
        let remove = hashed(call.remove, call.remove_texts)?;
        if keys.is_empty() && remove.is_empty() {
            return wrong("key \"keys\": expected at least one key, or one to remove, found none".to_owned());
        }
        if u32::try_from(keys.len().max(remove.len())).is_err() {
            return Err(Status::new(Code::TooLarge, "too many keys in a call; split it"));
        }
        let dim = call.values.len().checked_div(keys.len()).unwrap_or_default();
        if call.values.len() != dim * keys.len() {
            let ex = format!(
                "key \"values\": expected a whole row for each of {} keys, found {} numbers",
                keys.len(),
                call.values.len()
            );
            return wrong(ex);
        }
        Ok(Content {
            table: call.table.into_owned(),
            keys,
            values: call.values,
            dim,
            remove,
        })
    }

    /// What a node is sent of it.
    fn of(&self, share: &Share) -> (Vec<u64>, Vec<f32>, Vec<u64>) {
        let key = |keys: &[u64], at: &u32| keys.get(*at as usize).copied().unwrap_or_default();
        let row = |at: &u32| {
            let from = *at as usize * self.dim;
            self.values.get(from..from + self.dim).unwrap_or_default()
        };
        (
            share.keys.iter().map(|at| key(&self.keys, at)).collect(),
            share.keys.iter().flat_map(row).copied().collect(),
            share.remove.iter().map(|at| key(&self.remove, at)).collect(),
        )
    }
}

/// What goes with each call to a node.
struct Beside<'a> {
    deadline_ms: u64,
    /// The caller's: what it opens here it is to open there.
    token: Option<&'a str>,
    trace: Option<&'a str>,
}

impl Beside<'_> {
    fn payload(&self, table: &str, write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let mut payload = Vec::new();
        Encoder::new(&mut payload, Encoding::Msgpack, false).map(|out| {
            out.key("table");
            out.text(table);
            write(out);
            out.key("_deadline_ms");
            out.uint(self.deadline_ms);
            for (key, text) in [("_token", self.token), ("_trace", self.trace)] {
                if let Some(text) = text {
                    out.key(key);
                    out.text(text);
                }
            }
        });
        payload
    }
}

/// The payload of a copy.
fn copy(content: &Content, share: &Share, (route, stamp): (&Route, Stamp), beside: &Beside<'_>) -> Vec<u8> {
    let (keys, values, remove) = content.of(share);
    let copy = schema::Copy {
        map: route.map.version(),
        time: stamp.time,
        origin: stamp.origin,
    };
    beside.payload(&content.table, |out| {
        out.key("keys");
        out.block(&keys);
        out.key("values");
        out.block(&values);
        out.key("remove");
        out.block(&remove);
        out.key("copy");
        schema::Copy::write(&copy, out);
    })
}

/// The payload that tells a node who has not taken what it has.
fn missed(table: &str, missed: &schema::Missed<'_>, beside: &Beside<'_>) -> Vec<u8> {
    beside.payload(table, |out| {
        out.key("missed");
        schema::Missed::write(missed, out);
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_wire_payload::Payload;

    fn content() -> Content {
        Content {
            table: "films".into(),
            keys: vec![1, 2, 3],
            values: vec![0.5, 1.0, 1.5, 2.0, 2.5, 3.0],
            dim: 2,
            remove: vec![7, 8],
        }
    }

    #[test]
    fn what_is_sent_is_what_a_node_reads() {
        let share = Share {
            keys: vec![0, 2],
            remove: vec![1],
            ..Share::of(
                millpond_nodes::BucketMap::from_toml(ONE)
                    .unwrap()
                    .find("a")
                    .unwrap(),
            )
        };
        let beside = Beside {
            deadline_ms: 7,
            token: Some("secret"),
            trace: None,
        };
        let (keys, values, remove) = content().of(&share);
        assert_eq!(
            (keys, values, remove),
            (vec![1, 3], vec![0.5, 1.0, 2.5, 3.0], vec![8])
        );
        let note = schema::Missed {
            nodes: vec!["b".into()],
            sequence: 9,
            lease_ms: 5,
        };
        let bytes = missed("films", &note, &beside);
        let payload = Payload::new(Encoding::Msgpack, &bytes).unwrap();
        let (call, reserved) = schema::Call::decode(&payload).unwrap();
        assert_eq!((call.missed, call.keys), (Some(note), None));
        assert_eq!(
            (reserved.deadline_ms, reserved.token.unwrap().0),
            (Some(7), "secret")
        );
    }

    const ONE: &str = "version = 1\nbuckets = 4\nnodes = [{ name = \"a\", addresses = [\"a:1\"] }]";
}
