//! `ordered.increment`, answered by the store.
//! Its invariant: the answer has the sum of this very call.

use crate::ordered_write::{Asked, ENTRY_BYTES, hand_over};
use crate::{Served, led_store};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Batch, Effect, Operation, Written};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, Method as _, OrderedIncrement, Status, ordered_increment as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let asked = Asked {
        name: OrderedIncrement::NAME,
        store: led_store(catalog, decoded.table.as_deref(), &reserved)?,
        bytes: decoded.key.len() + ENTRY_BYTES,
    };
    let batch = || {
        let increment = Operation::Increment {
            key: decoded.key.into_owned(),
            by: decoded.by,
            ttl_ms: decoded.ttl_ms,
        };
        Batch::of(vec![increment]).into()
    };
    let answer = |written: Written, out: &mut Encoder<'_>| {
        let (value, version) = match written.effects.as_slice() {
            [Effect::Incremented { value, version }] => (*value, *version),
            _ => (0, 0),
        };
        let answer = schema::Answer {
            value,
            version,
            durability: written.durability.as_str().into(),
        };
        schema::Answer::write(&answer, out);
    };
    hand_over(catalog, call, &reserved, &asked, (batch, answer))
}
