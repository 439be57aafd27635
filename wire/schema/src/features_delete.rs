//! `features.delete`: deletes the files of a version that nothing needs. The answer is that of [`crate::features_versions`].
//! Its invariant: a version that serves, is held, or is what a delta stands on is never deleted; and one that alone has folded
//! upserts only where the caller says so.

use crate::declare::schema;
use crate::field::{Bool, OrDefault, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The table's name.
        table: Text,
        /// The version.
        version: UInt,
        /// Also where it is the only version that has upserts which were folded into it and have left the overlay.
        lose_upserts: OrDefault<Bool>,
    }
}
