//! `ordered.get`: values and their versions.
//! Its invariant: the answer has one entry a key, in the call's order; an absent key is nil with version 0.

use crate::declare::{one_for_each, schema};
use crate::field::{Bytes, List, Numbers, Optional, Text};
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
    answer Answer {
        /// The value of each key, nil where it is absent.
        values: List<Optional<Bytes>>,
        /// The version of each key, 0 where it is absent.
        versions: Numbers<u64>,
    }
    check lengths_fit
}

fn lengths_fit(answer: &Answer<'_>) -> Read<()> {
    one_for_each("versions", answer.versions.len(), "values", answer.values.len())
}
