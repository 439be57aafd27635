//! `features.inspect`: what the feature tables of a server are: columns, version, size and age.
//! Its invariant: the figures of a table are of the version that it names.

use crate::declare::schema;
use crate::field::{Bool, List, Optional, Text, UInt};

schema! {
    /// A call.
    #[derive(Default)]
    call Call {
        /// The table; all when absent.
        table: Optional<Text>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// Which node of the bucket map the server is, where it is one.
        node: Optional<Text>,
        /// The tables, by name.
        tables: List<Table<'static>>,
    }
}

schema! {
    /// A table.
    answer Table {
        /// Its name.
        table: Text,
        /// The version that serves.
        version: UInt,
        /// Versions that served before and still answer at_version, the last one first.
        held: List<UInt>,
        /// The slot in which texts are hashed to keys; absent where keys are numbers.
        slot: Optional<Text>,
        /// What a row has, in this order.
        columns: List<Column<'static>>,
        /// Numbers of a row of an answer: of all columns together.
        dim: UInt,
        /// Rows.
        rows: UInt,
        /// Length of the files, those of the base of a delta among them.
        bytes: UInt,
        /// Of these, what stands in memory of the server's own; the rest is mapped.
        resident_bytes: UInt,
        /// When the version was written, in seconds of Unix time; 0 where it does not say.
        created: UInt,
        /// Seconds since then.
        age_s: UInt,
        /// What it was built from.
        source: Optional<Text>,
        /// Whether a mapped file was cut: lookups fail until another version serves.
        cut: Bool,
        /// Fresh rows over the version; absent where the table takes none.
        overlay: Optional<Overlay<'static>>,
    }
}

schema! {
    /// Fresh rows of a table.
    answer Overlay {
        /// Rows and removals.
        entries: UInt,
        /// Memory that they take.
        bytes: UInt,
        /// How much they may take.
        bytes_max: UInt,
        /// Sequence of the last record that lookups see: an upsert's, or one of the log's own.
        sequence: UInt,
        /// Up to where the version has what was upserted; 0 where it has nothing of it.
        folded: UInt,
        /// Over nodes: before this time the version has all upserts, in milliseconds of Unix time.
        folded_ms: Optional<UInt>,
        /// Over nodes: before this time all replicas have all upserts, so they can be folded; in milliseconds of Unix time.
        foldable_ms: Optional<UInt>,
        /// What an upsert survives: "memory", "logged" or "synced".
        durability: Text,
        /// How long a fresh row shows; until it is folded when absent.
        ttl_ms: Optional<UInt>,
        /// Whether its log failed: upserts are refused until a restart.
        read_only: Bool,
    }
}

schema! {
    /// A column.
    answer Column {
        /// Its name.
        name: Text,
        /// How its numbers are stored.
        numbers ("type"): Text,
        /// How many numbers of a row it has, or bytes; 0 where rows vary in length.
        dim: UInt,
    }
}
