//! What a key is: its kind, its version, how long it lasts; and what the store has as a whole.
//!
//! It copies no value. Invariant: what is said of a key is of one moment of the call; that of several keys need not be of the same moment.

use crate::list::Kind;
use crate::{Eviction, Store};

/// A key, without its value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inspected {
    /// `None` where it is absent.
    pub kind: Option<Kind>,
    /// 0 where it is absent.
    pub version: u64,
    /// How long it lasts from now on, in milliseconds; `None` where it lasts for good, or is absent.
    pub ttl_ms: Option<u64>,
    /// Of the value; of a list those of its items.
    pub bytes: usize,
    /// Items of a list.
    pub count: Option<usize>,
}

/// What is known of a key without its value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    pub kind: Option<Kind>,
    pub version: u64,
    pub expires_ms: u64,
    /// Of its value, with what a list has beside its items.
    pub value_bytes: usize,
    /// Items of a list.
    pub count: usize,
}

impl Looked {
    /// Whether it has expired by then.
    pub fn is_over(&self, now_ms: u64) -> bool {
        crate::index::is_over(now_ms, self.expires_ms)
    }

    pub fn inspected(self, now_ms: u64) -> Inspected {
        let is_list = self.kind == Some(Kind::List);
        Inspected {
            kind: self.kind,
            version: self.version,
            ttl_ms: (self.expires_ms != 0).then(|| self.expires_ms.saturating_sub(now_ms)),
            bytes: match is_list {
                true => crate::list::content_bytes(self.value_bytes, self.count),
                false => self.value_bytes,
            },
            count: is_list.then_some(self.count),
        }
    }
}

impl Store {
    /// Keys that expire, those that have and are not removed yet among them.
    pub fn expiring(&self) -> u64 {
        self.handle.index.expiring()
    }

    /// Memory that the store's tree has taken, with what is free in it for entries to come.
    pub fn tree_bytes(&self) -> u64 {
        self.handle.index.tree_bytes()
    }

    /// What [`Store::entry_bytes`] may be at most.
    pub fn memory_bytes_max(&self) -> Option<u64> {
        self.handle.room.bytes_max
    }

    /// What gives way where the entries take as much.
    pub fn eviction(&self) -> Eviction {
        self.handle.room.eviction
    }

    /// Keys that were removed to make room since the store was opened, those among them that had expired.
    pub fn evicted(&self) -> u64 {
        self.handle.room.evicted()
    }
}
