//! Removals of keys that a delta's base lacks.
//!
//! They have no slot in the shard, because there is nothing to remove; they only count against rows that were pushed for the same key.
//! Invariant: memory grows with these removals and with the keys that have both, not with the rows.

use std::collections::HashMap;

use super::arrange::{Keys, Slots};
use crate::error::Error;
use crate::header::KEY_BYTES;

/// The removals of one shard, in the order in which they came.
#[derive(Default)]
pub(super) struct Removals {
    /// Each key, and how many rows the shard had before the removal.
    all: Vec<(u64, u64)>,
}

/// Of one key: its removal that counts, and its row that counts.
struct Rivals {
    rows_before: u64,
    row: Option<u64>,
}

impl Removals {
    pub(super) fn push(&mut self, key: u64, rows_before: u64) {
        self.all.push((key, rows_before));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The keys that have a row too, in their order. `keys` are those of all rows, folded.
    pub(super) fn with_rows(&self, keys: &Keys) -> Vec<u64> {
        let removed = self.all.iter().map(|(key, _)| *key);
        let mut with_rows: Vec<u64> = removed.filter(|key| keys.has(*key)).collect();
        with_rows.sort_unstable();
        with_rows.dedup();
        with_rows
    }

    /// Which of the keys `with_rows` stay removed, in their order, where the first or the last of the rows and removals of a key stays.
    /// Reads the rows once, unless there is no such key.
    ///
    /// # Errors
    /// Those of reading the rows.
    pub(super) fn that_stay(
        self,
        with_rows: Vec<u64>,
        keep_first: bool,
        slot_bytes: usize,
        slots: &mut Slots<'_>,
    ) -> Result<Vec<u64>, Error> {
        if with_rows.is_empty() {
            return Ok(with_rows);
        }
        let mut rivals: HashMap<u64, Rivals> = HashMap::with_capacity(with_rows.len());
        for (key, rows_before) in self.all {
            if with_rows.binary_search(&key).is_err() {
                continue;
            }
            let row = None;
            let rival = rivals.entry(key).or_insert(Rivals { rows_before, row });
            if !keep_first {
                rival.rows_before = rows_before;
            }
        }
        let mut number = 0;
        slots(&mut |slots| {
            for slot in slots.chunks_exact(slot_bytes) {
                if let Some(rival) = key_of_slot(slot).and_then(|key| rivals.get_mut(&key))
                    && !(keep_first && rival.row.is_some())
                {
                    rival.row = Some(number);
                }
                number += 1;
            }
        })?;
        let stays = |key: &u64| {
            let Some(Rivals {
                rows_before,
                row: Some(row),
            }) = rivals.get(key)
            else {
                return false;
            };
            match keep_first {
                true => rows_before <= row,
                false => rows_before > row,
            }
        };
        Ok(with_rows.into_iter().filter(stays).collect())
    }
}

/// The key that a slot begins with.
pub(super) fn key_of_slot(slot: &[u8]) -> Option<u64> {
    let key: &[u8; KEY_BYTES] = slot.first_chunk()?;
    Some(u64::from_le_bytes(*key))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Rows (`true`) and removals as they come, and the keys that stay removed where the first stays, and where the last does.
    fn check(changes: &[(u64, bool)], first: &[u64], last: &[u64]) {
        for (keep_first, expected) in [(true, first), (false, last)] {
            let (mut removals, mut keys, mut rows) = (Removals::default(), Keys::default(), Vec::new());
            for &(key, is_row) in changes {
                match is_row {
                    true => {
                        keys.push(key);
                        rows.push(key);
                    }
                    false => removals.push(key, rows.len() as u64),
                }
            }
            keys.fold();
            let with_rows = removals.with_rows(&keys);
            let mut slots = |visit: &mut dyn FnMut(&[u8])| {
                rows.iter().for_each(|key| visit(&key.to_le_bytes()));
                Ok(())
            };
            let stay = removals
                .that_stay(with_rows, keep_first, KEY_BYTES, &mut slots)
                .unwrap();
            assert_eq!(stay, expected, "{changes:?}, keep_first {keep_first}");
        }
    }

    #[test]
    fn the_first_or_the_last_of_rows_and_removals_counts() {
        check(&[], &[], &[]);
        check(&[(5, false)], &[], &[]);
        check(&[(5, true)], &[], &[]);
        check(&[(5, true), (5, false)], &[], &[5]);
        check(&[(5, false), (5, true)], &[5], &[]);
        check(&[(5, true), (5, false), (5, true)], &[], &[]);
        check(&[(5, false), (5, true), (5, false)], &[5], &[5]);
        check(&[(5, true), (5, true), (5, false), (5, false)], &[], &[5]);
        check(
            &[
                (9, true),
                (1, true),
                (9, false),
                (2, false),
                (1, false),
                (7, true),
            ],
            &[],
            &[1, 9],
        );
        check(
            &[(9, false), (1, true), (9, true), (1, false), (1, true)],
            &[9],
            &[],
        );
    }
}
