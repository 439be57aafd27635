//! `*tune`: changes a setting of the running server.
//! Key and value are text, as FPNN has them; its invariant: the answer's value is one that a call may send again.

use crate::declare::schema;
use crate::field::{Bool, OrDefault, Text};

schema! {
    /// A call.
    call Call {
        /// What to change.
        key: Text,
        /// To what.
        value: Text,
        /// Also where the caller could call no more after it.
        force: OrDefault<Bool>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// Whether it was changed: true.
        done ("return"): Bool,
        /// What was changed.
        key: Text,
        /// What it is now.
        value: Text,
    }
}
