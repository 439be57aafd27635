//! A put: what is written, and under which conditions.
//!
//! Not how it is written (`commit`, `record`). Invariant: a put that passes [`Put::check`] fits in one
//! record of the log.

use crate::error::{WriteError, at_most, check_ttl};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 8 << 20;
/// The most bytes one put may carry: its keys and values, and 8 for each entry, 16 where it expires.
pub const PUT_BYTES_MAX: usize = 16 << 20;
/// The most entries one put may carry.
pub const PUT_ENTRIES_MAX: usize = 64 << 10;

/// One atomic write: all its entries or none, for readers and across a crash.
///
/// All conditions are tested against every entry's key before the first entry is written. An
/// absent key has version 0, so `if_version: Some(0)` says the same as `if_absent`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Put {
    /// Keys and values, written in this order; of a repeated key the last one stays.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Write only if every key is at this version.
    pub if_version: Option<u64>,
    /// Write only if no key is there yet.
    pub if_absent: bool,
    /// Write only if every key is there.
    pub if_present: bool,
    /// How long the entries last, in milliseconds; for good where it is `None`, whatever they did before.
    pub ttl_ms: Option<u64>,
    /// Where `ttl_ms` is `None`: each entry lasts as long as what its key held before.
    pub keep_ttl: bool,
}

impl Put {
    /// Bytes of the entries as the log writes them.
    pub(crate) fn entries_bytes(&self) -> usize {
        let may_expire = self.ttl_ms.is_some() || self.keep_ttl;
        let each = 8 + if may_expire { 8 } else { 0 };
        let entries = self.entries.iter();
        entries.map(|(key, value)| key.len() + value.len() + each).sum()
    }

    /// Whether it depends on what its keys hold.
    pub(crate) fn reads(&self) -> bool {
        self.is_conditional() || self.keeps_ttl()
    }

    pub(crate) fn is_conditional(&self) -> bool {
        self.if_absent || self.if_present || self.if_version.is_some()
    }

    pub(crate) fn keeps_ttl(&self) -> bool {
        self.keep_ttl && self.ttl_ms.is_none()
    }

    pub(crate) fn check(&self) -> Result<(), WriteError> {
        if self.entries.is_empty() {
            return Err(WriteError::Empty);
        }
        at_most("entries of the put", self.entries.len(), PUT_ENTRIES_MAX)?;
        for (key, value) in &self.entries {
            at_most("bytes of a key", key.len(), KEY_BYTES_MAX)?;
            at_most("bytes of a value", value.len(), VALUE_BYTES_MAX)?;
        }
        check_ttl(self.ttl_ms)?;
        at_most("bytes of the put", self.entries_bytes(), PUT_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn check(entries: &[(usize, usize)], expected: &str) {
        let put = Put {
            entries: entries
                .iter()
                .map(|&(key, value)| (vec![b'k'; key], vec![b'v'; value]))
                .collect(),
            ..Put::default()
        };
        let found = put
            .check()
            .map_or_else(|error| error.to_string(), |()| "ok".into());
        assert_eq!(found, expected);
    }

    #[test]
    fn limits_are_inclusive() {
        check(&[(0, 0)], "ok");
        check(&[(KEY_BYTES_MAX, VALUE_BYTES_MAX)], "ok");
        check(&[], "nothing to write; send at least one entry or operation");
        check(
            &[(KEY_BYTES_MAX + 1, 0)],
            "bytes of a key: 65537, at most 65536 allowed; shorten or split it",
        );
        check(
            &[(1, 1), (0, VALUE_BYTES_MAX + 1)],
            "bytes of a value: 8388609, at most 8388608 allowed; shorten or split it",
        );
        check(&[(0, VALUE_BYTES_MAX), (0, VALUE_BYTES_MAX - 16)], "ok");
        check(
            &[(0, VALUE_BYTES_MAX), (1, VALUE_BYTES_MAX - 16)],
            "bytes of the put: 16777217, at most 16777216 allowed; shorten or split it",
        );
        check(
            &vec![(1, 0); PUT_ENTRIES_MAX + 1],
            "entries of the put: 65537, at most 65536 allowed; shorten or split it",
        );
    }
}
