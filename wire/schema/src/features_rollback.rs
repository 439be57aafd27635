//! `features.rollback`: serves the version that served before; a second time undoes the first. The answer is that of
//! [`crate::features_versions`].
//! Its invariant: as of features.activate.

use crate::declare::schema;
use crate::field::Text;

schema! {
    /// A call.
    call Call {
        /// The table's name.
        table: Text,
    }
}
