//! The keys of a table, some at a time.
//!
//! A position counts the slots of all layers, the newest first; it means something in its version alone. Invariant: from
//! position to position every key of the version comes once, and a call looks at few more slots than keys are wanted.

use crate::layer::{Layer, LayerEntry};
use crate::overlay::View;
use crate::table::Table;

/// Slots that a call may look at for each key that is wanted, and beside: some are empty, and a delta's may hide or remove.
pub(crate) const SLOTS_A_KEY: u64 = 2;
pub(crate) const SLOTS_BESIDE: u64 = 1024;

impl Table {
    /// Appends to `keys` at most `keys_max` keys that lie from `position` on; 0 is the beginning. Returns where the next
    /// call goes on, or nothing at the end. Fewer keys, or none, may come before the end.
    ///
    /// Keys that an overlay has beside come last. One that is upserted or removed meanwhile may come, or not.
    pub fn scan(&self, position: u64, keys_max: usize, keys: &mut Vec<u64>) -> Option<u64> {
        match self.view.as_ref().and_then(View::now) {
            Some(now) => self.scan_fresh(&now, position, keys_max, keys),
            None if Table::is_beyond(position) => None,
            None => self.scan_version(position, keys_max, keys),
        }
    }

    /// The keys of the version alone.
    pub(crate) fn scan_version(&self, position: u64, keys_max: usize, keys: &mut Vec<u64>) -> Option<u64> {
        let (mut begin, mut at) = (0_u64, position);
        let mut keys_left = keys_max as u64;
        let mut slots_left = keys_left.saturating_mul(SLOTS_A_KEY).saturating_add(SLOTS_BESIDE);
        for (layer, newer) in self.layers().iter().enumerate().map(|(number, layer)| {
            let newer = self.layers().get(..number).unwrap_or_default();
            (layer, newer)
        }) {
            for shard in &layer.shards {
                let view = shard.view();
                let end = begin + view.slots();
                while at < end {
                    if keys_left == 0 || slots_left == 0 {
                        return Some(at);
                    }
                    if let Some((key, row)) = view.entry(at - begin)
                        && matches!(layer.said(Some(row)), LayerEntry::Row(_))
                        && newer.iter().all(|newer| says_nothing(newer, key))
                    {
                        keys.push(key);
                        keys_left -= 1;
                    }
                    (at, slots_left) = (at + 1, slots_left - 1);
                }
                begin = end;
            }
        }
        None
    }
}

fn says_nothing(layer: &Layer, key: u64) -> bool {
    matches!(layer.find(key), LayerEntry::Nothing)
}
