//! Why a server does not start. Each case says what, where, and a hint.
//! It is not the wire's table of errors; its invariant: after one of these no port is left bound.

use thiserror::Error;

/// A start that failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The configuration.
    #[error("{place}: {problem}")]
    Config {
        /// The file, flag or variable.
        place: String,
        /// What is wrong and a hint.
        problem: String,
    },
    /// A port or a thread.
    #[error(transparent)]
    Transport(#[from] millpond_net::Error),
    /// What the catalog holds.
    #[error(transparent)]
    Catalog(#[from] millpond_catalog::Error),
    /// Parts that do not fit each other.
    #[error("{0}")]
    Unfit(String),
    /// One of several processes.
    #[error("{0}")]
    Process(String),
    /// The log's file.
    #[error(
        "log.file: cannot append to {path}: {source}; name a writable file, or leave log.file out for standard error"
    )]
    Log {
        /// The file.
        path: String,
        /// The system's words.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn config(place: &str, problem: impl Into<String>) -> Error {
        Error::Config {
            place: place.to_owned(),
            problem: problem.into(),
        }
    }
}
