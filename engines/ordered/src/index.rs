//! The keys in memory, in order, as the store uses them: whole puts, versions, and what they take.
//!
//! Not durable and not aware of conditions. Invariant: one put becomes visible to readers as a whole.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::scan::Range;
use crate::tree::{Content, Tree};

/// A value and the version at which it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// The bytes as they were put.
    pub value: Vec<u8>,
    /// Counts up over the whole store, from 1.
    pub version: u64,
}

/// What an entry takes at most beside its key's and value's bytes, on average: its place in a leaf that is two thirds full, and eight to
/// sixteen bytes before the key. What is longer than 512 bytes takes a sixteenth more at most.
pub(crate) const ENTRY_OVERHEAD_BYTES: u64 = 48;
/// Entries of a scan that are one view, at least.
const SCAN_ENTRIES: usize = 1024;

/// Memory that an entry takes.
pub(crate) fn entry_bytes(key: &[u8], value: &[u8]) -> u64 {
    key.len() as u64 + value.len() as u64 + ENTRY_OVERHEAD_BYTES
}

#[derive(Default)]
pub(crate) struct Index {
    tree: Tree,
    /// The sum of what entries take.
    bytes: AtomicU64,
}

impl Index {
    pub fn get(&self, key: &[u8]) -> Option<Versioned> {
        self.tree.get(key, |cell| {
            let mut value = Vec::new();
            cell.copy_value(&mut value);
            Versioned {
                value,
                version: cell.version,
            }
        })
    }

    /// The key's version, 0 if absent.
    pub fn version(&self, key: &[u8]) -> u64 {
        self.tree.get(key, |cell| cell.version).unwrap_or(0)
    }

    pub fn len(&self) -> usize {
        self.tree.len() as usize
    }

    /// Memory that the entries take.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Memory that the tree has in use.
    pub fn memory_bytes(&self) -> u64 {
        self.tree.bytes()
    }

    /// Memory that the key's entry takes, 0 if absent.
    pub fn bytes_of(&self, key: &[u8]) -> u64 {
        let bytes = self.tree.get(key, |cell| cell.bytes() as u64);
        bytes.map_or(0, |bytes| bytes + ENTRY_OVERHEAD_BYTES)
    }

    /// Visits at most `limit` entries of a range in order, 1,024 or a MiB of large values at one moment; the key behind them, if it lies in
    /// the range.
    pub fn scan(&self, range: &Range, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Option<Vec<u8>> {
        let (mut left, mut next) = (limit, None);
        self.tree.scan(
            &range.start,
            limit.saturating_add(1).min(SCAN_ENTRIES),
            |key, value, _| {
                if range.end.as_deref().is_some_and(|end| key >= end) {
                    return false;
                }
                if left == 0 {
                    next = Some(key.to_vec());
                    return false;
                }
                left -= 1;
                visit(key, value);
                true
            },
        );
        next
    }

    /// Writes the entries of a put in order, which have versions from the first one on.
    pub fn apply<B: AsRef<[u8]>>(&self, entries: &[(B, B)], first_version: u64) {
        let content = |((key, value), version)| Content { key, value, version };
        let slices = entries.iter().map(|(key, value)| (key.as_ref(), value.as_ref()));
        let mut contents = slices.zip(first_version..).map(content);
        let wrote = |content_bytes: usize, before: Option<usize>| {
            let taken = content_bytes as u64 + ENTRY_OVERHEAD_BYTES;
            let freed = before.map_or(0, |bytes| bytes as u64 + ENTRY_OVERHEAD_BYTES);
            // A difference below 0 goes around, and so does the sum.
            self.bytes.fetch_add(taken.wrapping_sub(freed), Ordering::Relaxed);
        };
        if let [(key, value)] = entries {
            let before = contents.next().and_then(|content| self.tree.put(content));
            return wrote(key.as_ref().len() + value.as_ref().len(), before);
        }
        let mut sorted: Vec<Content<'_>> = contents.collect();
        // Of a repeated key the last one stays.
        sorted.sort_by(|one, other| one.key.cmp(other.key).then(other.version.cmp(&one.version)));
        sorted.dedup_by(|later, first| later.key == first.key);
        let mut sizes = sorted
            .iter()
            .map(|content| content.key.len() + content.value.len());
        self.tree.put_all(sorted.iter().copied(), |before| {
            wrote(sizes.next().unwrap_or_default(), before)
        });
    }
}
