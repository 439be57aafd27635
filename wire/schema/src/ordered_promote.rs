//! `ordered.promote`: lets a store that follows another server's lead.
//! Its invariant: what it answers is in the store's log.

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
        /// The epoch that begins: servers that led in a lower one refuse writes once they hear of it.
        epoch: UInt,
        /// The last record that the store has from its leader.
        record: UInt,
    }
}
