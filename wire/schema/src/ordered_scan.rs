//! `ordered.scan`: entries of a range of keys, in their order, a page at a time.
//! Its invariant: an answer without a cursor is the end of the range.

use crate::declare::schema;
use crate::field::{Bool, Bytes, Entry, List, Numbers, Optional, OrDefault, Text, UInt, Within};

/// Entries one call may ask for.
pub const LIMIT_MAX: usize = 10_000;

schema! {
    /// A call.
    #[derive(Default)]
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// Least key, inclusive.
        start: Optional<Bytes>,
        /// Greatest key, exclusive; nothing is in the range where it is not above `start`, with `reverse` too.
        end: Optional<Bytes>,
        /// Keys that begin so.
        prefix: Optional<Bytes>,
        /// The cursor of the answer before.
        cursor: Optional<Bytes>,
        /// Entries at the most. A page of nothing would go on at its own start for ever.
        limit: Within<1, LIMIT_MAX>,
        /// From the greatest key to the least.
        reverse: OrDefault<Bool>,
        /// Answer empty values.
        keys_only: OrDefault<Bool>,
    }
}

schema! {
    /// An answer.
    #[derive(Default)]
    answer Answer {
        /// Keys and values, ascending; with `reverse` descending. The value of a list is empty.
        entries: List<Entry>,
        /// The places of the entries that are lists, from 0; absent where none is.
        lists: OrDefault<Numbers<u64>>,
        /// Where the next call goes on; absent at the end of the range.
        cursor: Optional<Bytes>,
        /// At a follower: records that its leader had when it answered last, and this server has not.
        lag_records: Optional<UInt>,
        /// At a follower: for how long it has not had all that its leader had; absent until it had once.
        lag_ms: Optional<UInt>,
    }
}
