//! What can go wrong between a table's folder and its source. No error holds a credential.

use millpond_engines_features as features;
use std::io;
use std::path::{Path, PathBuf};

/// Why no version came.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source cannot be asked as it is configured.
    #[error("{url}: {problem}")]
    Configured {
        /// The source.
        url: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The store did not answer, or refused.
    #[error("{url} cannot be {asked}: {detail}")]
    Store {
        /// The source.
        url: String,
        /// What was asked of it.
        asked: &'static str,
        /// What it said.
        detail: String,
    },
    /// The store gave fewer or more bytes than it was asked for.
    #[error("{url} gave {found} bytes of {file} from byte {at} on, expected {expected}")]
    Short {
        /// The source.
        url: String,
        /// The file.
        file: String,
        /// The first byte that was asked for.
        at: u64,
        /// How many were.
        expected: u64,
        /// How many came.
        found: u64,
    },
    /// A version that is complete and not right: it is not fetched again before its files there change.
    #[error("version {version} of {url} is refused: {problem}")]
    Refused {
        /// The source.
        url: String,
        /// The version.
        version: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// What was left of a fetch before belongs to other files; the next one begins anew.
    #[error(
        "what was fetched of version {version} before does not belong to it any more ({problem}); it is fetched anew"
    )]
    Stale {
        /// The version.
        version: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The table's folder cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The table's folder is not one.
    #[error(transparent)]
    Table(#[from] features::Error),
    /// The caller ended it.
    #[error("the fetch was ended")]
    Stopped,
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { action, path, source }
    }
}
