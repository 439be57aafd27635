//! `features.upsert`: writes fresh rows over a table's versions, and removes keys.
//! Its invariant: an upsert is whole or not at all; the answer names what it survives.

use crate::declare::schema;
use crate::field::{Block, Bytes, Field as _, List, Optional, OrDefault, Text, UInt};
use crate::payload::{PayloadError, Read};

schema! {
    /// A call.
    call Call {
        /// The table's name.
        table: Text,
        /// Keys of the rows: these, or `texts`.
        keys: Optional<Block<u64>>,
        /// Keys of a table whose keys are texts.
        texts: Optional<List<Bytes>>,
        /// The columns that `values` has, in this order; all of the table when absent. The others stay as the row has them, or as the default row.
        columns: OrDefault<List<Text>>,
        /// The rows' numbers, in the order of the keys: n × dim of those columns.
        values: OrDefault<Block<f32>>,
        /// Keys to remove, after the rows are written.
        remove: Optional<Block<u64>>,
        /// The same of a table whose keys are texts.
        remove_texts: Optional<List<Bytes>>,
    }
    check fits
}

schema! {
    /// An answer.
    answer Answer {
        /// Counts the table's upserts: lookups whose overlay_sequence is at least this see it.
        sequence: UInt,
        /// What the upsert survives: "memory", "logged" or "synced".
        durability: Text,
    }
}

fn fits(call: &Call<'_>) -> Read<()> {
    for (keys, texts, key, beside) in [
        (&call.keys, &call.texts, "texts", "keys"),
        (&call.remove, &call.remove_texts, "remove_texts", "remove"),
    ] {
        if keys.is_some() && texts.is_some() {
            return Err(PayloadError::invalid("given", format!("no `{key}` beside `{beside}`")).under(key));
        }
    }
    if [&call.keys, &call.remove].iter().all(|keys| keys.is_none())
        && [&call.texts, &call.remove_texts]
            .iter()
            .all(|texts| texts.is_none())
    {
        return Err(PayloadError::missing("keys", Block::<u64>::expected()));
    }
    Ok(())
}
