//! The keys in memory, in order.
//!
//! Not durable and not aware of conditions. Behind this module's few methods so that a better index
//! can take the map's place. Invariant: one `apply` becomes visible to readers as a whole, and no
//! lock is held across a call of a stranger's code.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::scan::Range;

/// A value and the version at which it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// The bytes as they were put; shared, never copied on reading.
    pub value: Arc<[u8]>,
    /// Counts up over the whole store, from 1.
    pub version: u64,
}

pub(crate) type Entry = (Arc<[u8]>, Versioned);

/// What a scan copies out under one read lock: references, not bytes.
pub(crate) struct Chunk {
    pub entries: Vec<Entry>,
    /// The key behind the last entry, if it lies in the range.
    pub next: Option<Arc<[u8]>>,
}

/// What an entry takes beside its key's and value's bytes: its place in the tree (93 bytes where keys come in ascending order, which
/// leaves nodes half empty), and of key and value each a counter, a size class's rest and the allocator's own.
pub(crate) const ENTRY_OVERHEAD_BYTES: u64 = 160;

/// Memory that an entry takes.
pub(crate) fn entry_bytes(key: &[u8], value: &[u8]) -> u64 {
    key.len() as u64 + value.len() as u64 + ENTRY_OVERHEAD_BYTES
}

#[derive(Default)]
pub(crate) struct Index {
    map: RwLock<Map>,
}

#[derive(Default)]
struct Map {
    entries: BTreeMap<Arc<[u8]>, Versioned>,
    /// The sum of their `entry_bytes`.
    bytes: u64,
}

// A poisoned lock is taken as it is: the only code that runs under the lock is the map's own.
impl Index {
    pub fn get(&self, key: &[u8]) -> Option<Versioned> {
        self.read().entries.get(key).cloned()
    }

    /// The key's version, 0 if absent.
    pub fn version(&self, key: &[u8]) -> u64 {
        self.read().entries.get(key).map_or(0, |found| found.version)
    }

    pub fn len(&self) -> usize {
        self.read().entries.len()
    }

    /// Memory that the entries take.
    pub fn bytes(&self) -> u64 {
        self.read().bytes
    }

    /// Memory that the key's entry takes, 0 if absent.
    pub fn bytes_of(&self, key: &[u8]) -> u64 {
        let found = self.get(key);
        found.map_or(0, |found| entry_bytes(key, &found.value))
    }

    /// Up to `entries_max` entries from the range's start, and the key that follows them.
    pub fn chunk(&self, range: &Range, entries_max: usize) -> Chunk {
        let map = self.read();
        let mut walk = map.entries.range::<[u8], _>(range.bounds());
        let entries = walk
            .by_ref()
            .take(entries_max)
            .map(|(key, found)| (key.clone(), found.clone()))
            .collect();
        let next = walk.next().map(|(key, _)| key.clone());
        Chunk { entries, next }
    }

    /// Writes the entries in order, under one write lock.
    pub fn apply(&self, entries: Vec<Entry>) {
        // Freeing replaced values can take long; it waits until the lock is gone.
        let mut replaced = Vec::with_capacity(entries.len());
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        for (key, versioned) in entries {
            let (key_bytes, value_bytes) = (key.len() as u64, versioned.value.len() as u64);
            let before = map.entries.insert(key, versioned);
            map.bytes += match &before {
                Some(_) => value_bytes,
                None => key_bytes + value_bytes + ENTRY_OVERHEAD_BYTES,
            };
            map.bytes -= before.as_ref().map_or(0, |before| before.value.len() as u64);
            replaced.push(before);
        }
        drop(map);
        drop(replaced);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}
