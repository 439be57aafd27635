//! `ordered.items`: items of the list that a key holds, the newest first.
//! Its invariant: they were all there at one moment.

use crate::declare::schema;
use crate::field::{Bytes, Int, List, Optional, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// The key. One that is not there has no items; one that holds bytes is refused.
        key: Bytes,
        /// The first index: 0 is the newest item, -1 the oldest. One beyond an end is that end.
        start: Int,
        /// The last index, whose item is meant too.
        stop: Int,
    }
}

schema! {
    /// The items alone, as a batch answers them.
    answer Items {
        /// The items, the newest first.
        items: List<Bytes>,
    }
}

schema! {
    /// An answer.
    #[derive(Default)]
    answer Answer {
        /// The items, the newest first.
        items: List<Bytes>,
        /// At a follower: records that its leader had when it answered last, and this server has not.
        lag_records: Optional<UInt>,
        /// At a follower: for how long it has not had all that its leader had; absent until it had once.
        lag_ms: Optional<UInt>,
    }
}
