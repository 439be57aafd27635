//! `features.missed`: a node asks another one whether it missed upserts of the tables that both have rows of.
//! Its invariant: an answer that names nothing lets the node answer lookups for as long as it said.

use crate::declare::schema;
use crate::field::{Bool, List, Optional, OrDefault, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The node that asks, as the map calls it.
        node: Text,
        /// How long it answers lookups on an answer that names nothing.
        lease_ms: UInt,
        /// The run of the answer before, which `seen` is of.
        run: Optional<UInt>,
        /// What it has caught up with.
        seen: OrDefault<List<Seen<'static>>>,
    }
}

schema! {
    /// A table whose upserts are there.
    call Seen {
        /// The table's name.
        table: Text,
        /// Up to this sequence of the node that is asked.
        sequence: UInt,
        /// Every acknowledged upsert that was made before this time is in the log of the node that asks: milliseconds of Unix time.
        whole_ms: Optional<UInt>,
        /// When the newest upsert was made that it has: milliseconds of Unix time.
        newest_ms: Optional<UInt>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// A number of the process that answers: another one has not noted what this one has.
        run: UInt,
        /// What the node missed.
        missed: List<Missed<'static>>,
        /// The node that answers leaves lookups of fresh rows to others itself.
        catching_up: OrDefault<Bool>,
    }
}

schema! {
    /// Upserts of a table that the node missed.
    answer Missed {
        /// The table's name.
        table: Text,
        /// The sequence of the first one.
        from: UInt,
        /// The sequence of the last one.
        to: UInt,
    }
}
