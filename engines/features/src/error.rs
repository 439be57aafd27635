//! What can go wrong with a feature table, as cases a caller can act on.
//!
//! Not the wire's errors: the server maps these to statuses. Invariant: every case says where, what was expected and
//! what was found, and how to fix it.

use std::io;
use std::path::{Path, PathBuf};

use crate::overlay::Lost;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The table folder is absent or holds no version.
    #[error(
        "no version of a feature table in {}: expected a folder such as 00000001; build one with `millpond features build`",
        path.display()
    )]
    NoVersions {
        /// The table folder.
        path: PathBuf,
    },
    /// The asked version is not in the table folder.
    #[error("version {version} is not in {}: found {available:?}; name one of these", path.display())]
    VersionNotFound {
        /// The table folder.
        path: PathBuf,
        /// The asked version.
        version: u64,
        /// The versions that are there, ascending.
        available: Vec<u64>,
    },
    /// A file does not hold what its format or its manifest says.
    #[error(
        "{} is damaged: {what}: expected {expected}, found {found}; restore this version from a copy or build it again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The field or section that is wrong.
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A mapped file lost bytes while it was served.
    #[error(
        "{} was cut while it was served; activate another version, or restore this one and restart",
        path.display()
    )]
    Cut {
        /// The file.
        path: PathBuf,
    },
    /// The file is whole, but of a format this build does not read.
    #[error(
        "{} has format {found}, this build reads formats 1 to {expected}; use a newer millpond or build the table again",
        path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// The newest format this build reads.
        expected: u32,
        /// The format of the file.
        found: u32,
    },
    /// A version could not be written to its end, and what is whole of it stays.
    #[error(
        "{source}; what is built so far stays in {}, and the same build goes on from there",
        path.display()
    )]
    Left {
        /// The folder of the unfinished version.
        path: PathBuf,
        /// What went wrong.
        source: Box<Error>,
    },
    /// The log of an overlay.
    #[error(transparent)]
    OverlayLog(millpond_wal::Error),
    /// An overlay does not go with a table.
    #[error("overlay {}: {problem}", path.display())]
    Overlay {
        /// The folder of its log.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// An argument is outside its limits.
    #[error("{name}: expected {expected}, found {found}")]
    Argument {
        /// The argument.
        name: &'static str,
        /// Its limits.
        expected: String,
        /// What was given.
        found: String,
    },
    /// An upsert has more than fits one record of the log.
    #[error("keys: expected at most {max} bytes of rows and keys in a call, found {bytes}; send fewer keys")]
    TooLarge {
        /// What its rows and keys take.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A delta cannot be opened on its base.
    #[error(
        "{} is a delta on version {version}, which does not go with it: {problem}; restore that version, or build this one again",
        path.display()
    )]
    Base {
        /// The delta's manifest.
        path: PathBuf,
        /// The version that it was built on.
        version: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A version cannot go while a delta stands on it.
    #[error(
        "version {version} in {} is the base of version {delta}; delete that one first, or compact it with `millpond features \
         build --compact`",
        path.display()
    )]
    IsBase {
        /// The table folder.
        path: PathBuf,
        /// The base.
        version: u64,
        /// The lowest delta on it.
        delta: u64,
    },
    /// A start serves the version, so it cannot go.
    #[error(
        "version {version} in {} is the active one, which a start serves; activate another one first",
        path.display()
    )]
    IsActive {
        /// The table folder.
        path: PathBuf,
        /// The version.
        version: u64,
    },
    /// Folded upserts would go with the version.
    #[error(
        "{0}; to delete it and them nevertheless, say --lose-upserts, or lose_upserts where features.delete is called"
    )]
    LosesUpserts(Lost),
    /// `ACTIVE` names no version that can be served.
    #[error(
        "{} says which version to serve, and cannot be followed: {problem}; write it anew with `millpond features activate`, \
         or remove it to serve the highest version",
        path.display()
    )]
    Active {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No version was served before.
    #[error("nothing was active before in {}, so there is nothing to roll back; name a version to activate", path.display())]
    NothingBefore {
        /// The table folder.
        path: PathBuf,
    },
    /// A version of this number is there already; versions never change.
    #[error("version {version} is already in {}; choose another number or remove that folder", path.display())]
    VersionExists {
        /// The table folder.
        path: PathBuf,
        /// The number.
        version: u64,
    },
    /// The same key was written twice.
    #[error("key {key} is there twice; keep one row a key")]
    DuplicateKey {
        /// The key.
        key: u64,
    },
    /// Two texts have the same key, so one row would answer for both.
    #[error(
        "the texts {first:?} and {second:?} have the same key, {key}; change one of them, or the slot that they are hashed in (--slot)"
    )]
    Collision {
        /// The key.
        key: u64,
        /// The text that came first.
        first: String,
        /// The other.
        second: String,
    },
    /// A row holds NaN, an infinity, a number that becomes one in the type of its column, or no byte where its column has bytes.
    #[error(
        "key {key}: value {position} of its row is {value}; expected a finite number that its column's type can hold"
    )]
    NotFinite {
        /// The key of the row.
        key: u64,
        /// Where in the row, from 0.
        position: usize,
        /// The value.
        value: f32,
    },
    /// The keys of a shard have no arrangement, which only keys that were chosen for it can bring about.
    #[error("{} cannot be written: its {rows} keys have no arrangement; use another number of shards", path.display())]
    NoArrangement {
        /// The shard file.
        path: PathBuf,
        /// Its rows.
        rows: u64,
    },
    /// A row is longer than a row may be, or has bytes where its column has numbers.
    #[error("key {key}, column {column:?}: expected {expected}, found {found}")]
    Cell {
        /// The key of the row.
        key: u64,
        /// The column.
        column: String,
        /// What the column can hold.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A row has not the table's dimension.
    #[error("key {key}: its row has {found} values, expected {expected}")]
    Dim {
        /// The key of the row.
        key: u64,
        /// The table's dimension.
        expected: usize,
        /// The length of the row.
        found: usize,
    },
}

impl Error {
    /// Whether the process or the machine had no more files or memory to give: it says nothing of the table.
    pub fn is_out_of_resources(&self) -> bool {
        match self {
            Error::Io { source, .. } => {
                let wanting = [libc::EMFILE, libc::ENFILE, libc::ENOMEM];
                source.raw_os_error().is_some_and(|code| wanting.contains(&code))
            }
            Error::Left { source, .. } => source.is_out_of_resources(),
            _ => false,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io {
            action,
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn damaged(
        path: &Path,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Error {
        Error::Damaged {
            path: path.to_path_buf(),
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    pub(crate) fn argument(name: &'static str, expected: impl ToString, found: impl ToString) -> Error {
        Error::Argument {
            name,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}
