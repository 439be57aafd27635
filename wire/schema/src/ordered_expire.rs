//! `ordered.expire`: says how long keys last.
//! Its invariant: a key that is not there stays so.

use crate::declare::schema;
use crate::field::{Bool, Bytes, List, Optional, OrDefault, Text, UInt};
use crate::payload::{PayloadError, Read};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// The keys; those that are not there are passed over.
        keys: List<Bytes>,
        /// How long they last from now on, at least 1.
        ttl_ms: Optional<UInt>,
        /// They last for good; in place of `ttl_ms`.
        persist: OrDefault<Bool>,
    }
    check says_one
}

schema! {
    /// An answer.
    answer Answer {
        /// How many keys were there.
        changed: UInt,
        /// What the change survives: "memory", "logged" or "synced".
        durability: Text,
    }
}

fn says_one(call: &Call<'_>) -> Read<()> {
    match (call.ttl_ms, call.persist) {
        (Some(_), false) | (None, true) => Ok(()),
        (Some(_), true) => {
            Err(PayloadError::invalid("true beside ttl_ms", "one of the two").under("persist"))
        }
        (None, false) => Err(PayloadError::missing(
            "ttl_ms",
            "milliseconds, or \"persist\": true",
        )),
    }
}
