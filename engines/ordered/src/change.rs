//! What a write that was accepted changes, for the index and for the log.
//!
//! Invariants: the last change of a key in a write has what the key holds behind the write; each change has what the log needs.

use crate::tree::{Change, Content};

/// A key, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changed {
    pub key: Vec<u8>,
    /// What it holds from then on.
    pub held: Held,
    /// What the log has in place of that.
    pub edit: Option<Edit>,
    /// Milliseconds of Unix time; 0 where it does not expire.
    pub expires_ms: u64,
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    Nothing,
    Bytes(Vec<u8>),
    /// As `list` has it.
    List(Vec<u8>),
    /// A later change of the same write has what it holds then; this one has an edit.
    Later,
}

/// How a change follows from what the key held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    /// It held nothing, and holds this list.
    NewList(Vec<u8>),
    /// Items, encoded, are behind those of a list, of which the newest are left.
    Append { items: Vec<u8>, keep: u32 },
    /// Items of a list are left behind some that are older.
    Trim { older: u32, kept: u32 },
    /// Bytes are behind those that it held.
    Concatenate(Vec<u8>),
    /// It holds what it held, and lasts otherwise.
    Expire,
}

impl Changed {
    pub fn removed(key: Vec<u8>) -> Changed {
        Changed {
            key,
            held: Held::Nothing,
            edit: None,
            expires_ms: 0,
        }
    }

    pub fn put(key: Vec<u8>, value: Vec<u8>, expires_ms: u64) -> Changed {
        Changed {
            key,
            held: Held::Bytes(value),
            edit: None,
            expires_ms,
        }
    }

    /// Whether the key is there from then on.
    pub fn is_there(&self) -> bool {
        self.held != Held::Nothing
    }

    /// For the index.
    pub fn change(&self, version: u64) -> Change<'_> {
        let (value, is_list) = match &self.held {
            Held::Bytes(value) => (value, false),
            Held::List(value) => (value, true),
            // Of the changes of a key in one write the last is made.
            Held::Nothing | Held::Later => return Change::Remove(&self.key),
        };
        Change::Set(Content {
            key: &self.key,
            value,
            version,
            expires_ms: self.expires_ms,
            is_list,
        })
    }

    /// Bytes of the value that the key holds from then on, as far as this change knows it.
    pub fn value_bytes(&self) -> Option<usize> {
        match &self.held {
            Held::Nothing => Some(0),
            Held::Bytes(value) | Held::List(value) => Some(value.len()),
            Held::Later => None,
        }
    }
}
