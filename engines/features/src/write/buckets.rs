//! The keys of a shard by their buckets.
//!
//! Knows keys by their spread hashes alone, and no slot. Invariant: a bucket's members lie together, the buckets in their order; in which
//! order the members of one lie means nothing.

use millpond_prefetch::prefetch;
use std::io;

use crate::hash::Places;
use crate::pages::Pages;

/// Buckets of a part, whose keys the nearest cache holds while they are put in order.
const PART_BUCKETS: u64 = 512;
/// Parts at most: each is written to at its own place.
const PARTS_MAX: u64 = 4096;
/// Buckets whose members are asked for before those of the first are needed.
const AHEAD: usize = 8;

/// Spread hashes by their buckets.
pub(super) struct Buckets {
    spreads: Vec<u64>,
    /// Where the members of each bucket end.
    ends: Vec<u32>,
}

impl Buckets {
    /// Puts hashes into the order of their buckets: first into parts of some hundred buckets, then each part.
    pub(super) fn of(mut spreads: Vec<u64>, places: Places) -> io::Result<Buckets> {
        let part_buckets = places.buckets.div_ceil(PARTS_MAX).max(PART_BUCKETS);
        let shift = part_buckets.next_power_of_two().ilog2();
        let bucket = |spread| places.bucket(spread) as usize;
        let part = |spread| bucket(spread) >> shift;
        let mut part_ends = vec![0; (places.buckets >> shift) as usize + 1];
        count_and_begin(&mut part_ends, spreads.iter().map(|&spread| part(spread)));
        let mut parted = Pages::zeroed(size_of_val(spreads.as_slice()))?;
        let parted = parted.as_chunks_mut().0;
        for &spread in &spreads {
            parted[next(&mut part_ends, part(spread))] = spread.to_le_bytes();
        }

        let mut ends = vec![0; places.buckets as usize];
        let mut begin = 0;
        for (number, (end, ends)) in part_ends.into_iter().zip(ends.chunks_mut(1 << shift)).enumerate() {
            let range = begin as usize..end as usize;
            let (from, to) = (&parted[range.clone()], &mut spreads[range]);
            let from = from.iter().map(|&bytes| u64::from_le_bytes(bytes));
            let in_part = |spread| bucket(spread) - (number << shift);
            count_and_begin(ends, from.clone().map(in_part));
            for spread in from {
                to[next(ends, in_part(spread))] = spread;
            }
            ends.iter_mut().for_each(|end| *end += begin);
            begin = end;
        }
        Ok(Buckets { spreads, ends })
    }

    /// Where the members of each bucket begin, and how many they are.
    fn places(&self) -> impl Iterator<Item = (u32, usize)> {
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .map(|(begin, end)| (begin, (end - begin) as usize))
    }

    fn all(&self) -> impl Iterator<Item = &[u64]> {
        self.places().map(|(begin, size)| self.members(begin, size))
    }

    fn members(&self, begin: u32, size: usize) -> &[u64] {
        let begin = begin as usize;
        self.spreads.get(begin..begin + size).unwrap_or_default()
    }

    /// The buckets that have keys, those of a size together.
    pub(super) fn by_size(&self) -> BySize<'_> {
        let size_max = self.places().map(|(_, size)| size).max().unwrap_or(0);
        let mut ends = vec![0; size_max + 1];
        // The largest come first, and those without a key behind all.
        count_and_begin(&mut ends, self.places().map(|(_, size)| size_max - size));
        let mut begins = vec![0; self.ends.len()];
        for (begin, size) in self.places() {
            begins[next(&mut ends, size_max - size)] = begin;
        }
        BySize {
            buckets: self,
            begins,
            ends,
        }
    }

    /// The lowest hash.
    pub(super) fn lowest(&self) -> Option<u64> {
        self.all()
            .find(|members| !members.is_empty())?
            .iter()
            .min()
            .copied()
    }

    /// The lowest hash that is there more than once.
    pub(super) fn met_twice(&self) -> Option<u64> {
        self.all().find_map(|members| {
            let mut members = members.to_vec();
            members.sort_unstable();
            let pair = members.windows(2).find(|pair| pair[0] == pair[1])?;
            pair.first().copied()
        })
    }

    /// All hashes, in whatever order.
    pub(super) fn into_spreads(self) -> Vec<u64> {
        self.spreads
    }
}

/// Buckets that have keys, the largest first, then by number.
pub(super) struct BySize<'a> {
    buckets: &'a Buckets,
    /// Where the members of each bucket begin.
    begins: Vec<u32>,
    /// Where the buckets of each size end, from the largest to none.
    ends: Vec<u32>,
}

impl BySize<'_> {
    /// Each size, down to 1, with its buckets.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, &[u32])> {
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        let ranges = begins
            .zip(&self.ends)
            .map(|(begin, &end)| begin as usize..end as usize);
        let sizes = (1..self.ends.len()).rev();
        sizes.zip(ranges.map(|range| self.begins.get(range).unwrap_or_default()))
    }

    /// The members of some buckets of a size, of which those some way ahead are asked for: between buckets of a size lie all others.
    pub(super) fn members(&self, size: usize, begins: &[u32]) -> impl Iterator<Item = &[u64]> {
        begins.iter().enumerate().map(move |(at, &begin)| {
            if let Some(&begin) = begins.get(at + AHEAD)
                && let Some(place) = self.buckets.spreads.get(begin as usize)
            {
                prefetch(place);
            }
            self.buckets.members(begin, size)
        })
    }
}

/// Leaves in `begins` where each of them begins, when as many of each come as `numbers` has.
fn count_and_begin(begins: &mut [u32], numbers: impl Iterator<Item = usize>) {
    numbers.for_each(|number| begins[number] += 1);
    let mut begin = 0;
    for at in begins {
        begin += std::mem::replace(at, begin);
    }
}

/// The next place of a number; behind the last is then where it ends.
#[inline(always)]
fn next(begins: &mut [u32], number: usize) -> usize {
    let at = &mut begins[number];
    let place = *at as usize;
    *at += 1;
    place
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::hash::hash;

    fn check(spreads: Vec<u64>, buckets: u64) {
        let places = Places {
            seed: 1,
            buckets,
            slots: spreads.len() as u64 + 1,
        };
        let got = Buckets::of(spreads.clone(), places).unwrap();
        let mut expected = spreads;
        expected.sort_unstable();
        let mut members: Vec<u64> = Vec::new();
        let mut sizes = Vec::new();
        for (number, some) in (0..).zip(got.all()) {
            assert!(some.iter().all(|&spread| places.bucket(spread) == number));
            let mut some = some.to_vec();
            some.sort_unstable();
            sizes.push((some.len(), number));
            members.extend(some);
        }
        assert_eq!(members, expected);
        assert_eq!(got.lowest(), expected.first().copied());
        let twice = expected.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(got.met_twice(), twice.map(|pair| pair[0]));
        sizes.retain(|&(size, _)| size > 0);
        sizes.sort_by_key(|&(size, number)| (usize::MAX - size, number));
        let by_size = got.by_size();
        let each = by_size.each().flat_map(|(size, begins)| {
            let members = by_size.members(size, begins);
            members.map(|members| (members.len(), places.bucket(members[0])))
        });
        assert_eq!(each.collect::<Vec<_>>(), sizes);
        let mut spreads = got.into_spreads();
        spreads.sort_unstable();
        assert_eq!(spreads, expected);
    }

    #[test]
    fn members_lie_together_and_the_largest_buckets_come_first() {
        for count in [0, 1, 2, 100, 5000_u64] {
            for spread in [
                hash as fn(u64) -> u64,
                |key| key,
                |key| key << 60,
                |key| hash(key / 2),
            ] {
                let spreads: Vec<u64> = (0..count).rev().map(spread).collect();
                for buckets in [count.div_ceil(4), 1, PART_BUCKETS, PART_BUCKETS * 3 + 1] {
                    check(spreads.clone(), buckets.max(count.min(1)));
                }
            }
        }
        // More buckets than parts hold of the usual size.
        check((0..100).map(hash).collect(), PART_BUCKETS * PARTS_MAX + 77);
    }
}
