//! `ordered.get`, answered on the net thread.
//! Its invariant: the answer stays within the frame limit, or the call is refused.

use super::store;
use crate::router::Call;
use millpond_calls::Reply;
use millpond_catalog::Catalog;
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Code, Field as _, Status, ordered_get as schema};
use std::borrow::Cow;

pub(crate) fn answer(engines: &Catalog, call: &Call<'_>, payload: &Payload<'_>, mut reply: Reply<'_>) {
    let (decoded, reserved) = match schema::Call::decode(payload) {
        Ok(decoded) => decoded,
        Err(error) => return call.refuse(reply, &error.into()),
    };
    let found = call
        .deadline(reserved.deadline_ms)
        .and_then(|_| store(engines, decoded.table.as_ref()))
        .and_then(|store| {
            let (limit, mut bytes) = (call.shared.config.server.frame_bytes_max, 0);
            let mut found = Vec::with_capacity(decoded.keys.len());
            for key in &decoded.keys {
                let entry = store.get(key).map(|entry| (entry.value, entry.version));
                bytes += entry.as_ref().map_or(0, |(value, _)| value.len());
                if bytes > limit {
                    let ex =
                        format!("the values are over the limit of {limit} bytes; ask for fewer keys a call");
                    return Err(Status::new(Code::TooLarge, ex));
                }
                found.push(entry);
            }
            Ok(found)
        });
    match found {
        Ok(found) => {
            let entries = || found.iter().map(Option::as_ref);
            let answer = schema::Answer {
                values: entries()
                    .map(|entry| entry.map(|(value, _)| Cow::Borrowed(value.as_ref())))
                    .collect(),
                versions: entries()
                    .map(|entry| entry.map_or(0, |(_, version)| *version))
                    .collect(),
            };
            reply.set_base64(reserved.base64);
            call.answer(reply, reserved.trace, |out| schema::Answer::write(&answer, out));
        }
        Err(status) => call.refuse(reply, &status),
    }
}
