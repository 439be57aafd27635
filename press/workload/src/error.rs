//! Why requests or their schedule could not be made.
//!
//! Its invariant: every message names what was given, what is possible and so what to change.

use std::path::PathBuf;

use crate::{ARRIVALS_MAX, BYTES_MAX};

/// Why a set of requests or a schedule could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is absent or unreadable.
    #[error("cannot read the request file {}: {source}; give the path of a JSONL file", path.display())]
    Read {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line is not a JSON value of its own.
    #[error("{}, line {line}: not JSON ({reason}); every line must be one complete JSON body", path.display())]
    NotJson {
        /// The file as it was named.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What the parser said.
        reason: String,
    },
    /// The file holds no request.
    #[error("{} holds no request; every line must be one complete JSON body", path.display())]
    Empty {
        /// The file as it was named.
        path: PathBuf,
    },
    /// A set that is not read from a file would hold no request.
    #[error("{what} holds no request; ask for at least one")]
    NoRequests {
        /// What the set is made of.
        what: String,
    },
    /// The set would not fit the bound on memory.
    #[error("{what} needs more than {BYTES_MAX} bytes of memory; use fewer or smaller requests")]
    TooLarge {
        /// The file or the generator.
        what: String,
    },
    /// A number of the generator is impossible.
    #[error("the generator's {key} is {found}, expected {expected}")]
    BadGenerator {
        /// The key of the description.
        key: &'static str,
        /// What was given.
        found: String,
        /// What is possible.
        expected: String,
    },
    /// The generator cannot make that number of different requests.
    #[error(
        "the generator found only {found} different requests where {expected} were asked; raise ids or samples, or lower zipf"
    )]
    NotDistinct {
        /// How many there were when it gave up.
        found: usize,
        /// How many were asked for.
        expected: usize,
    },
    /// A setting of a mix or a schedule is impossible.
    #[error("{key} is {found}, expected {expected}")]
    BadSetting {
        /// The key of the description, with its table where that tells more: `sizes.pareto.shape`.
        key: String,
        /// What was given.
        found: String,
        /// What is possible.
        expected: String,
    },
    /// A schedule would hold too many arrivals.
    #[error(
        "a rate of {rate_per_s} a second over {length_s} s makes more than {ARRIVALS_MAX} arrivals; lower the rate or the length"
    )]
    TooManyArrivals {
        /// The mean rate asked for, or that of the recording, per second.
        rate_per_s: f64,
        /// The length of the run in seconds.
        length_s: f64,
    },
    /// The file of recorded arrivals is absent or unreadable.
    #[error("cannot read the recorded arrivals {}: {source}; give a text file with one time in seconds a line", path.display())]
    ReadRecording {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of a recording is no arrival time.
    #[error("{}, line {line}: found `{found}`, expected {expected}", path.display())]
    BadRecording {
        /// The file as it was named.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The line as it stands, shortened.
        found: String,
        /// What the line must be.
        expected: String,
    },
    /// A recording has no mean rate: fewer than two different times.
    #[error("{} holds {found} arrivals at one moment or none, expected at least two different times", path.display())]
    ShortRecording {
        /// The file as it was named.
        path: PathBuf,
        /// How many arrivals it holds.
        found: usize,
    },
    /// A placeholder of a template is misspelt or misused.
    #[error("placeholder `{found}`: {reason}")]
    BadPlaceholder {
        /// The placeholder as it stands.
        found: String,
        /// What is wrong and how to write it.
        reason: String,
    },
}

impl Error {
    /// An impossible setting.
    pub(crate) fn setting(
        key: impl Into<String>,
        found: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Error {
        Error::BadSetting {
            key: key.into(),
            found: found.to_string(),
            expected: expected.into(),
        }
    }
}
