//! Where a key lives: its hash, its shard and its first slot.
//!
//! Not a general hash: these functions are part of the file format (docs/formats/feature-shard.md).
//! Invariant: the shard comes from the upper half of the hash and the slot from the lower half.

/// Fewest slots of an index: one cache line.
pub(crate) const SLOTS_MIN: u64 = 4;

/// Hashes a key; a bijection, so different keys never share a whole hash.
pub(crate) fn hash(key: u64) -> u64 {
    let mut h = key;
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 31)
}

/// The shard of a hashed key, below `shards`.
pub(crate) fn shard_of(hash: u64, shards: u32) -> u32 {
    (((hash >> 32) * u64::from(shards)) >> 32) as u32
}

/// Slots for `rows` rows: a power of two, at most half full.
pub(crate) fn slots_for(rows: u64) -> u64 {
    rows.saturating_mul(2)
        .checked_next_power_of_two()
        .unwrap_or(1 << 63)
        .max(SLOTS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_stay_half_empty() {
        let check = |rows, expected| assert_eq!(slots_for(rows), expected, "{rows} rows");
        check(0, 4);
        check(2, 4);
        check(3, 8);
        check(1_000_000, 1 << 21);
        check(u64::MAX, 1 << 63);
    }

    #[test]
    fn shards_are_in_range_and_even() {
        let shards = 7;
        let mut counts = [0_u32; 7];
        for key in 0..70_000 {
            counts[shard_of(hash(key), shards) as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (9_500..10_500).contains(&n)), "{counts:?}");
        assert_eq!(shard_of(u64::MAX, shards), 6);
        assert_eq!(shard_of(u64::MAX, 1), 0);
    }

    #[test]
    fn hash_is_the_documented_one() {
        // The first outputs of SplitMix64 from seed 0 are this finalizer of multiples of its increment.
        let check = |key, expected| assert_eq!(hash(key), expected);
        check(0, 0);
        check(0x9e37_79b9_7f4a_7c15, 0xe220_a839_7b1d_cdaf);
        check(0x3c6e_f372_fe94_f82a, 0x6e78_9e6a_a1b9_65f4);
    }
}
