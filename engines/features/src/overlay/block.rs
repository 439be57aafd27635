//! What lookups ask the overlay about a block of keys: most are turned away by a filter, and what it has of the others is asked for ahead.
//!
//! Judges no entry: the view does. Invariant: a key that the overlay says something of stays among those that are asked for.

use super::slots::{PinnedFilter, Sought};
use super::view::Now;
use crate::layer::LayerEntry;

/// A block of at most `KEYS` keys, 64 at most. Key i is bit i.
pub(crate) struct Block<'n, const KEYS: usize> {
    now: &'n Now<'n>,
    filter: PinnedFilter,
    /// Of those alone that are asked for.
    sought: [Sought; KEYS],
}

impl<'n, const KEYS: usize> Block<'n, KEYS> {
    pub(crate) fn new(now: &'n Now<'n>) -> Block<'n, KEYS> {
        const { assert!(KEYS <= u64::BITS as usize, "a bit for each") };
        Block {
            now,
            filter: now.slots.filter(),
            sought: [Sought::default(); KEYS],
        }
    }

    /// Asks ahead for what the overlay has of keys, by the hashes that they have in the format; those that are asked for.
    pub(crate) fn seek(&mut self, hashes: &[u64]) -> u64 {
        let slots = &*self.now.slots;
        let hashes = hashes.get(..KEYS).unwrap_or(hashes);
        let (all, filter) = (hashes.iter().rev(), &**self.filter);
        let asked = all.fold(0, |asked, hash| asked << 1 | u64::from(filter.may_have(*hash)));
        if asked == 0 {
            return 0;
        }
        for at in ones(asked) {
            if let (Some(sought), Some(hash)) = (self.sought.get_mut(at), hashes.get(at)) {
                *sought = slots.sought(slots.seed.mix(*hash));
            }
        }
        slots.candidates(&mut self.sought, asked)
    }

    /// What the overlay says of the key at the place of one of these; its row comes behind what is in `rows`, and has no bytes
    /// without `ROWS`.
    #[inline]
    pub(crate) fn said<'r, const ROWS: bool>(
        &self,
        at: usize,
        key: u64,
        rows: &'r mut Vec<u8>,
    ) -> LayerEntry<'r> {
        match self.sought.get(at) {
            Some(sought) => self.now.said_by::<ROWS>(key, *sought, rows),
            None => LayerEntry::Nothing,
        }
    }
}

/// Places of the bits that are set, the lowest first.
pub(crate) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (bits != 0).then_some(bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        at
    })
}
