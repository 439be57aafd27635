//! What can go wrong when a table is built.
//!
//! Not the table's own errors, which pass through. Invariant: an error in the data names the file and the row.

use std::fmt;
use std::path::{Path, PathBuf};

use millpond_engines_features as features;
use millpond_engines_features::ROW_BYTES_MAX;

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
    /// The input could not be read on.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The input.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Rows in memory could not be read on.
    #[error("{} cannot be read on from row {row} (counted from 0): {problem}", path.display())]
    Stream {
        /// What the rows are called.
        path: PathBuf,
        /// The first row that could not be read.
        row: u64,
        /// What is wrong with them.
        problem: String,
    },
    /// A pattern names no files.
    #[error("{pattern}: {problem}; name a file, or quote a pattern such as 'part-*.parquet'")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The name of an input does not tell its format.
    #[error("{}: its name does not say what it is; add --format {}", path.display(), known.join(", "))]
    NoFormat {
        /// The input.
        path: PathBuf,
        /// The formats there are.
        known: Vec<&'static str>,
    },
    /// The input is no file of its format, or a damaged one.
    #[error(
        "{} is not a whole {format} file (found out at row {row}): {problem}; write it again",
        path.display()
    )]
    Damaged {
        /// The input.
        path: PathBuf,
        /// The name of the format.
        format: &'static str,
        /// The first row that could not be read, from 0.
        row: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// An NPY file is not what is expected of it.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Array {
        /// The file.
        path: PathBuf,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A line of text is not what its format says.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The input.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
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
        "{} has no column {column:?}: found {available:?}; name the right one with {option}",
        path.display()
    )]
    NoColumn {
        /// The input.
        path: PathBuf,
        /// The asked column.
        column: String,
        /// The option of the command that names it.
        option: &'static str,
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
    #[error("{}, {place}, column {column:?}: {problem}", path.display())]
    Row {
        /// The input.
        path: PathBuf,
        /// The row.
        place: Place,
        /// The column at fault.
        column: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// Two versions have no rows that could be compared.
    #[error(
        "versions {from} and {to} in {} cannot be compared: {problem}",
        path.display()
    )]
    Unlike {
        /// The table folder.
        path: PathBuf,
        /// One version.
        from: u64,
        /// The other.
        to: u64,
        /// In what they differ.
        problem: &'static str,
    },
    /// An export could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The name of an export does not tell a format that there is.
    #[error("{}: expected a name that ends in .{}", path.display(), known.join(", ."))]
    ExportFormat {
        /// The file.
        path: PathBuf,
        /// The ends of names.
        known: Vec<&'static str>,
    },
    /// A row has a number that the format of an export cannot hold.
    #[error("the row of key {key} has {value}, which {format} cannot hold; export it as Parquet")]
    ExportNumber {
        /// The key.
        key: u64,
        /// The number.
        value: f32,
        /// The name of the format.
        format: &'static str,
    },
    /// A row has bytes that are no text, which the format of an export cannot hold.
    #[error(
        "the row of key {key} has bytes that are not UTF-8, which {format} cannot hold; export it as Parquet"
    )]
    ExportBytes {
        /// The key.
        key: u64,
        /// The name of the format.
        format: &'static str,
    },
    /// There is a version with the highest number.
    #[error("{} has a version with the highest number there is; name a free one", path.display())]
    NoNextVersion {
        /// The table folder.
        path: PathBuf,
    },
}

impl Error {
    pub(crate) fn open(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Open {
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Write {
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Read {
            path: path.to_path_buf(),
            source,
        }
    }
}

/// Where a row stands in its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The number of the row, from 0.
    Row(u64),
    /// The line of a text file on which the row begins, from 1.
    Line(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Row(row) => write!(f, "row {row} (counted from 0)"),
            Place::Line(line) => write!(f, "line {line}"),
        }
    }
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// The key is null, or is not there.
    NullKey,
    /// The key is no whole number of 64 bits.
    KeyText {
        /// What stands there.
        found: String,
    },
    /// The key is a number, and no whole one of 64 bits.
    KeyNumber {
        /// The number.
        found: String,
    },
    /// The key is a text among numbers, a number among texts, or a text that is too long.
    KeyKind {
        /// What other keys are.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// The value is null, or is not there.
    NullVector,
    /// The value is a list without elements.
    EmptyVector,
    /// An element of the value is null.
    NullElement {
        /// Where in the list, from 0.
        position: usize,
    },
    /// The value is no number and no list of numbers.
    NotNumbers {
        /// What stands there.
        found: String,
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
    /// The value is no text, of a column that holds its bytes.
    NotBytes {
        /// What stands there.
        found: String,
    },
    /// The value has another number of bytes than its column.
    Width {
        /// That of the column: as it was said, or as the first row has it.
        expected: usize,
        /// This row's.
        found: usize,
    },
    /// The value has more bytes than a row may have.
    TooLong {
        /// How many.
        found: usize,
    },
    /// An earlier row has the same key.
    DuplicateKey {
        /// The key.
        key: String,
        /// Where the earlier row is.
        first: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NullKey => write!(f, "the key is null; drop the row or give it a key"),
            Problem::KeyText { found } => {
                write!(
                    f,
                    "expected a key of 64 bits, a whole number, found {found}; for texts add --keys text"
                )
            }
            Problem::KeyNumber { found } => write!(
                f,
                "expected a key of 64 bits, a whole number from -9223372036854775808 to 18446744073709551615, found {found}"
            ),
            Problem::KeyKind { expected, found } => write!(f, "expected {expected} as a key, found {found}"),
            Problem::NullVector => write!(f, "the value is null; drop the row or fill it"),
            Problem::EmptyVector => write!(f, "the list is empty; expected one number or more"),
            Problem::NullElement { position } => write!(f, "element {position} is null; fill it"),
            Problem::NotNumbers { found } => {
                write!(
                    f,
                    "expected a number, or a list such as [0.5, -1], found {found}; for bytes add --type bytes"
                )
            }
            Problem::NotFinite { position, value } if !value.is_finite() => write!(
                f,
                "element {position} is {value:?}; expected a finite number: tables that are built with --keep-not-finite hold it too"
            ),
            Problem::NotFinite { position, value } => write!(
                f,
                "element {position} is {value:?}; expected a finite number that the table's type holds"
            ),
            Problem::Dim { expected, found } => write!(
                f,
                "there are {found} numbers, the first row has {expected}; make all the same length"
            ),
            Problem::NotBytes { found } => {
                write!(f, "expected a text, whose bytes the column holds, found {found}")
            }
            Problem::Width { expected, found } => write!(
                f,
                "there are {found} bytes, the column has {expected} a row; for rows of any length write :bytes"
            ),
            Problem::TooLong { found } => {
                write!(f, "there are {found} bytes; expected at most {ROW_BYTES_MAX}")
            }
            Problem::DuplicateKey { key, first } => {
                write!(
                    f,
                    "key {key} is in {first} already; keep one row a key, or say which by --duplicates"
                )
            }
        }
    }
}
