//! Keys of a lookup over several nodes that have no answer: the other nodes' rows are answered all the same.
//! Its invariant: an entry names the node, the keys and the node's error.

use crate::declare::schema;
use crate::field::{Block, Text, UInt};

schema! {
    /// The keys that one node was asked for last, and did not answer.
    answer Missing {
        /// The node.
        node: Text,
        /// The keys, in the call's order.
        keys: Block<u64>,
        /// The code of the node's error; 30116 where the node could not be reached.
        code: UInt,
        /// The node's error in words.
        ex: Text,
    }
}
