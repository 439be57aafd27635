//! `ordered.trim`, answered by the store.
//! Its invariant: the answer counts the items behind this very call.

use crate::Served;
use crate::ordered_write::{Asked, ENTRY_BYTES, hand_over, listed};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Batch, Operation, Written};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, Method as _, OrderedTrim, Status, ordered_trim as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let asked = Asked {
        name: OrderedTrim::NAME,
        table: decoded.table.as_deref(),
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
    let answer = |written: Written, out: &mut Encoder<'_>| {
        let (count, version) = listed(&written);
        let answer = schema::Answer {
            count,
            version,
            durability: written.durability.as_str().into(),
        };
        schema::Answer::write(&answer, out);
    };
    hand_over(catalog, call, &reserved, &asked, (batch, answer))
}
