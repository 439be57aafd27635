//! `ordered.append`, answered by the store.
//! Its invariant: the answer counts the items behind this very call.

use crate::ordered_write::{Asked, ENTRY_BYTES, ITEM_BYTES, hand_over, write_listed};
use crate::{Served, led_store};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Batch, Operation};
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Field as _, Method as _, OrderedAppend, Status, ordered_append as schema};
use std::borrow::Cow;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let items = decoded.items.iter().map(|item| item.len() + ITEM_BYTES);
    let asked = Asked {
        name: OrderedAppend::NAME,
        store: led_store(catalog, decoded.table.as_deref(), &reserved)?,
        bytes: decoded.key.len() + items.sum::<usize>() + ENTRY_BYTES,
    };
    let batch = || {
        let append = Operation::Append {
            key: decoded.key.into_owned(),
            items: decoded.items.into_iter().map(Cow::into_owned).collect(),
            keep: decoded.keep.map(keep),
            ttl_ms: decoded.ttl_ms,
        };
        Batch::of(vec![append]).into()
    };
    hand_over(catalog, call, &reserved, &asked, (batch, write_listed))
}

/// No list has more items than fit a number of 32 bits.
pub(crate) fn keep(keep: u64) -> u32 {
    u32::try_from(keep).unwrap_or(u32::MAX)
}
