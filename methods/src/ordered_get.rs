//! `ordered.get`, answered on the net thread.
//! Its invariant: the answer stays within the frame limit, or the call is refused.

use crate::{Served, at_once, store};
use millpond_catalog::Catalog;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, ordered_get as schema};
use std::borrow::Cow;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded| {
        let store = store(catalog, decoded.table.as_ref())?;
        let (limit, mut bytes) = (call.calls.answer_bytes_max, 0);
        let mut found = Vec::with_capacity(decoded.keys.len());
        for key in &decoded.keys {
            let entry = store.get(key).map(|entry| (entry.value, entry.version));
            bytes += entry.as_ref().map_or(0, |(value, _)| value.len());
            if bytes > limit {
                let ex = format!("the values are over the limit of {limit} bytes; ask for fewer keys a call");
                return Err(Status::new(Code::TooLarge, ex));
            }
            found.push(entry);
        }
        Ok(move |out: &mut Encoder<'_>| {
            let entries = || found.iter().map(Option::as_ref);
            let answer = schema::Answer {
                values: entries()
                    .map(|entry| entry.map(|(value, _)| Cow::Borrowed(value.as_ref())))
                    .collect(),
                versions: entries()
                    .map(|entry| entry.map_or(0, |(_, version)| *version))
                    .collect(),
            };
            schema::Answer::write(&answer, out);
        })
    })
}
