//! `ordered.get`: values and their versions.
//! Its invariant: the answer has one entry a key, in the call's order; an absent key is nil with version 0.

use crate::declare::{one_for_each, schema};
use crate::field::{Bytes, List, Numbers, Optional, Text, UInt};
use crate::payload::Read;

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// Keys to read.
        keys: List<Bytes>,
    }
}

schema! {
    /// An answer.
    #[derive(Default)]
    answer Answer {
        /// The value of each key, nil where it is absent.
        values: List<Optional<Bytes>>,
        /// The version of each key, 0 where it is absent.
        versions: Numbers<u64>,
        /// At a follower: records that its leader had when it answered last, and this server has not.
        lag_records: Optional<UInt>,
        /// At a follower: for how long it has not had all that its leader had; absent until it had once.
        lag_ms: Optional<UInt>,
    }
    check lengths_fit
}

fn lengths_fit(answer: &Answer<'_>) -> Read<()> {
    one_for_each("versions", answer.versions.len(), "values", answer.values.len())
}
