//! `features.scan`: the keys of a table, a page at a time, in no order.
//! Its invariant: an answer without a cursor is the end, and a cursor goes on in the version that gave it, or not at all.

use crate::declare::schema;
use crate::field::{Block, Bytes, Optional, Text, UInt, Within};

/// Keys one call may ask for.
pub const LIMIT_MAX: usize = 10_000;

schema! {
    /// A call.
    call Call {
        /// The table's name.
        table: Text,
        /// The cursor of the answer before.
        cursor: Optional<Bytes>,
        /// Keys at the most. Fewer may come before the end, or none.
        limit: Within<1, LIMIT_MAX>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// The version that answered.
        version: UInt,
        /// Rows of that version.
        rows: UInt,
        /// Some of its keys.
        keys: Block<u64>,
        /// Where the next call goes on; absent at the end.
        cursor: Optional<Bytes>,
    }
}
