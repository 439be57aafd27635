//! `features.fresh`: fresh rows of a table for another node that may miss some of them, a page at a time.
//! Its invariant: what a node holds by the map, and was written behind `since`, is in one of the pages.

use crate::declare::{one_for_each, schema};
use crate::field::{Block, Bytes, Optional, Text, UInt};
use crate::payload::Read;

schema! {
    /// A call.
    call Call {
        /// The table's name.
        table: Text,
        /// The node whose keys are asked for.
        node: Text,
        /// The version of the map that says which keys it has.
        map: UInt,
        /// Rows of upserts behind this sequence; of all when absent.
        since: Optional<UInt>,
        /// Where the answer before said that it goes on.
        position: Optional<UInt>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// The run of the process that answers.
        run: UInt,
        /// All upserts up to this one were there before the page was made.
        sequence: UInt,
        /// Upserts that were made before this time may be in versions alone, and in no page: milliseconds of Unix time.
        folded_ms: Optional<UInt>,
        /// What rows are stored as: the same number where they are stored alike.
        layout: UInt,
        /// Keys of the rows, then those that were removed.
        keys: Block<u64>,
        /// When each was written: milliseconds of Unix time × 65536, and a count.
        times: Block<u64>,
        /// By which server each was.
        origins: Block<u64>,
        /// As they are stored.
        rows: Bytes,
        /// Where the next call goes on; absent at the end.
        position: Optional<UInt>,
    }
    check fits
}

fn fits(answer: &Answer<'_>) -> Read<()> {
    for (key, found) in [("times", answer.times.len()), ("origins", answer.origins.len())] {
        one_for_each(key, found, "keys", answer.keys.len())?;
    }
    Ok(())
}
