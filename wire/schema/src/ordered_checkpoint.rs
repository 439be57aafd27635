//! `ordered.checkpoint`: writes what a store holds to a file, in place of its log so far.
//! Its invariant: it is answered when the file is on the disk; until then the log is whole.

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
        /// Entries in the checkpoint.
        entries: UInt,
        /// Bytes of its file.
        bytes: UInt,
        /// How long it took to write.
        took_ms: UInt,
    }
}
