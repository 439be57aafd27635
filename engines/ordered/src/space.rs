//! How much memory a store's entries may take, and whether a put fits.
//!
//! Not the queue and not the log's buffer, which have bounds of their own. Invariant: no put that makes the entries grow takes them
//! beyond the limit, and one that does not make them grow is never refused for it.

use std::collections::HashMap;

use crate::index::{Index, entry_bytes};
use crate::put::{Put, PutError};

/// What one group may still take.
pub(crate) struct Space<'a> {
    index: &'a Index,
    bytes_max: u64,
    /// Before the group.
    bytes_before: u64,
    /// With those of its puts that were accepted.
    bytes: u64,
    /// Of the keys that these write.
    written: HashMap<Vec<u8>, u64>,
}

impl<'a> Space<'a> {
    /// For a group of these puts; `None` where all of them fit whatever they replace.
    pub fn of_group<'p>(
        index: &'a Index,
        bytes_max: Option<u64>,
        group: impl Iterator<Item = &'p Put>,
    ) -> Option<Space<'a>> {
        let bytes_max = bytes_max?;
        let bytes = index.bytes();
        let new: u64 = group
            .flat_map(|put| &put.entries)
            .map(|(key, value)| entry_bytes(key, value))
            .sum();
        (bytes.saturating_add(new) > bytes_max).then(|| Space {
            index,
            bytes_max,
            bytes_before: bytes,
            bytes,
            written: HashMap::new(),
        })
    }

    /// Takes what the put needs, or says why not, and whether it would have fitted without the group's other puts.
    pub fn take(&mut self, put: &Put) -> Result<(), (PutError, bool)> {
        let mut sizes: HashMap<&[u8], u64> = HashMap::new();
        let (mut grown, mut freed) = (0, 0);
        for (key, value) in &put.entries {
            let size = entry_bytes(key, value);
            let before = sizes.insert(key, size);
            let before = before.or_else(|| self.written.get(key).copied());
            freed += before.unwrap_or_else(|| self.index.bytes_of(key));
            grown += size;
        }
        let after = self.bytes + grown - freed.min(self.bytes + grown);
        if grown > freed && after > self.bytes_max {
            let error = PutError::Full {
                bytes: self.bytes,
                more: grown - freed,
                max: self.bytes_max,
            };
            let fitted_before = self.bytes_before + (grown - freed) <= self.bytes_max;
            return Err((error, fitted_before));
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
