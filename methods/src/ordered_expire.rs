//! `ordered.expire`, answered by the store.
//! Its invariant: the answer counts the keys that were there.

use crate::Served;
use crate::ordered_write::hand_over_keys;
use millpond_catalog::Catalog;
use millpond_engines_ordered::Operation;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, Method as _, OrderedExpire, Status, ordered_expire as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let ttl_ms = decoded.ttl_ms;
    let operation = |key| Operation::Expire { key, ttl_ms };
    let answer = |changed, durability: &str, out: &mut Encoder<'_>| {
        let durability = durability.into();
        schema::Answer::write(&schema::Answer { changed, durability }, out);
    };
    let asked = (OrderedExpire::NAME, decoded.table.as_deref());
    hand_over_keys(catalog, call, &reserved, asked, (decoded.keys, operation), answer)
}
