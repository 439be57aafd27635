//! `ordered.trim`, answered by the store.
//! Its invariant: the answer counts the items behind this very call.

use crate::ordered_write::{Asked, ENTRY_BYTES, hand_over, write_listed};
use crate::{Served, led_store};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Batch, Operation};
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Field as _, Method as _, OrderedTrim, Status, ordered_trim as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let asked = Asked {
        name: OrderedTrim::NAME,
        store: led_store(catalog, decoded.table.as_deref(), &reserved)?,
        bytes: decoded.key.len() + ENTRY_BYTES,
    };
    let batch = || {
        let trim = Operation::Trim {
            key: decoded.key.into_owned(),
            start: decoded.start,
            stop: decoded.stop,
        };
        Batch::of(vec![trim]).into()
    };
    hand_over(catalog, call, &reserved, &asked, (batch, write_listed))
}
