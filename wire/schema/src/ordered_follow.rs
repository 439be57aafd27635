//! `ordered.follow`: another server, which keeps the records of a store's log too, asks for those that it has not.
//! Its invariant: records come as they lie in the log, with their checksums; what the call says of its end is what that server has.

use crate::declare::schema;
use crate::field::{Bytes, Optional, OrDefault, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// The name of the server that asks, the same in all its calls.
        follower: Text,
        /// The history of its log.
        history: Bytes,
        /// The epoch of its log.
        epoch: UInt,
        /// The last record of its log, 0 where there is none: it has everything up to there, by its own durability.
        position: UInt,
        /// The epoch of that record, where the log still has it.
        record_epoch: Optional<UInt>,
        /// The checksum of that record's kind and body (CRC-32C), where the log still has it.
        record_crc32c: Optional<UInt>,
        /// Bytes that have come of the record behind that.
        partial: OrDefault<UInt>,
        /// As many bytes of records are answered at most; of one that has more, a piece.
        bytes_max: Optional<UInt>,
        /// How long to wait where there is nothing yet, 60,000 at most.
        wait_ms: OrDefault<UInt>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// The history of the log.
        history: Bytes,
        /// The epoch in which the records were written; the log's own where there are none.
        epoch: UInt,
        /// The sequence of the first record.
        first: UInt,
        /// The last record of the log.
        last: UInt,
        /// The records, one behind the other, or a piece of the first; nothing where none came in time.
        records: Bytes,
        /// Of a piece: bytes of its record before it.
        skipped: Optional<UInt>,
        /// Of a piece: bytes of its record behind it.
        rest: Optional<UInt>,
        /// The leader's time, in milliseconds of Unix time: what has expired there has at its followers.
        now_ms: Optional<UInt>,
    }
}
