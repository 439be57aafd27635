//! `ordered.concatenate`, answered by the store.
//! Its invariant: the answer has the length behind this very call.

use crate::ordered_write::{Asked, ENTRY_BYTES, hand_over};
use crate::{Served, led_store};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Batch, Effect, Operation, Written};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{
    Field as _, Method as _, OrderedConcatenate, Status, ordered_concatenate as schema,
};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let asked = Asked {
        name: OrderedConcatenate::NAME,
        store: led_store(catalog, decoded.table.as_deref(), &reserved)?,
        bytes: decoded.key.len() + decoded.value.len() + ENTRY_BYTES,
    };
    let batch = || {
        let concatenate = Operation::Concatenate {
            key: decoded.key.into_owned(),
            value: decoded.value.into_owned(),
        };
        Batch::of(vec![concatenate]).into()
    };
    let answer = |written: Written, out: &mut Encoder<'_>| {
        let (bytes, version) = match written.effects.as_slice() {
            [Effect::Concatenated { bytes, version }] => (*bytes as u64, *version),
            _ => (0, 0),
        };
        let answer = schema::Answer {
            bytes,
            version,
            durability: written.durability.as_str().into(),
        };
        schema::Answer::write(&answer, out);
    };
    hand_over(catalog, call, &reserved, &asked, (batch, answer))
}
