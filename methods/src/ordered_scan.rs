//! `ordered.scan`, answered on the net thread; its limit bounds how long that takes.
//! Its invariant: a scan that would outgrow a frame ends early with a cursor.

use crate::{Served, at_once, store};
use millpond_catalog::Catalog;
use millpond_engines_ordered::Scan;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, Status, ordered_scan as schema};
use std::borrow::Cow;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded| {
        let store = store(catalog, decoded.table.as_ref())?;
        let owned = |bytes: &Option<Cow<'_, [u8]>>| bytes.as_ref().map(|bytes| bytes.to_vec());
        // A cursor is the key to go on from: a later start.
        let start = owned(&decoded.cursor).max(owned(&decoded.start));
        let scan = Scan {
            start,
            end: owned(&decoded.end),
            prefix: owned(&decoded.prefix),
            limit: decoded.limit,
        };
        let bytes_max = call.calls.answer_bytes_max / 2;
        let (mut entries, mut bytes, mut cut) = (Vec::new(), 0, None);
        let rest = store.scan(&scan, &mut |key, value| {
            bytes += key.len() + value.len();
            if cut.is_none() && (bytes <= bytes_max || entries.is_empty()) {
                entries.push((Cow::Owned(key.to_vec()), Cow::Owned(value.to_vec())));
            } else if cut.is_none() {
                cut = Some(key.to_vec());
            }
        });
        let answer = schema::Answer {
            entries,
            cursor: cut.or(rest).map(Cow::Owned),
        };
        Ok(move |out: &mut Encoder<'_>| schema::Answer::write(&answer, out))
    })
}
