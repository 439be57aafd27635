//! `features.activate`: serves another version of a table. The answer is that of [`crate::features_versions`].
//! Its invariant: an answer means that the version serves; an error that the one before does.

use crate::declare::schema;
use crate::field::{Optional, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The table's name.
        table: Text,
        /// The version; the highest in the table's folder when absent.
        version: Optional<UInt>,
    }
}
