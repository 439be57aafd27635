//! `ordered.put`, answered by the store.
//! Its invariant: the answer names a version for each entry, in the call's order.

use crate::ordered_write::{Asked, ENTRY_BYTES, hand_over};
use crate::{Served, led_store};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Durability, Put, Store, Written};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, Method as _, OrderedPut, Status, ordered_put as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let lengths = decoded.entries.iter().map(|(key, value)| key.len() + value.len());
    let asked = Asked {
        name: OrderedPut::NAME,
        store: led_store(catalog, decoded.table.as_deref(), &reserved)?,
        bytes: lengths.map(|length| length + ENTRY_BYTES).sum(),
    };
    call.deadline(reserved.deadline_ms)?;
    if let Some(version) = put_at_once(asked.store, &decoded) {
        call.set_base64(reserved.base64);
        call.answer(reserved.trace, |out| {
            write_answer(vec![version], Durability::Memory, out);
        });
        return Ok(());
    }
    let put = || {
        let entries = decoded.entries.into_iter();
        let entries = entries.map(|(key, value)| (key.into_owned(), value.into_owned()));
        let put = Put {
            entries: entries.collect(),
            if_version: decoded.if_version,
            if_absent: decoded.if_absent,
            if_present: decoded.if_present,
            ttl_ms: decoded.ttl_ms,
            keep_ttl: decoded.keep_ttl,
        };
        put.into()
    };
    let answer = |written: Written, out: &mut Encoder<'_>| {
        write_answer(written.versions, written.durability, out);
    };
    hand_over(catalog, call, &reserved, &asked, (put, answer))
}

/// Puts a single entry without conditions, where the store can do that on this thread; its version.
fn put_at_once(store: &Store, call: &schema::Call<'_>) -> Option<u64> {
    let reads = call.if_version.is_some() || call.if_absent || call.if_present || call.keep_ttl;
    match call.entries.as_slice() {
        [(key, value)] if !reads => store.put_at_once(key, value, call.ttl_ms),
        _ => None,
    }
}

fn write_answer(versions: Vec<u64>, durability: Durability, out: &mut Encoder<'_>) {
    let answer = schema::Answer {
        versions,
        durability: durability.as_str().into(),
    };
    schema::Answer::write(&answer, out);
}
