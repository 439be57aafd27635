//! One file a method: payload in, engines asked, answer out.
//! Handlers run on net threads and never block; what takes longer is detached. Their invariant: each call is counted
//! once, as answered or as failed.

mod candidates;
pub(crate) mod duplex;
pub(crate) mod features_lookup;
pub(crate) mod infer;
pub(crate) mod infos;
mod model_run;
pub(crate) mod ordered_get;
pub(crate) mod ordered_put;
pub(crate) mod ordered_scan;
pub(crate) mod own;
pub(crate) mod ping;
pub(crate) mod rank;
pub(crate) mod status;
pub(crate) mod tune;

use crate::router::Call;
use millpond_calls::Reply;
use millpond_catalog::Catalog;
use millpond_engines_ordered::Store;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status};
use std::borrow::Cow;
use std::collections::BTreeMap;

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

/// Answers what the server says of itself to calls without keys.
fn tell(call: &Call<'_>, payload: &Payload<'_>, reply: Reply<'_>, write: impl FnOnce(&mut Encoder<'_>)) {
    match <()>::decode(payload) {
        Ok(_) => call.answer(reply, None, write),
        Err(error) => call.refuse(reply, &error.into()),
    }
}

/// The ordered store that a call means.
fn store<'e>(engines: &'e Catalog, table: Option<&Cow<'_, str>>) -> Result<&'e Store, Status> {
    let name = match table {
        Some(name) => name.as_ref(),
        None => engines
            .sections()
            .store_default()
            .ok_or_else(|| no_default("store", "table", "default_store"))?,
    };
    find("ordered store", &engines.stores, name)
}
