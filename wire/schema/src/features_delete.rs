//! `features.delete`: deletes the files of a version that nothing needs. The answer is that of [`crate::features_versions`].
//! Its invariant: a version that serves, is held, or is what a delta stands on is never deleted.

use crate::declare::schema;
use crate::field::{Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The table's name.
        table: Text,
        /// The version.
        version: UInt,
    }
}
