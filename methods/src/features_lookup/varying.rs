//! Rows of bytes that vary in length, on their way to an answer.
//! Its invariant: their bytes are counted against the limit before any are copied.

use super::check_bytes;
use millpond_engines_features::{FoundRows, Table};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::{Status, features_lookup as schema};

/// Rows that were found.
pub(super) struct Varying<'c> {
    /// The bitmap.
    found: Vec<u8>,
    rows: FoundRows<'c>,
    /// The offsets and the rows, where they are copied already.
    copied: Option<(Vec<u8>, Vec<u8>)>,
}

impl<'c> Varying<'c> {
    /// Finds the rows; `bytes` is what the answer holds so far.
    pub(super) fn find(
        table: &'c Table,
        keys: &[u64],
        bytes: &mut usize,
        limit: usize,
    ) -> Result<Varying<'c>, Status> {
        let mut found = vec![0; keys.len().div_ceil(8)];
        let begun = table.begin();
        let limit = limit.min(u32::MAX as usize);
        let rows = table.find_rows(keys, &mut found, limit as u64);
        let rows_bytes = usize::try_from(rows.bytes()).unwrap_or(usize::MAX);
        *bytes = bytes
            .saturating_add(rows_bytes)
            .saturating_add((keys.len() + 1) * size_of::<u32>());
        check_bytes(*bytes, limit)?;
        table.count(begun, keys.len(), rows.hits());
        let copied = None;
        Ok(Varying { found, rows, copied })
    }

    /// Copies the rows of a table whose files may be cut, so that they are answered only if they were whole.
    pub(super) fn copy(&mut self, keys: usize) {
        let mut offsets = vec![0; (keys + 1) * size_of::<u32>()];
        let mut values = vec![0; self.rows.bytes() as usize];
        self.rows.write(&mut offsets, &mut values);
        self.copied = Some((offsets, values));
    }

    /// The bitmap, the rows and where each one begins and the last ends, to be kept by whoever writes them later.
    pub(super) fn take(&mut self, keys: usize) -> (Vec<u8>, Vec<u8>, Vec<u32>) {
        if self.copied.is_none() {
            self.copy(keys);
        }
        let (offsets, rows) = self.copied.take().unwrap_or_default();
        let offsets = offsets.as_chunks().0.iter();
        let offsets = offsets.map(|end| u32::from_le_bytes(*end)).collect();
        (std::mem::take(&mut self.found), rows, offsets)
    }

    pub(super) fn write(&self, header: schema::Header<'_>, out: &mut Encoder<'_>) {
        let bytes = self.rows.bytes() as usize;
        header.write_varying(bytes, out, |found, offsets, values| {
            found.copy_from_slice(&self.found);
            match &self.copied {
                Some((ends, rows)) => {
                    offsets.copy_from_slice(ends);
                    values.copy_from_slice(rows);
                }
                None => self.rows.write(offsets, values),
            }
        });
    }
}
