//! `ordered.append`: adds items to the list that a key holds, and leaves the newest.
//! Its invariant: callers that append at once all do, each their items one behind the other.

use crate::declare::schema;
use crate::field::{Bytes, List, Optional, Text, UInt};

/// Items that one append may have.
pub const ITEMS_MAX: usize = 65_536;

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// The key. One that is not there has an empty list; one that holds bytes is refused.
        key: Bytes,
        /// What is added, at least one; the last is the newest then.
        items: List<Bytes, ITEMS_MAX>,
        /// How many of the newest items are left, at least 1; all when absent.
        keep: Optional<UInt>,
        /// How long the key lasts from now on, at least 1; as long as it did when absent.
        ttl_ms: Optional<UInt>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// How many items the list has then.
        count: UInt,
        /// The version that the key has then; 0 where it is not there.
        version: UInt,
        /// What the change survives: "memory", "logged" or "synced".
        durability: Text,
    }
}
