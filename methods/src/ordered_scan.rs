//! `ordered.scan`, answered on the net thread; its limit bounds how long that takes.
//! Its invariant: a scan that would outgrow a frame ends early with a cursor.

use crate::{Served, at_once, lag, led_store, takes_copy};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Entry, Kind, Scan};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, Status, ordered_scan as schema};
use std::borrow::Cow;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded, reserved| {
        let store = led_store(catalog, decoded.table.as_deref(), reserved)?;
        let owned = |bytes: &Option<Cow<'_, [u8]>>| bytes.as_ref().map(|bytes| bytes.to_vec());
        // A cursor is the key to go on from: a later start, or an earlier end.
        let (mut start, mut end) = (owned(&decoded.start), owned(&decoded.end));
        match (&decoded.cursor, decoded.reverse) {
            (None, _) => {}
            (Some(_), false) => start = owned(&decoded.cursor).max(start),
            (Some(cursor), true) => {
                let behind = Scan::end_behind(cursor);
                end = Some(end.map_or(behind.clone(), |end| end.min(behind)));
            }
        }
        let scan = Scan {
            start,
            end,
            prefix: owned(&decoded.prefix),
            limit: decoded.limit,
            reverse: decoded.reverse,
            bytes_max: call.calls.answer_bytes_max / 2,
            keys_only: decoded.keys_only,
        };
        let (mut entries, mut lists) = (Vec::new(), Vec::new());
        let mut visit = |entry: Entry<'_>| {
            if entry.kind == Kind::List {
                lists.push(entries.len() as u64);
            }
            entries.push((Cow::Owned(entry.key.to_vec()), Cow::Owned(entry.value.to_vec())));
        };
        let (lag_records, lag_ms) = lag(store);
        let cursor = store.read_whole(|store| store.scan_entries(&scan, &mut visit));
        let cursor = cursor.map_err(takes_copy)?;
        let answer = schema::Answer {
            entries,
            lists,
            cursor: cursor.map(Cow::Owned),
            lag_records,
            lag_ms,
        };
        Ok(move |out: &mut Encoder<'_>| schema::Answer::write(&answer, out))
    })
}
