//! `ordered.clear`: takes all keys away, in steps between which others write.
//! Its invariant: it is answered when the last step is done; an error says that some may have gone.

use crate::declare::schema;
use crate::field::{Optional, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// How many keys were removed.
        removed: UInt,
        /// What the removal survives: "memory", "logged" or "synced".
        durability: Text,
    }
}
