//! `ordered.concatenate`: adds bytes behind those that a key holds.
//! Its invariant: callers that add at once are added all, each once.

use crate::declare::schema;
use crate::field::{Bytes, Optional, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// The key. One that is not there has no bytes; one that holds a list is refused.
        key: Bytes,
        /// What is added. The key lasts as long as it did.
        value: Bytes,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// How many bytes the value has then.
        bytes: UInt,
        /// The version that the key got.
        version: UInt,
        /// What the change survives: "memory", "logged" or "synced".
        durability: Text,
    }
}
