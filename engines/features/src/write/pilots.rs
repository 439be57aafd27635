//! Finds the pilot of each bucket: the number that gives every key of it a slot that no other key has.
//!
//! Knows keys by their spread hashes alone. Invariant: the pilots follow from the hashes alone, and each is the lowest that fits.

use crate::hash::Places;

/// Pilots that are tried together: whether slots are free is then no question that the processor has to guess.
const TRIES: u16 = 8;
/// Hashes of a part that is put in order at a time, about as many as the nearest cache holds.
const PART: usize = 2048;
/// Parts at most.
const PARTS_BITS_MAX: u32 = 12;

/// Puts hashes, which are spread evenly, in their order.
pub(super) fn in_order(mut hashes: Vec<u64>) -> Vec<u64> {
    let bits = (hashes.len() / PART)
        .checked_ilog2()
        .unwrap_or(0)
        .min(PARTS_BITS_MAX);
    if bits == 0 {
        hashes.sort_unstable();
        return hashes;
    }
    let part = |hash: u64| (hash >> (u64::BITS - bits)) as usize;
    let mut ends = vec![0_usize; 1 << bits];
    hashes.iter().for_each(|&hash| ends[part(hash)] += 1);
    let mut begin = 0;
    for end in &mut ends {
        begin += std::mem::replace(end, begin);
    }
    let mut parted = vec![0; hashes.len()];
    for &hash in &hashes {
        let at = &mut ends[part(hash)];
        parted[*at] = hash;
        *at += 1;
    }
    let mut begin = 0;
    for end in ends {
        parted[begin..end].sort_unstable();
        begin = end;
    }
    parted
}

/// The lowest pilot of each bucket that has no key of it meet another's, the largest buckets first; `None` where a bucket
/// has no such pilot. The hashes are in order, so those of a bucket lie together.
pub(super) fn pilots(spreads: &[u64], places: Places) -> Option<Vec<u16>> {
    let mut pilots = vec![0; places.buckets as usize];
    let mut taken = Bits::new(places.slots);
    let mut slots = Vec::new();
    for members in by_size(spreads, places) {
        let pilot = taken.lowest(members, places, &mut slots)?;
        let bucket = members.first().map(|&spread| places.bucket(spread))?;
        *pilots.get_mut(bucket as usize)? = pilot;
    }
    Some(pilots)
}

/// The buckets that have keys, the largest first, then by number.
fn by_size(spreads: &[u64], places: Places) -> impl Iterator<Item = &[u64]> {
    let same_bucket = move |a: &u64, b: &u64| places.bucket(*a) == places.bucket(*b);
    let mut counts: Vec<u32> = Vec::new();
    for members in spreads.chunk_by(same_bucket) {
        if counts.len() <= members.len() {
            counts.resize(members.len() + 1, 0);
        }
        counts[members.len()] += 1;
    }
    // Where the buckets of a size begin, counted from the largest.
    let mut begins = vec![0; counts.len()];
    let mut total = 0_u32;
    for (begin, count) in begins.iter_mut().zip(&counts).rev() {
        *begin = total;
        total += count;
    }
    let mut order = vec![(0_u32, 0_u32); total as usize];
    let mut begin = 0;
    for members in spreads.chunk_by(same_bucket) {
        let at = &mut begins[members.len()];
        order[*at as usize] = (begin, members.len() as u32);
        *at += 1;
        begin += members.len() as u32;
    }
    order
        .into_iter()
        .filter_map(|(begin, len)| spreads.get(begin as usize..)?.get(..len as usize))
}

/// A bit for each slot of some.
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn new(slots: u64) -> Bits {
        let mut bits = vec![0; slots.div_ceil(64) as usize];
        if let (Some(last), 1..) = (bits.last_mut(), slots % 64) {
            // Those behind the last slot are none.
            *last = u64::MAX << (slots % 64);
        }
        Bits(bits)
    }

    /// Takes the slots that the lowest pilot gives a bucket of which all are free and no two the same. `slots` is scratch.
    fn lowest(&mut self, members: &[u64], places: Places, slots: &mut Vec<u64>) -> Option<u16> {
        let first_member = *members.first()?;
        (0..=u16::MAX).step_by(TRIES.into()).find_map(|first| {
            let mut free = 0_u32;
            for at in 0..TRIES {
                let is_taken = self.has(places.slot(first_member, first + at));
                free |= u32::from(!is_taken) << at;
            }
            while free != 0 {
                let pilot = first + free.trailing_zeros() as u16;
                if self.take(members, pilot, places, slots) {
                    return Some(pilot);
                }
                free &= free - 1;
            }
            None
        })
    }

    /// Takes the slots that a pilot gives a bucket, if all are free and no two the same.
    #[inline(always)]
    fn take(&mut self, members: &[u64], pilot: u16, places: Places, slots: &mut Vec<u64>) -> bool {
        slots.clear();
        for &spread in members {
            let slot = places.slot(spread, pilot);
            if self.has(slot) || slots.contains(&slot) {
                return false;
            }
            slots.push(slot);
        }
        for &slot in &*slots {
            self.set(slot);
        }
        true
    }

    #[inline(always)]
    fn has(&self, slot: u64) -> bool {
        self.0[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    /// Whether it was set before.
    #[inline(always)]
    pub(super) fn set(&mut self, slot: u64) -> bool {
        let word = &mut self.0[(slot / 64) as usize];
        let bit = 1 << (slot % 64);
        let was_set = *word & bit != 0;
        *word |= bit;
        was_set
    }

    /// Visits the slots whose bits are not set.
    pub(super) fn each_unset(&self, mut visit: impl FnMut(u64)) {
        for (number, word) in (0..).zip(&self.0) {
            let mut unset = !word;
            while unset != 0 {
                visit(number * 64 + u64::from(unset.trailing_zeros()));
                unset &= unset - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::hash::hash;

    #[test]
    fn hashes_are_put_in_order() {
        for count in [0, 1, 2, PART - 1, PART * 2, PART * 9 + 1] {
            for spread in [hash as fn(u64) -> u64, |key| key, |key| key << 60] {
                let hashes: Vec<u64> = (0..count as u64).rev().map(spread).collect();
                let mut expected = hashes.clone();
                expected.sort_unstable();
                assert_eq!(in_order(hashes), expected, "{count} hashes");
            }
        }
    }

    #[test]
    fn slots_that_are_not_set_are_visited() {
        for slots in [0, 1, 63, 64, 65, 130] {
            let mut bits = Bits::new(slots);
            let set: Vec<u64> = (0..slots).filter(|slot| slot % 3 == 0).collect();
            for slot in &set {
                assert!(!bits.set(*slot) && bits.set(*slot) && bits.has(*slot));
            }
            let mut unset = Vec::new();
            bits.each_unset(|slot| unset.push(slot));
            let expected: Vec<u64> = (0..slots).filter(|slot| slot % 3 != 0).collect();
            assert_eq!(unset, expected, "of {slots}");
        }
    }

    #[test]
    fn the_lowest_pilot_that_fits_is_taken() {
        let places = Places {
            seed: 1,
            buckets: 1,
            slots: 50,
        };
        for members in 1..6_u64 {
            let members: Vec<u64> = (0..members).map(hash).collect();
            let mut bits = Bits::new(places.slots);
            for slot in 0..25 {
                bits.set(slot * 2);
            }
            let fits = |pilot: u16| {
                let mut slots: Vec<u64> = members.iter().map(|&spread| places.slot(spread, pilot)).collect();
                slots.sort_unstable();
                slots.dedup();
                slots.len() == members.len() && slots.iter().all(|&slot| !bits.has(slot))
            };
            let expected = (0..=u16::MAX).find(|&pilot| fits(pilot));
            assert_eq!(bits.lowest(&members, places, &mut Vec::new()), expected);
        }
    }

    #[test]
    fn buckets_that_fit_nowhere_end_in_an_error_or_another_seed() {
        // Every bucket of one key, in a shard as full as can be: the last ones need many pilots.
        let spreads: Vec<u64> = (0..2000).map(|number| number << 53).collect();
        let places = Places {
            seed: 1,
            buckets: 2000,
            slots: 2001,
        };
        assert!(pilots(&spreads, places).is_some());
        // Two keys cannot share one slot, whatever the pilot.
        let places = Places { slots: 1, ..places };
        assert!(pilots(&spreads[..2], places).is_none());
    }
}
