//! `ordered.remove`: takes keys away, under a condition if the call has one.
//! Its invariant: all of them are taken away or none.

use crate::declare::schema;
use crate::field::{Bytes, List, Optional, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// Keys to remove; those that are not there are passed over.
        keys: List<Bytes>,
        /// Remove only if every key is at this version.
        if_version: Optional<UInt>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// How many keys were there.
        removed: UInt,
        /// What the removal survives: "memory", "logged" or "synced".
        durability: Text,
    }
}
