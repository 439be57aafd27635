//! `ordered.remove`, answered by the store.
//! Its invariant: the answer counts the keys that were there.

use crate::Served;
use crate::ordered_write::hand_over_keys;
use millpond_catalog::Catalog;
use millpond_engines_ordered::Operation;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, Method as _, OrderedRemove, Status, ordered_remove as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let if_version = decoded.if_version;
    let operation = |key| Operation::Remove { key, if_version };
    let answer = |removed, durability: &str, out: &mut Encoder<'_>| {
        let durability = durability.into();
        schema::Answer::write(&schema::Answer { removed, durability }, out);
    };
    let asked = (OrderedRemove::NAME, decoded.table.as_deref());
    hand_over_keys(catalog, call, &reserved, asked, (decoded.keys, operation), answer)
}
