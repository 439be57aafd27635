//! `ordered.items`, answered on the net thread.
//! Its invariants: all items are of one moment; the answer stays within the frame limit, or the call is refused.

use crate::ordered_write::wrong_kind;
use crate::{Served, at_once, lag, led_store, takes_copy};
use millpond_catalog::Catalog;
use millpond_engines_ordered::ReadError;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, ordered_items as schema};
use std::borrow::Cow;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded, reserved| {
        let store = led_store(catalog, decoded.table.as_deref(), reserved)?;
        let bytes_max = call.calls.answer_bytes_max;
        let (lag_records, lag_ms) = lag(store);
        let found =
            store.read_whole(|store| store.items(&decoded.key, decoded.start, decoded.stop, bytes_max));
        let found = found.map_err(takes_copy)?;
        let items = found.map_err(|error| match error {
            ReadError::WrongKind(error) => wrong_kind(&error),
            error => Status::new(Code::TooLarge, error.to_string()),
        })?;
        let answer = schema::Answer {
            items: items.into_iter().map(Cow::Owned).collect(),
            lag_records,
            lag_ms,
        };
        Ok(move |out: &mut Encoder<'_>| schema::Answer::write(&answer, out))
    })
}
