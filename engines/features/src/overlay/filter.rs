//! Which keys fresh rows may be of: a bit a key, which says of most keys that are not there that they are not.
//!
//! Forgets no key: the index makes another. Invariant: a key that was added is never turned away.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits for each key that is expected. Of keys that are not there one in 16 passes by chance once all are added. Two bits a key would
/// let fewer pass, and cost lookups more than those few do.
const BITS_A_KEY: usize = 16;

/// Bits by the hashes of keys.
pub(super) struct Filter {
    words: Box<[AtomicU64]>,
}

impl Filter {
    /// For so many keys.
    pub(super) fn new(keys: usize) -> Filter {
        let words = (keys * BITS_A_KEY).div_ceil(u64::BITS as usize).max(1);
        Filter {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The word of a key, by the hash that it has in the format; its bit there is by the lowest bits. Who chooses keys that pass has them
    /// looked for as if there were no filter.
    #[inline(always)]
    fn word(&self, hash: u64) -> Option<&AtomicU64> {
        let at = ((hash >> 32) * self.words.len() as u64) >> 32;
        self.words.get(at as usize)
    }

    /// Whether it may have been added.
    #[inline(always)]
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let word = self.word(hash).map_or(0, |word| word.load(Ordering::Relaxed));
        word >> (hash & 63) & 1 == 1
    }

    /// The writer's.
    pub(super) fn add(&self, hash: u64) {
        if let Some(word) = self.word(hash) {
            word.store(word.load(Ordering::Relaxed) | 1 << (hash & 63), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;

    #[test]
    fn what_was_added_passes_and_few_others_do() {
        let filter = Filter::new(4096);
        (0..4096).for_each(|key| filter.add(hash(key)));
        assert!((0..4096).all(|key| filter.may_have(hash(key))));
        let others = (5000..105_000).filter(|key| filter.may_have(hash(*key)));
        let passed = others.count();
        assert!((4000..8000).contains(&passed), "{passed}");
    }

    #[test]
    fn the_smallest_has_room() {
        let filter = Filter::new(0);
        assert!(!filter.may_have(u64::MAX) && !filter.may_have(0));
        filter.add(u64::MAX);
        assert!(filter.may_have(u64::MAX) && !filter.may_have(0));
    }
}
