//! Finds the pilot of each bucket: the number that gives every key of it a slot that no other key has.
//!
//! Knows keys by their spread hashes alone. Invariant: the pilots follow from the hashes alone, and each is the lowest that fits.

use super::buckets::Buckets;
use crate::hash::Places;

/// Pilots that are tried together at most: a bit for each.
const TRIES_MAX: u32 = 64;
/// Below so many pilots that a bucket takes on average, they are tried one by one.
const TRIES_ALONE: f64 = 8.0;
/// Members of a bucket that are asked about all pilots at hand; the others only of pilots that suit these.
const SIFTED: usize = 16;

/// The lowest pilot of each bucket that has no key of it meet another's, the largest buckets first, then by number; `None` where a
/// bucket has no such pilot, as one with a key that is there twice.
pub(super) fn pilots(buckets: &Buckets, places: Places) -> Option<Vec<u16>> {
    let mut pilots = vec![0; places.buckets as usize];
    let mut taken = Bits::new(places.slots);
    let mut slots = Vec::new();
    let mut placed = 0;
    let by_size = buckets.by_size();
    for (size, begins) in by_size.each() {
        let rows = (size * begins.len()) as u64;
        let tries = tries(size, placed + rows / 2, places.slots);
        placed += rows;
        for members in by_size.members(size, begins) {
            let pilot = taken.lowest(members, places, tries, &mut slots)?;
            let bucket = members.first().map(|&spread| places.bucket(spread))?;
            *pilots.get_mut(bucket as usize)? = pilot;
        }
    }
    Some(pilots)
}

/// How many pilots to try together for a bucket of `size`: about half of those that one takes on average, as a power of two.
fn tries(size: usize, taken: u64, slots: u64) -> u32 {
    let free = 1.0 - taken as f64 / slots.max(1) as f64;
    let average = free.powi(size.min(SIFTED) as i32).recip();
    if average < TRIES_ALONE {
        return 1;
    }
    1 << (average / 2.0).min(TRIES_MAX.into()).log2() as u32
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

    /// Takes the slots that the lowest pilot gives a bucket of which all are free and no two the same. As many pilots are tried
    /// together as `tries` says, a power of two: whether their slots are free is then no question that the processor has to guess.
    /// `slots` is scratch.
    fn lowest(&mut self, members: &[u64], places: Places, tries: u32, slots: &mut Vec<u64>) -> Option<u16> {
        if tries == 1 {
            return (0..=u16::MAX).find(|&pilot| self.take(members, pilot, places, slots));
        }
        let (&first_member, others) = members.split_first()?;
        let sifted = others.get(..SIFTED - 1).unwrap_or(others);
        (0..=u16::MAX).step_by(tries as usize).find_map(|first| {
            let mut fit = self.free_of(first_member, places, first, tries);
            for &member in sifted {
                fit = self.free_among(fit, member, places, first);
            }
            while fit != 0 {
                let pilot = first + fit.trailing_zeros() as u16;
                if self.take(members, pilot, places, slots) {
                    return Some(pilot);
                }
                fit &= fit - 1;
            }
            None
        })
    }

    /// Which pilots from `first` on give a key a free slot, a bit for each of `tries`.
    #[inline(always)]
    fn free_of(&self, spread: u64, places: Places, first: u16, tries: u32) -> u64 {
        let free = (0..tries as u16).fold(0, |free: u64, at| {
            let is_free = !self.has(places.slot(spread, first + at));
            (free >> 1) | (u64::from(is_free) << 63)
        });
        free >> (TRIES_MAX - tries)
    }

    /// Which pilots of those in `fit` give a key a free slot.
    #[inline(always)]
    fn free_among(&self, mut fit: u64, spread: u64, places: Places, first: u16) -> u64 {
        let mut free = 0;
        while fit != 0 {
            let pilot = first + fit.trailing_zeros() as u16;
            let others = fit & (fit - 1);
            // No branch depends on what is free.
            free |= (fit ^ others) & u64::from(self.has(places.slot(spread, pilot))).wrapping_sub(1);
            fit = others;
        }
        free
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
            for tries in [1, 2, 16, 64] {
                let mut bits = Bits(bits.0.clone());
                assert_eq!(bits.lowest(&members, places, tries, &mut Vec::new()), expected);
            }
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
        assert!(pilots(&Buckets::of(spreads.clone(), places).unwrap(), places).is_some());
        // Two keys cannot share one slot, whatever the pilot.
        let places = Places { slots: 1, ..places };
        assert!(pilots(&Buckets::of(spreads[..2].to_vec(), places).unwrap(), places).is_none());
    }
}
