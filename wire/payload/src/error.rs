//! What can be wrong with a payload; each case says what was found and what was expected.
//!
//! It decides no status code: wire/schema does. Its invariant: an error about a key names it with its path.

use crate::Encoding;
use thiserror::Error;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// Not msgpack, or not JSON.
    #[error("the payload is not valid {encoding}: {detail}")]
    Malformed {
        /// "msgpack" or "JSON".
        encoding: &'static str,
        /// What is wrong and where, for msgpack in bytes from 0; the limits that are passed have no place.
        detail: String,
    },
    /// Something other than a map at the root.
    #[error("the payload's root is {0}; expected a map")]
    RootNotMap(&'static str),
    /// Bytes after the map.
    #[error("more bytes follow the payload's map; expected one map and nothing else")]
    Trailing,
    /// A key the method needs is absent.
    #[error("key \"{key}\" is missing; expected {expected}")]
    Missing {
        /// The key, with its path.
        key: String,
        /// What belongs there.
        expected: String,
    },
    /// A key holds something else than the method takes.
    #[error("key \"{key}\" is {found}; expected {expected}")]
    Invalid {
        /// The key, with its path.
        key: String,
        /// What was found.
        found: String,
        /// What belongs there.
        expected: String,
    },
    /// A key the method does not know.
    #[error("key \"{key}\" is unknown here; known keys: {known}")]
    Unknown {
        /// The key, with its path.
        key: String,
        /// Every key that is known there.
        known: String,
    },
}

/// A payload that is not what its reader takes: a [`Problem`], in one word so that what reads well stays in registers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PayloadError(Box<Problem>);

impl PayloadError {
    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.0
    }

    /// A key that must be there; [`PayloadError::under`] adds its path.
    #[cold]
    pub fn missing(key: impl Into<String>, expected: impl Into<String>) -> PayloadError {
        let (key, expected) = (key.into(), expected.into());
        Problem::Missing { key, expected }.into()
    }

    /// A value that does not fit; [`PayloadError::under`] and [`PayloadError::at`] say where.
    #[cold]
    pub fn invalid(found: impl Into<String>, expected: impl Into<String>) -> PayloadError {
        let (key, found, expected) = (String::new(), found.into(), expected.into());
        Problem::Invalid { key, found, expected }.into()
    }

    #[cold]
    pub(crate) fn malformed(encoding: Encoding, detail: impl Into<String>) -> PayloadError {
        let encoding = match encoding {
            Encoding::Msgpack => "msgpack",
            Encoding::Json => "JSON",
        };
        let detail = detail.into();
        Problem::Malformed { encoding, detail }.into()
    }

    /// The same, of an array's item.
    #[cold]
    pub fn at(self, index: usize) -> PayloadError {
        self.under(&format!("[{index}]"))
    }

    /// The same, of what is under a key.
    #[cold]
    pub fn under(mut self, step: &str) -> PayloadError {
        if let Problem::Missing { key, .. } | Problem::Invalid { key, .. } | Problem::Unknown { key, .. } =
            &mut *self.0
        {
            let is_whole = key.is_empty() || key.starts_with('[');
            *key = format!("{step}{}{key}", if is_whole { "" } else { "." });
        }
        self
    }

    /// Whether the payload is one whole map, and one of its keys does not fit.
    pub(crate) fn is_of_a_key(&self) -> bool {
        matches!(
            *self.0,
            Problem::Missing { .. } | Problem::Invalid { .. } | Problem::Unknown { .. }
        )
    }
}

impl From<Problem> for PayloadError {
    #[cold]
    fn from(problem: Problem) -> PayloadError {
        PayloadError(Box::new(problem))
    }
}
