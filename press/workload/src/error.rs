//! Why requests or their schedule could not be made.
//!
//! No caller does anything about one but show it. Its invariant: every message names what was given, what is possible and so what
//! to change.

use std::fmt::Display;

use crate::{ARRIVALS_MAX, BYTES_MAX};

/// Why a set of requests or a schedule could not be made, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error(message.into())
    }

    /// An impossible setting of a mix or a schedule: the key with its table where that tells more, `sizes.pareto.shape`.
    pub(crate) fn setting(key: impl Display, found: impl Display, expected: impl Display) -> Error {
        Error(format!("{key} is {found}, expected {expected}"))
    }

    /// A set of requests, a file or a generator's, that would not fit the bound on memory.
    pub(crate) fn too_large(what: impl Display) -> Error {
        Error(format!(
            "{what} needs more than {BYTES_MAX} bytes of memory; use fewer or smaller requests"
        ))
    }

    /// A schedule of more arrivals than there may be, by its mean rate.
    pub(crate) fn too_many_arrivals(rate_per_s: f64, length_s: f64) -> Error {
        Error(format!(
            "a rate of {rate_per_s} a second over {length_s} s makes more than {ARRIVALS_MAX} arrivals; lower the rate or the length"
        ))
    }
}
