//! What can go wrong when a table is built.
//!
//! Not the table's own errors, which pass through. Invariant: an error in the data names the file and the row.

use std::fmt;
use std::path::PathBuf;

use millpond_engines_features as features;
use parquet::errors::ParquetError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The table could not be written, opened or verified.
    #[error(transparent)]
    Table(#[from] features::Error),
    /// The input could not be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The input.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The input is no Parquet file, or a damaged one.
    #[error(
        "{} is not a whole Parquet file (found out at row {row}): {source}; write it again",
        path.display()
    )]
    Parquet {
        /// The input.
        path: PathBuf,
        /// The first row that could not be read, from 0.
        row: u64,
        /// The reader's reason.
        source: ParquetError,
    },
    /// The input is compressed in a way that is not read.
    #[error(
        "{} is compressed with {codec}; write it with snappy, zstd or no compression",
        path.display()
    )]
    Codec {
        /// The input.
        path: PathBuf,
        /// The codec.
        codec: String,
    },
    /// The input has no column of that name.
    #[error(
        "{} has no column {column:?}: found {available:?}; name the key and the value column",
        path.display()
    )]
    NoColumn {
        /// The input.
        path: PathBuf,
        /// The asked column.
        column: String,
        /// The columns that are there.
        available: Vec<String>,
    },
    /// A column has a type that keys or rows cannot be read from.
    #[error(
        "{}, column {column:?}: expected {expected}, found {found}; convert the column or name another",
        path.display()
    )]
    ColumnType {
        /// The input.
        path: PathBuf,
        /// The column.
        column: String,
        /// The types that can be read.
        expected: &'static str,
        /// The type that is there.
        found: String,
    },
    /// The input has no row, so the dimension is unknown.
    #[error("{} has no rows; expected at least one", path.display())]
    Empty {
        /// The input.
        path: PathBuf,
    },
    /// The input does not go with the base of a delta.
    #[error("{} cannot be the base of this delta: {problem}", path.display())]
    Base {
        /// The base's folder.
        path: PathBuf,
        /// What does not fit.
        problem: String,
    },
    /// One row is not what a table can hold.
    #[error("{}, row {row} (counted from 0): {problem}", path.display())]
    Row {
        /// The input.
        path: PathBuf,
        /// The row, from 0.
        row: u64,
        /// What is wrong with it.
        problem: Problem,
    },
    /// There is a version with the highest number.
    #[error("{} has a version with the highest number there is; name a free one", path.display())]
    NoNextVersion {
        /// The table folder.
        path: PathBuf,
    },
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// The key is null.
    NullKey,
    /// The value is null.
    NullVector,
    /// The value is a list without elements.
    EmptyVector,
    /// An element of the value is null.
    NullElement {
        /// Where in the list, from 0.
        position: usize,
    },
    /// An element is NaN or infinite, or a number that the type of its column cannot hold.
    NotFinite {
        /// Where in the list, from 0.
        position: usize,
        /// The element.
        value: f64,
    },
    /// The list has another length than the first row's.
    Dim {
        /// The first row's length.
        expected: usize,
        /// This row's length.
        found: usize,
    },
    /// An earlier row has the same key.
    DuplicateKey {
        /// The key.
        key: u64,
        /// The earlier row, from 0.
        first: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NullKey => write!(f, "the key is null; drop the row or give it a key"),
            Problem::NullVector => write!(f, "the vector is null; drop the row or fill it"),
            Problem::EmptyVector => write!(f, "the vector is empty; expected one value or more"),
            Problem::NullElement { position } => {
                write!(f, "element {position} of the vector is null; fill it")
            }
            Problem::NotFinite { position, value } => write!(
                f,
                "element {position} of the vector is {value:?}; expected a finite number that the table's type holds"
            ),
            Problem::Dim { expected, found } => write!(
                f,
                "the vector has {found} elements, row 0 has {expected}; make all the same length"
            ),
            Problem::DuplicateKey { key, first } => {
                write!(f, "key {key} is in row {first} already; keep one row a key")
            }
        }
    }
}
