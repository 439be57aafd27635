//! `ordered.trim`: leaves some items of the list that a key holds.
//! Its invariant: a key whose list has no items left is not there any more.

use crate::declare::schema;
use crate::field::{Bytes, Int, Optional, Text};

/// Version 0 where no item is left, and the key is not there.
pub use crate::ordered_append::Answer;

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// The key. One that is not there stays so; one that holds bytes is refused.
        key: Bytes,
        /// The first index that is left, as `ordered.items` counts: 0 is the newest item, -1 the oldest.
        start: Int,
        /// The last index that is left.
        stop: Int,
    }
}
