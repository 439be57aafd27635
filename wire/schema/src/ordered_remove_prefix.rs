//! `ordered.remove_prefix`: takes away keys that begin alike, so many a call.
//! Its invariant: a call's removals are seen all or none.

use crate::declare::schema;
use crate::field::{Bool, Bytes, Optional, Text, UInt, Within};
use crate::ordered_batch::OPERATIONS_MAX;
use crate::payload::{PayloadError, Read};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// What the keys begin with, at least one byte.
        prefix: Bytes,
        /// Keys at the most; fewer go where they have more than a MiB together.
        limit: Within<1, OPERATIONS_MAX>,
    }
    check has_prefix
}

schema! {
    /// An answer.
    answer Answer {
        /// How many keys were removed.
        removed: UInt,
        /// Whether there were more: call again.
        more: Bool,
        /// What the removal survives: "memory", "logged" or "synced".
        durability: Text,
    }
}

fn has_prefix(call: &Call<'_>) -> Read<()> {
    match call.prefix.is_empty() {
        false => Ok(()),
        true => {
            let expected = "at least one byte; ordered.clear removes all keys";
            Err(PayloadError::invalid("nothing", expected).under("prefix"))
        }
    }
}
