//! How much memory a store's entries may take, and whether a write fits.
//!
//! Not the queue and not the log's buffer, which have bounds of their own. Invariant: no write that makes the entries grow takes them
//! beyond the limit, and one that does not make them grow is never refused for it.

use std::collections::HashMap;

use crate::change::Changed;
use crate::error::WriteError;
use crate::index::{Index, entry_bytes};
use crate::judge::Refusal;
use crate::write::Write;

/// What one group may still take.
pub(crate) struct Space<'a> {
    index: &'a Index,
    bytes_max: u64,
    /// Before the group.
    bytes_before: u64,
    /// With those of its writes that were accepted.
    bytes: u64,
    /// Of the keys that these change.
    written: HashMap<Vec<u8>, u64>,
}

impl<'a> Space<'a> {
    /// For a group of these writes; `None` where all of them fit whatever they replace.
    pub fn of_group<'w>(
        index: &'a Index,
        bytes_max: Option<u64>,
        group: impl Iterator<Item = &'w Write>,
    ) -> Option<Space<'a>> {
        let bytes_max = bytes_max?;
        let bytes = index.bytes();
        let new: u64 = group.map(new_bytes).sum();
        (bytes.saturating_add(new) > bytes_max).then(|| Space {
            index,
            bytes_max,
            bytes_before: bytes,
            bytes,
            written: HashMap::new(),
        })
    }

    /// Takes what the changes of a write need, or says why not.
    pub fn take(&mut self, changes: &[Changed]) -> Result<(), Refusal> {
        let mut sizes: HashMap<&[u8], u64> = HashMap::new();
        let (mut grown, mut freed) = (0, 0);
        for changed in changes {
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
        if grown > freed && after > self.bytes_max {
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
        self.bytes = after;
        Ok(())
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
