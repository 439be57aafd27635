//! `ordered.increment`: adds to the whole number that a key holds as text.
//! Its invariant: callers that add at once are added all, each once.

use crate::declare::schema;
use crate::field::{Bytes, Int, Optional, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// The key. One that is not there counts as 0.
        key: Bytes,
        /// What is added, of 64 bits; it may be below 0.
        by: Int,
        /// How long the key lasts from now on, at least 1; as long as it did when absent.
        ttl_ms: Optional<UInt>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// The sum.
        value: Int,
        /// The version that the key got.
        version: UInt,
        /// What the sum survives: "memory", "logged" or "synced".
        durability: Text,
    }
}
