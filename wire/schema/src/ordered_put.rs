//! `ordered.put`: writes entries, under a condition if the call has one.
//! Its invariant: a put is whole or not at all; the answer names what it survives.

use crate::declare::schema;
use crate::field::{Bool, Entry, List, Numbers, Optional, OrDefault, Text, UInt};
use crate::payload::{PayloadError, Read};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// What to write.
        entries: List<Entry>,
        /// Write only if every key is at this version (0: absent).
        if_version: Optional<UInt>,
        /// Write only if every key is absent.
        if_absent: OrDefault<Bool>,
        /// Write only if every key is there.
        if_present: OrDefault<Bool>,
        /// How long the entries last, at least 1; for good when absent, whatever they did before.
        ttl_ms: Optional<UInt>,
        /// The entries last as long as what their keys held before; in place of `ttl_ms`.
        keep_ttl: OrDefault<Bool>,
    }
    check lasts_once
}

schema! {
    /// An answer.
    answer Answer {
        /// The version each entry got, in the call's order.
        versions: Numbers<u64>,
        /// What the put survives: "memory", "logged" or "synced".
        durability: Text,
    }
}

fn lasts_once(call: &Call<'_>) -> Read<()> {
    match (call.ttl_ms, call.keep_ttl) {
        (Some(_), true) => {
            Err(PayloadError::invalid("true beside ttl_ms", "one of the two").under("keep_ttl"))
        }
        _ => Ok(()),
    }
}
