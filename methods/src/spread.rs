//! `features.lookup` of tables whose keys are on several servers: this one splits the keys, asks the nodes that have them, and
//! puts their rows together.
//!
//! Its invariants: a call sees one bucket map, and of each table one version; a call that says by which map its keys were split
//! is answered from this server's own tables, and sent nowhere.

mod ask;
mod beside;
mod part;
mod route;
mod under_way;
mod upsert;
mod whole;

pub use route::Kept;
pub(crate) use upsert::upsert;

use crate::features_lookup::{TableAnswer, keys_of};
use crate::{Served, find};
use ask::Ask;
use beside::Beside;
use millpond_calls::{Nodes, Outbound};
use millpond_catalog::Catalog;
use millpond_wire_payload::Reserved;
use millpond_wire_schema::{Code, Status, features_lookup as schema};
use part::SpreadLookup;
use route::Route;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use under_way::{CallContext, UnderWay};
use whole::Whole;

/// Whether other nodes are asked for any of the call's keys.
///
/// # Errors
/// Its keys were split by a map that this server does not know, or whose fresh rows are not all here.
pub(crate) fn concerns(catalog: &Catalog, nodes: &Nodes, call: &schema::Call<'_>) -> Result<bool, Status> {
    let lookups = match call {
        schema::Call::One(lookup) => std::slice::from_ref(lookup),
        schema::Call::Many(many) => many.lookups.as_slice(),
    };
    for lookup in lookups {
        let Some(version) = lookup.map else { continue };
        if !nodes.knows(version) {
            return Err(unknown_map(nodes, version));
        }
        check_fresh(catalog, nodes, &lookup.table, version)?;
    }
    Ok(lookups.iter().any(|lookup| is_spread(nodes, lookup)))
}

fn is_spread(nodes: &Nodes, lookup: &schema::Lookup<'_>) -> bool {
    lookup.map.is_none() && nodes.spreads(&lookup.table)
}

/// Refuses a lookup by that map of a table whose fresh rows may not all be here.
fn check_fresh(catalog: &Catalog, nodes: &Nodes, table: &str, map: u64) -> Result<(), Status> {
    let has_overlay = || {
        let table = catalog.tables.get(table);
        table.is_some_and(|table| table.overlay().is_some())
    };
    match nodes.spreads(table) && has_overlay() {
        // The turn's clock may be of before this process stood still, and the call of after that.
        true => nodes.fresh.check(map, Instant::now()),
        false => Ok(()),
    }
}

fn unknown_map(nodes: &Nodes, version: u64) -> Status {
    let name = nodes.options.name.as_deref().unwrap_or("without a name");
    let has = nodes.map().map_or("no map yet".to_owned(), |map| {
        format!("version {}", map.version())
    });
    let ex = format!("node {name:?} does not know version {version} of the bucket map; it has {has}");
    Status::new(Code::NodeUnavailable, ex)
}

/// How a call goes to other servers.
struct Way<'a> {
    outbound: &'a Outbound,
    kept: &'a Arc<Mutex<Kept>>,
    route: Arc<Route>,
}

impl<'a> Way<'a> {
    fn of(call: &Served<'a>, nodes: &Nodes) -> Result<Way<'a>, Status> {
        let Some((outbound, kept)) = call.outbound() else {
            return Err(Status::new(
                Code::Internal,
                "a call of this process's own cannot be sent on",
            ));
        };
        let route = kept.lock().unwrap_or_else(PoisonError::into_inner).route(nodes)?;
        Ok(Way {
            outbound,
            kept,
            route,
        })
    }
}

/// Begins a call; its answer comes when the nodes have answered.
pub(crate) fn serve(
    catalog: &Catalog,
    call: &mut Served<'_>,
    nodes: &Nodes,
    (decoded, reserved): (schema::Call<'_>, &Reserved<'_>),
    deadline: Instant,
) -> Result<(), Status> {
    let Way { outbound, route, .. } = Way::of(call, nodes)?;
    let (is_many, lookups) = match decoded {
        schema::Call::One(lookup) => (false, vec![lookup]),
        schema::Call::Many(many) => (true, many.lookups),
    };
    let now = call.asked.clock.last();
    let bytes_max = call.calls.answer_bytes_max;
    let (mut parts, mut bytes) = (Vec::with_capacity(lookups.len()), 0);
    for lookup in lookups {
        parts.push(if is_spread(nodes, &lookup) {
            let pin = route.routing().pins.pin(&lookup.table);
            SpreadLookup::Nodes(Box::new(spread(catalog, lookup, pin, bytes_max)?))
        } else {
            SpreadLookup::Done(Whole::here(TableAnswer::begin(
                catalog, lookup, bytes_max, &mut bytes,
            )?)?)
        });
    }
    let permit = call.calls.admission.enter_holding(call.asked.payload.len())?;
    let begun = CallContext {
        route,
        is_many,
        base64: reserved.base64,
        beside: Beside::of(call, reserved, deadline),
        bytes_max,
    };
    let detached = call.detach(Some(permit), reserved.trace)?;
    UnderWay::begin(begun, parts, detached, outbound, now);
    Ok(())
}

/// What the nodes are to be asked for one lookup; `pin` is the version that they are taken to answer from.
fn spread(
    catalog: &Catalog,
    lookup: schema::Lookup<'_>,
    pin: Option<u64>,
    bytes_max: usize,
) -> Result<part::Nodes, Status> {
    // Texts are hashed as the version does that answers, where it is here.
    let expected = lookup.at_version.or(pin);
    let answering = expected.and_then(|version| catalog.version(&lookup.table, version));
    let table = answering.or_else(|| catalog.tables.get(lookup.table.as_ref()));
    let texts_of = table.filter(|_| lookup.texts.is_some()).cloned();
    let keys = match (table, &lookup.texts) {
        (Some(table), _) => keys_of(table, lookup.keys, lookup.texts)?,
        (None, None) => lookup.keys.unwrap_or_default(),
        (None, Some(_)) => {
            let ex = format!(
                "table {:?} is on other servers alone, so this one cannot hash texts for it; send `keys`, or ask a server that has \
                 some of the table",
                lookup.table
            );
            return Err(Status::new(Code::BadArgument, ex));
        }
    };
    let pooled = schema::Pooled::of(lookup.pool, lookup.offsets, lookup.row_type);
    let ask = Ask {
        table: lookup.table.into_owned(),
        columns: lookup
            .columns
            .into_iter()
            .map(std::borrow::Cow::into_owned)
            .collect(),
        row_type: match pooled {
            Some(_) => schema::Pooled::ASKED,
            None => lookup.row_type,
        },
        at_version: lookup.at_version,
    };
    let mut nodes = part::Nodes::new(ask, pooled, keys, lookup.unique, bytes_max);
    nodes.texts_of = texts_of;
    Ok(nodes)
}

/// What a lookup of this server's own share finds; its table may be none of this server's.
pub(crate) fn share(
    catalog: &Catalog,
    nodes: Option<&Nodes>,
    lookup: schema::Lookup<'_>,
    bytes_max: usize,
) -> Result<Whole, Status> {
    if let (Some(nodes), Some(map)) = (nodes, lookup.map) {
        check_fresh(catalog, nodes, &lookup.table, map)?;
    }
    find("feature table", &catalog.tables, &lookup.table)?;
    Whole::here(TableAnswer::begin(catalog, lookup, bytes_max, &mut 0)?)
}
