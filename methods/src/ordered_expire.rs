//! `ordered.expire`, answered by the store's log.
//! Its invariant: the answer counts the keys that were there.

use crate::Served;
use crate::ordered_write::{Asked, ENTRY_BYTES, hand_over};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Batch, Effect, Operation, Written};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, Method as _, OrderedExpire, Status, ordered_expire as schema};
use std::collections::HashSet;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let asked = Asked {
        name: OrderedExpire::NAME,
        table: decoded.table.as_deref(),
        bytes: decoded.keys.iter().map(|key| key.len() + ENTRY_BYTES).sum(),
    };
    let ttl_ms = decoded.ttl_ms;
    let batch = || {
        let expire = |key: std::borrow::Cow<'_, [u8]>| Operation::Expire {
            key: key.into_owned(),
            ttl_ms,
        };
        // A key that is named twice counts once.
        let mut named = HashSet::new();
        let keys = decoded.keys.into_iter().filter(|key| named.insert(key.clone()));
        let operations = keys.map(expire).collect();
        Batch::of(operations).into()
    };
    let answer = |written: Written, out: &mut Encoder<'_>| {
        let effects = written.effects.iter();
        let changed = effects
            .filter(|effect| **effect == Effect::WasThere(true))
            .count();
        let answer = schema::Answer {
            changed: changed as u64,
            durability: written.durability.as_str().into(),
        };
        schema::Answer::write(&answer, out);
    };
    hand_over(catalog, call, &reserved, &asked, (batch, answer))
}
