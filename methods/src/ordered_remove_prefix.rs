//! `ordered.remove_prefix`, answered by the store.
//! Its invariant: without `more` no key with the prefix was there but those that this call removes.

use crate::ordered_write::{Asked, ENTRY_BYTES, hand_over};
use crate::{Served, led_store};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Scan, Written, were_there};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{
    Field as _, Method as _, OrderedRemovePrefix, Status, ordered_remove_prefix as schema,
};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let store = led_store(catalog, decoded.table.as_deref(), &reserved)?;
    call.deadline(reserved.deadline_ms)?;
    let step = store.removal(&Scan {
        prefix: Some(decoded.prefix.into_owned()),
        limit: decoded.limit,
        ..Scan::default()
    });
    let more = step.more.is_some();
    let Some(batch) = step.batch else {
        let durability = store.durability().as_str();
        call.answer(reserved.trace, |out| write(0, more, durability, out));
        return Ok(());
    };
    let keys = batch.operations.iter().map(|operation| operation.key().len());
    let asked = Asked {
        name: OrderedRemovePrefix::NAME,
        store,
        bytes: keys.map(|bytes| bytes + ENTRY_BYTES).sum(),
    };
    let answer = move |written: Written, out: &mut Encoder<'_>| {
        let removed = were_there(&written.effects);
        write(removed, more, written.durability.as_str(), out);
    };
    hand_over(catalog, call, &reserved, &asked, (|| batch.into(), answer))
}

fn write(removed: u64, more: bool, durability: &str, out: &mut Encoder<'_>) {
    let answer = schema::Answer {
        removed,
        more,
        durability: durability.into(),
    };
    schema::Answer::write(&answer, out);
}
