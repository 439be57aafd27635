//! A file a method: payload in, an engine or a pipeline asked, answer out; and the one table of all methods.
//!
//! Methods run on net threads and never block; what takes longer is detached. They never see a socket. Their invariant: what a
//! method returns as an error is answered, counted and logged by `millpond-calls`.

mod candidates;
mod configured;
mod features_activate;
mod features_delete;
mod features_fresh;
mod features_inspect;
mod features_lookup;
mod features_missed;
mod features_rollback;
mod features_scan;
mod features_upsert;
mod features_versions;
mod forward;
mod forward_infos;
mod infer;
mod infos;
mod model_run;
mod ordered_append;
mod ordered_batch;
mod ordered_checkpoint;
mod ordered_clear;
mod ordered_concatenate;
mod ordered_copy;
mod ordered_expire;
mod ordered_follow;
mod ordered_get;
mod ordered_increment;
mod ordered_inspect;
mod ordered_items;
mod ordered_promote;
mod ordered_put;
mod ordered_remove;
mod ordered_remove_prefix;
mod ordered_scan;
mod ordered_trim;
mod ordered_write;
mod own_thread;
mod ping;
mod rank;
mod run;
mod spread;
mod status;
mod tune;
mod turn_end;

pub use configured::{Kind, Section, check};
pub use features_lookup::KNOWN_BYTES_MAX;
pub use run::{answered, asked};
pub use spread::Kept;

use millpond_calls::Callers::{Admin, Any, Private, Token};
use millpond_calls::Cost::{Batched, Detached, Short, Unbounded};
use millpond_calls::Serve::{Always, Draining, Ready, UntilStop};
use millpond_calls::{Backing, MethodSpec, Methods};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Role, Store, TakesCopy};
use millpond_wire_payload::{Encoder, Payload, Reserved};
use millpond_wire_schema::{
    Code, FeaturesActivate, FeaturesDelete, FeaturesFresh, FeaturesInspect, FeaturesLookup, FeaturesMissed,
    FeaturesRollback, FeaturesScan, FeaturesUpsert, FeaturesVersions, Field, Infer, Infos, METHODS,
    Method as _, OrderedAppend, OrderedBatch, OrderedCheckpoint, OrderedClear, OrderedConcatenate,
    OrderedCopy, OrderedExpire, OrderedFollow, OrderedGet, OrderedIncrement, OrderedInspect, OrderedItems,
    OrderedPromote, OrderedPut, OrderedRemove, OrderedRemovePrefix, OrderedScan, OrderedTrim, Ping, Rank,
    Run, ServerStatus, Status, Tune,
};
use std::collections::BTreeMap;
use turn_end::TurnEnd;

/// Methods are served from the catalog; calls to fast models, and the log threads of writes, wait in a [`TurnEnd`].
pub struct Engines;

impl Backing for Engines {
    type State = Catalog;
    type Batch = TurnEnd;
    type Kept = spread::Kept;

    fn waits(batch: &TurnEnd) -> bool {
        !batch.is_empty()
    }

    fn serve(batch: &mut TurnEnd) {
        batch.run();
    }
}

/// How the names of the methods of ordered stores begin.
const STORES: &str = "ordered.";

/// Every method that a server has whatever its configuration, in the order of the documentation.
const SPECS: [MethodSpec<Engines>; METHODS.len()] = [
    MethodSpec::of::<Ping>(Any, Short, Always(ping::serve)),
    MethodSpec::of::<ServerStatus>(Private, Short, Always(status::serve)),
    MethodSpec::of::<Infos>(Private, Short, UntilStop(infos::serve)),
    MethodSpec::of::<Tune>(Admin, Detached, UntilStop(tune::serve)),
    MethodSpec::of::<FeaturesLookup>(Any, Short, Ready(features_lookup::serve))
        .with_ahead(features_lookup::ahead),
    MethodSpec::of::<FeaturesScan>(Any, Unbounded, Ready(features_scan::serve)),
    MethodSpec::of::<FeaturesUpsert>(Any, Detached, Ready(features_upsert::serve)),
    MethodSpec::of::<FeaturesMissed>(Any, Short, Ready(features_missed::serve)),
    MethodSpec::of::<FeaturesFresh>(Any, Unbounded, Ready(features_fresh::serve)),
    MethodSpec::of::<FeaturesInspect>(Any, Short, Ready(features_inspect::serve)),
    MethodSpec::of::<FeaturesVersions>(Any, Detached, Ready(features_versions::serve)),
    MethodSpec::of::<FeaturesActivate>(Token, Detached, Ready(features_activate::serve)),
    MethodSpec::of::<FeaturesRollback>(Token, Detached, Ready(features_rollback::serve)),
    MethodSpec::of::<FeaturesDelete>(Token, Detached, Ready(features_delete::serve)),
    MethodSpec::of::<OrderedGet>(Any, Short, Ready(ordered_get::serve)),
    MethodSpec::of::<OrderedPut>(Any, Detached, Ready(ordered_put::serve)),
    MethodSpec::of::<OrderedRemove>(Any, Detached, Ready(ordered_remove::serve)),
    MethodSpec::of::<OrderedRemovePrefix>(Any, Detached, Ready(ordered_remove_prefix::serve)),
    MethodSpec::of::<OrderedClear>(Token, Detached, Ready(ordered_clear::serve)),
    MethodSpec::of::<OrderedCheckpoint>(Token, Detached, Ready(ordered_checkpoint::serve)),
    MethodSpec::of::<OrderedIncrement>(Any, Detached, Ready(ordered_increment::serve)),
    MethodSpec::of::<OrderedExpire>(Any, Detached, Ready(ordered_expire::serve)),
    MethodSpec::of::<OrderedConcatenate>(Any, Detached, Ready(ordered_concatenate::serve)),
    MethodSpec::of::<OrderedAppend>(Any, Detached, Ready(ordered_append::serve)),
    MethodSpec::of::<OrderedItems>(Any, Unbounded, Ready(ordered_items::serve)),
    MethodSpec::of::<OrderedTrim>(Any, Detached, Ready(ordered_trim::serve)),
    MethodSpec::of::<OrderedBatch>(Any, Detached, Ready(ordered_batch::serve)),
    MethodSpec::of::<OrderedScan>(Any, Unbounded, Ready(ordered_scan::serve)),
    MethodSpec::of::<OrderedInspect>(Any, Short, Ready(ordered_inspect::serve)),
    MethodSpec::of::<OrderedFollow>(Token, Detached, Draining(ordered_follow::serve)),
    MethodSpec::of::<OrderedCopy>(Token, Detached, Ready(ordered_copy::serve)),
    MethodSpec::of::<OrderedPromote>(Token, Detached, Ready(ordered_promote::serve)),
    MethodSpec::of::<Infer>(Any, Batched, Ready(infer::serve)),
    MethodSpec::of::<Rank>(Any, Batched, Ready(rank::serve)),
    MethodSpec::of::<Run>(Any, Batched, Ready(run::serve)),
];

/// All methods of a server: these, and those of its configuration.
pub fn table(configured: &BTreeMap<String, Section>) -> Methods<Engines> {
    with_configured(Vec::from(SPECS), configured)
}

/// The same of a process whose ordered stores another process of this server has: their methods' calls are sent on to it.
pub fn table_without_stores(configured: &BTreeMap<String, Section>) -> Methods<Engines> {
    let sent_on = |spec: MethodSpec<Engines>| {
        // The other process answers, whatever it costs there.
        let serve = match &*spec.name {
            Infos::NAME => UntilStop(forward_infos::serve),
            OrderedFollow::NAME => Draining(forward::serve),
            name if name.starts_with(STORES) => Ready(forward::serve),
            _ => return spec,
        };
        MethodSpec {
            cost: Detached,
            serve,
            ..spec
        }
    };
    with_configured(SPECS.into_iter().map(sent_on).collect(), configured)
}

fn with_configured(
    mut entries: Vec<MethodSpec<Engines>>,
    configured: &BTreeMap<String, Section>,
) -> Methods<Engines> {
    entries.extend(configured.iter().map(|(name, section)| section.method(name)));
    Methods::new(entries)
}

/// The names of those methods.
pub fn names(configured: &BTreeMap<String, Section>) -> Vec<&str> {
    let built_in = METHODS.iter().map(|method| method.name);
    built_in.chain(configured.keys().map(String::as_str)).collect()
}

/// A call that its method serves.
type Served<'a> = millpond_calls::Served<'a, Engines>;

/// Answers a call at once with what `serve` writes.
fn at_once<'p, F: Field, W: FnOnce(&mut Encoder<'_>)>(
    call: &mut Served<'_>,
    payload: &'p Payload<'_>,
    serve: impl FnOnce(&Served<'_>, F::Of<'p>, &Reserved<'_>) -> Result<W, Status>,
) -> Result<(), Status> {
    let (decoded, reserved) = F::decode(payload)?;
    call.deadline(reserved.deadline_ms)?;
    let write = serve(call, decoded, &reserved)?;
    call.set_base64(reserved.base64);
    call.answer(reserved.trace, write);
    Ok(())
}

/// Answers what the server says of itself to calls without keys, whatever their deadlines.
fn tell<F: Field>(call: &mut Served<'_>, payload: &Payload<'_>, answer: &F::Of<'_>) -> Result<(), Status> {
    <()>::decode(payload)?;
    call.answer(None, |out| F::write(answer, out));
    Ok(())
}

/// The thing of that name, or an error that says which there are.
fn find<'e, T>(what: &str, named: &'e BTreeMap<String, T>, name: &str) -> Result<&'e T, Status> {
    named.get(name).ok_or_else(|| {
        let there: Vec<&str> = named.keys().map(String::as_str).collect();
        Status::new(
            Code::NotFound,
            format!("no {what} {name:?} is served; there are {there:?}"),
        )
    })
}

/// The error for a call that names nothing where there is no default.
fn no_default(what: &str, key: &str, config_key: &str) -> Status {
    Status::new(
        Code::KeyNotFound,
        format!("key \"{key}\" is missing, and there is no default {what}; name one, or set {config_key}"),
    )
}

/// Refuses a read of a store that takes in a copy of its leader's, or took it in meanwhile.
fn takes_copy(error: TakesCopy) -> Status {
    Status::new(Code::NotReady, error.to_string())
}

/// The ordered store that a call means.
fn store<'e>(catalog: &'e Catalog, table: Option<&str>) -> Result<&'e Store, Status> {
    let name = match table {
        Some(name) => name,
        None => catalog
            .sections()
            .store_default()
            .ok_or_else(|| no_default("store", "table", "default_store"))?,
    };
    find("ordered store", &catalog.stores, name)
}

/// The same of a call whose caller may know who leads: a store in a lower epoch was replaced, or has not heard of its leader's promotion yet.
fn led_store<'e>(
    catalog: &'e Catalog,
    table: Option<&str>,
    reserved: &Reserved<'_>,
) -> Result<&'e Store, Status> {
    let store = store(catalog, table)?;
    let Some(known) = reserved.epoch.filter(|known| store.epoch() < *known) else {
        return Ok(store);
    };
    let leader = match store.role() {
        Role::Follows { leader } => Some(leader.to_string()),
        _ => None,
    };
    let ex = format!(
        "the store is in epoch {} here, and the caller knows epoch {known}: another server leads it; call that one (_epoch)",
        store.epoch()
    );
    Err(Status::new(Code::NotLeader, ex).led_by(leader))
}

/// How far a follower is behind its leader before it reads: records, and milliseconds, as answers say it.
fn lag(store: &Store) -> (Option<u64>, Option<u64>) {
    let lag = store.lag();
    (lag.map(|lag| lag.records), lag.and_then(|lag| lag.ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_methods_of_the_schema_and_of_the_configuration() {
        let configured: BTreeMap<String, Section> =
            toml::from_str("b = { answer = { a = 1 } }\na = { kind = \"echo\" }").unwrap_or_default();
        let methods = table(&configured);
        let found: Vec<&str> = methods.all().map(|(_, name)| name).collect();
        assert_eq!(found, names(&configured));
        assert_eq!(found.len(), METHODS.len() + 2);
    }
}
