//! Copies of upserts that this node's log has, by the bucket map that they were split by.
//!
//! A node that gets buckets by a new map takes their fresh rows from the nodes that had them. A copy by the map before that
//! still waits for the log then would be on none of its pages, so no page is given as long as there is one. It knows no rows. Its invariant: a copy is
//! counted before its map is held against the one in use, so that whoever goes by a newer map sees it, or it is refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts the copies of upserts that wait for this node's log, by the version of their map.
#[derive(Debug, Default)]
pub struct Copies {
    /// How many there are by a map of that version; no entry is 0.
    by_map: Mutex<BTreeMap<u64, usize>>,
}

/// One of them, until it is dropped: once its rows are there, or will not be.
#[derive(Debug)]
pub struct CopyUnderWay {
    copies: Arc<Copies>,
    map: u64,
}

impl Copies {
    /// Counts one that was split by the map of that version. Only then its map is to be held against the one in use.
    pub fn enter(self: &Arc<Copies>, map: u64) -> CopyUnderWay {
        *self.by_map().entry(map).or_default() += 1;
        CopyUnderWay {
            copies: Arc::clone(self),
            map,
        }
    }

    /// Whether some were split by a map before that version, which this node goes by already: then no further ones come.
    pub fn has_older(&self, map: u64) -> bool {
        self.by_map().range(..map).next().is_some()
    }

    fn by_map(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.by_map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CopyUnderWay {
    fn drop(&mut self) {
        let mut by_map = self.copies.by_map();
        if let Some(count) = by_map.get_mut(&self.map) {
            *count -= 1;
            if *count == 0 {
                by_map.remove(&self.map);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_by_older_maps_are_seen_until_the_last_has_ended() {
        let copies = Arc::new(Copies::default());
        let first = copies.enter(1);
        let second = copies.enter(1);
        let third = copies.enter(2);
        assert!(!copies.has_older(1) && copies.has_older(2) && copies.has_older(9));
        drop(first);
        assert!(copies.has_older(2));
        drop(second);
        assert!(!copies.has_older(2) && copies.has_older(3));
        drop(third);
        assert!(!copies.has_older(3));
    }
}
