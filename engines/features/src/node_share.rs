//! Which node a version was built for, and which buckets of keys it has.
//!
//! The engine asks nobody about buckets: it says what the version's builder said. Its invariant: a delta is for the node of its base.

use serde::{Deserialize, Serialize};

/// What a version that was built for one node has of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node's name.
    pub name: String,
    /// The version of the bucket map.
    pub map_version: u64,
    /// How many buckets that map has.
    pub buckets: u32,
    /// Those that the node holds, as "0-511,1024".
    pub held: String,
}

/// Buckets of keys that a version has, of so many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBuckets {
    buckets: u32,
    /// A bit for each.
    bits: Vec<u64>,
}

/// No map has more: what says so is damaged.
const BUCKETS_MAX: u32 = 1 << 24;

impl HeldBuckets {
    /// How many buckets there are.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Whether the version has the keys of one.
    #[inline]
    pub fn has(&self, bucket: u32) -> bool {
        let word = self.bits.get(bucket as usize / 64);
        word.is_some_and(|word| word >> (bucket % 64) & 1 == 1)
    }
}

impl NodeShare {
    /// The buckets that it has; none where the text is no list of ranges.
    pub(crate) fn held_buckets(&self) -> HeldBuckets {
        let buckets = self.buckets.min(BUCKETS_MAX);
        let mut bits = vec![0; buckets.div_ceil(64) as usize];
        let ranges = self.held.split(',').filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
        });
        for bucket in ranges.flatten().take_while(|bucket| *bucket < buckets) {
            if let Some(word) = bits.get_mut(bucket as usize / 64) {
                *word |= 1 << (bucket % 64);
            }
        }
        HeldBuckets { buckets, bits }
    }
}

impl std::fmt::Display for NodeShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NodeShare {
            name,
            map_version,
            buckets,
            held,
        } = self;
        write!(f, "{name} of map {map_version}, buckets {held} of {buckets}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(buckets: u32, held: &str, expected: &[u32]) {
        let share = NodeShare {
            name: "a".into(),
            map_version: 1,
            buckets,
            held: held.into(),
        };
        let read = share.held_buckets();
        let held: Vec<u32> = (0..200).filter(|bucket| read.has(*bucket)).collect();
        assert_eq!(held, expected, "{held:?}");
        assert!(!read.has(u32::MAX));
    }

    #[test]
    fn lists_of_ranges_are_read_and_others_hold_nothing() {
        check(128, "0-2,64,126-127", &[0, 1, 2, 64, 126, 127]);
        check(100, "98-4294967295", &[98, 99]);
        check(100, "", &[]);
        check(100, "all", &[]);
        check(100, "5-x,7", &[7]);
        check(u32::MAX, "7", &[7]);
    }
}
