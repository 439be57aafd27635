//! `features.versions`: the versions of a table; and the answer of every method that changes which there are or which serves.
//! Its invariant: the versions are ascending, and `active` was the one that served when the answer was made.

use crate::declare::schema;
use crate::field::{Bool, List, Optional, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The table's name.
        table: Text,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// The version that serves.
        active: UInt,
        /// The version that served before, to which features.rollback goes.
        before: Optional<UInt>,
        /// Whether a restart serves `active`, too.
        persistent: Bool,
        /// Why it does not.
        why_not: Optional<Text>,
        /// What lookups do not see of the upserts, because they were folded into another version, and how to have it back; after a
        /// deletion also what went with the version.
        warning: Optional<Text>,
        /// Those in the table's folder, and those that are open.
        versions: List<Version<'static>>,
    }
}

schema! {
    /// A version.
    answer Version {
        /// Its number.
        version: UInt,
        /// Of a delta: the version that it stands on.
        base: Optional<UInt>,
        /// Rows, those of its base among them.
        rows: UInt,
        /// Length of its own files.
        bytes: UInt,
        /// When it was written, in seconds of Unix time; 0 where it does not say.
        created: UInt,
        /// What it was built from.
        source: Optional<Text>,
        /// Whether it is open: at_version and features.rollback need no files.
        held: Bool,
        /// Why a start could not open it; the other figures are 0 where its manifest cannot be read.
        problem: Optional<Text>,
    }
}
