//! `ordered.get`, answered on the net thread.
//! Its invariants: all values are of one moment; the answer stays within the frame limit, or the call is refused.

use crate::ordered_write::wrong_kind;
use crate::{Served, at_once, lag, led_store, takes_copy};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Kind, Versioned, WrongKind};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, ordered_get as schema};
use std::borrow::Cow;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded, reserved| {
        let store = led_store(catalog, decoded.table.as_deref(), reserved)?;
        let limit = call.calls.answer_bytes_max;
        let (lag_records, lag_ms) = lag(store);
        let found = store.read_whole(|store| store.get_many(&decoded.keys, limit));
        let found = found.map_err(takes_copy)?.map_err(|bytes| {
            let ex =
                format!("the values have {bytes} bytes, and the limit is {limit}; ask for fewer keys a call");
            Status::new(Code::TooLarge, ex)
        })?;
        let is_list =
            |found: &Option<Versioned>| found.as_ref().is_some_and(|found| found.kind == Kind::List);
        if let Some(at) = found.iter().position(is_list) {
            let error = WrongKind {
                key: decoded.keys.get(at).map(|key| key.to_vec()).unwrap_or_default(),
                found: Kind::List,
            };
            return Err(wrong_kind(&error));
        }
        Ok(move |out: &mut Encoder<'_>| {
            let entries = || found.iter().map(Option::as_ref);
            let answer = schema::Answer {
                values: entries()
                    .map(|entry| entry.map(|found| Cow::Borrowed(found.value.as_ref())))
                    .collect(),
                versions: entries()
                    .map(|entry| entry.map_or(0, |found| found.version))
                    .collect(),
                lag_records,
                lag_ms,
            };
            schema::Answer::write(&answer, out);
        })
    })
}
