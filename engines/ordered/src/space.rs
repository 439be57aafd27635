//! How much memory a store's entries may take, and whether a write fits.
//!
//! Not the queue and not the log's buffer, which have bounds of their own. Invariants: no write that makes the entries grow takes them
//! beyond the limit, or further beyond it, and one that does not is never refused for it; nothing gives way to a write that is refused, nor
//! what the group has written.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::change::Changed;
use crate::error::WriteError;
use crate::eviction::{EVICTED_MAX, Eviction, Room, Victims, Wanted};
use crate::index::{Index, entry_bytes};
use crate::judge::Refusal;
use crate::write::Write;

/// What one group may still take.
pub(crate) struct Space<'a> {
    index: &'a Index,
    room: &'a Room,
    bytes_max: u64,
    /// Before the group.
    bytes_before: u64,
    /// With those of its writes that were accepted.
    bytes: u64,
    /// Of the keys that these change, and of those that gave way.
    written: HashMap<Vec<u8>, u64>,
    /// What these took, whatever they replaced.
    written_bytes: u64,
}

/// A write that is accepted, as far as its space goes.
pub(crate) struct Taking<'w> {
    pub changes: &'w [Changed],
    /// Keys that it looks at, beside those that it changes.
    pub touched: &'w HashSet<Vec<u8>>,
    pub now_ms: u64,
}

impl<'a> Space<'a> {
    /// For a group of these writes; `None` where all of them fit whatever they replace.
    pub fn of_group<'w>(
        index: &'a Index,
        room: &'a Room,
        group: impl Iterator<Item = &'w Write>,
    ) -> Option<Space<'a>> {
        let bytes_max = room.bytes_max?;
        let bytes = index.bytes();
        let new: u64 = group.map(new_bytes).sum();
        (bytes.saturating_add(new) > bytes_max).then(|| Space {
            index,
            room,
            bytes_max,
            bytes_before: bytes,
            bytes,
            written: HashMap::new(),
            written_bytes: 0,
        })
    }

    /// Whether the group has written so much of what the store may hold that those behind it may find too little that may give way.
    pub fn has_written_much(&self) -> bool {
        let much = (self.bytes_max / 4).max(1);
        self.room.eviction != Eviction::None && self.written_bytes >= much
    }

    /// Whether what the group has written keeps entries from giving way that would for a write alone.
    pub fn keeps_some(&self) -> bool {
        self.room.eviction != Eviction::None && !self.written.is_empty()
    }

    /// Whether a write may need that others give way.
    pub fn may_be_short_for(&self, write: &Write) -> bool {
        self.bytes.saturating_add(new_bytes(write)) > self.bytes_max
    }

    /// Whether the group has removed a key to make room. What is written to it later is known to the group before.
    pub fn has_evicted(&self, key: &[u8]) -> bool {
        self.written.get(key) == Some(&0)
    }

    /// Takes what the changes of a write need; the keys that give way to it, or why it cannot be had.
    pub fn take(&mut self, taking: &Taking<'_>) -> Result<BTreeSet<Vec<u8>>, Refusal> {
        let mut sizes: HashMap<&[u8], u64> = HashMap::new();
        let (mut grown, mut freed) = (0, 0);
        for changed in taking.changes {
            let Some(value_bytes) = changed.value_bytes() else {
                continue;
            };
            let key = changed.key.as_slice();
            let size = match changed.is_there() {
                true => entry_bytes(key.len(), value_bytes, changed.expires_ms),
                false => 0,
            };
            let before = sizes.insert(key, size);
            let before = before.or_else(|| self.written.get(key).copied());
            freed += before.unwrap_or_else(|| self.index.bytes_of(key));
            grown += size;
        }
        let after = self.bytes + grown - freed.min(self.bytes + grown);
        let beyond = after.saturating_sub(self.bytes_max);
        // Where there was more than may be before the write, it makes room for itself alone.
        let missing = beyond.min(grown.saturating_sub(freed));
        let victims = self.victims(missing, &sizes, taking);
        if victims.bytes < missing {
            return Err(Refusal {
                error: WriteError::Full {
                    bytes: self.bytes,
                    more: grown - freed,
                    max: self.bytes_max,
                },
                // Without the group's other writes it may have fitted.
                met_group: self.bytes_before + (grown - freed) <= self.bytes_max,
            });
        }
        let sizes: Vec<(Vec<u8>, u64)> = sizes
            .into_iter()
            .map(|(key, size)| (key.to_vec(), size))
            .collect();
        self.written.extend(sizes);
        self.written
            .extend(victims.keys.iter().map(|key| (key.clone(), 0)));
        self.bytes = after - victims.bytes;
        self.written_bytes += grown;
        Ok(victims.keys)
    }

    /// What gives way for so many bytes.
    fn victims(&self, missing: u64, sizes: &HashMap<&[u8], u64>, taking: &Taking<'_>) -> Victims {
        let wanted = Wanted {
            bytes: missing,
            entries_max: EVICTED_MAX,
            now_ms: taking.now_ms,
        };
        if !self.room.may_find(self.index, missing) {
            return Victims::default();
        }
        let may = |key: &[u8]| {
            !sizes.contains_key(key) && !self.written.contains_key(key) && !taking.touched.contains(key)
        };
        Victims::draw(self.index, self.room, &wanted, may)
    }
}

/// Memory that others have to give up for a write, at most, where they do.
pub(crate) fn lacking(index: &Index, room: &Room, write: &Write) -> u64 {
    match room.bytes_max {
        Some(bytes_max) if room.eviction != Eviction::None => {
            let new = new_bytes(write);
            (index.bytes().saturating_add(new))
                .saturating_sub(bytes_max)
                .min(new)
        }
        _ => 0,
    }
}

/// Memory that a write takes at most, beside values that stay.
fn new_bytes(write: &Write) -> u64 {
    // As if all expired.
    let bytes = |key: &[u8], value: usize| entry_bytes(key.len(), value, 1);
    match write {
        Write::Put(put) => put
            .entries
            .iter()
            .map(|(key, value)| bytes(key, value.len()))
            .sum(),
        Write::Batch(batch) => {
            let operations = batch.operations.iter();
            operations
                .map(|operation| bytes(operation.key(), operation.value_bytes()))
                .sum()
        }
    }
}
