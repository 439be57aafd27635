//! `ordered.copy`: a follower whose next record is not in its leader's log any more asks for a checkpoint in pieces, and for the records behind it.
//! Its invariant: pieces are of one file, which is named in each of them; a server that has records of its own alone is given none.

use crate::declare::schema;
use crate::field::{Bytes, Optional, OrDefault, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// The name of the server that asks, the same in all its calls, those of `ordered.follow` too.
        follower: Text,
        /// The history of its log.
        history: Bytes,
        /// The epoch of its log.
        epoch: UInt,
        /// The last record of its log, 0 where there is none.
        position: UInt,
        /// The checkpoint that it copies, as the first answer named it; absent to ask which there is.
        checkpoint: Optional<UInt>,
        /// Where the piece of that begins.
        offset: Optional<UInt>,
        /// Instead: the record behind which those of the log are wanted.
        behind: Optional<UInt>,
        /// Bytes that have come of the record behind that.
        partial: OrDefault<UInt>,
        /// As many bytes are answered at most; of a record that has more, a piece.
        bytes_max: Optional<UInt>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// The history of the log.
        history: Bytes,
        /// The epoch of the checkpoint, or that in which the records were written.
        epoch: UInt,
        /// The checkpoint: the first record that is needed behind it. 0 while it is being written: ask again.
        checkpoint: UInt,
        /// Bytes of its file.
        length: UInt,
        /// The last record that may show in it: the records up to there belong to the copy.
        last: UInt,
        /// Where the piece begins: in the file, or the sequence of its first record.
        first: UInt,
        /// Bytes of the file, or records, one behind the other, as they lie in the log, or a piece of the first.
        piece: Bytes,
        /// Of a piece of a record: bytes before it.
        skipped: Optional<UInt>,
        /// Of a piece of a record: bytes behind it.
        rest: Optional<UInt>,
        /// Where the checkpoint is named: with which record the caller's epoch ended in this log, where it has and that is known. Up to there the caller has what this log has.
        epoch_last: Optional<UInt>,
    }
}
