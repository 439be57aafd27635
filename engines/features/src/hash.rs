//! Where a key lives: its hash, its shard, and its slot of the shard.
//!
//! Not a general hash: these functions are part of the file format (docs/formats/feature-shard.md).
//! Invariant: a bucket is below `buckets` and a slot below `slots`, whatever the pilots are.

/// Hashes a key; a bijection, so different keys never share a whole hash.
pub(crate) fn hash(key: u64) -> u64 {
    let mut h = key;
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 31)
}

/// The key of a hash: [`hash`] backwards.
pub(crate) fn key_of(hash: u64) -> u64 {
    let mut h = hash;
    h = (h ^ (h >> 31) ^ (h >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    h = (h ^ (h >> 27) ^ (h >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    h ^ (h >> 30) ^ (h >> 60)
}

/// The key of a text: FNV-1a, 64 bits, over the bytes of `slot`, one zero byte, and those of the text (docs/decisions/0015). Trainers
/// compute the same, and so does `nodes` for clients that split keys: change both.
pub fn text_key(slot: &str, text: impl AsRef<[u8]>) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    let slot = slot.as_bytes().iter().fold(OFFSET_BASIS, step);
    text.as_ref().iter().fold(step(slot, &0), step)
}

/// The shard of a hashed key, below `shards`.
pub(crate) fn shard_of(hash: u64, shards: u32) -> u32 {
    (((hash >> 32) * u64::from(shards)) >> 32) as u32
}

/// What the pilot of a bucket is multiplied by, and what its keys are then; both odd.
const PILOT: u64 = 0x9e37_79b9_7f4a_7c15;
const SLOT: u64 = 0xd6e8_feb8_6659_fd93;

/// How the keys of one shard find their slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places {
    /// Odd.
    pub(crate) seed: u64,
    pub(crate) buckets: u64,
    pub(crate) slots: u64,
}

impl Places {
    /// The hash as this shard has it; still a bijection of the key.
    #[inline(always)]
    pub(crate) fn spread(self, hash: u64) -> u64 {
        hash.wrapping_mul(self.seed)
    }

    /// The key of a spread hash.
    pub(crate) fn key_of(self, spread: u64) -> u64 {
        // Newton's iteration doubles the right bits of an inverse modulo 2⁶⁴; an odd number is its own for the first three.
        let inverse = (0..5).fold(self.seed, |inverse, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(self.seed.wrapping_mul(inverse)))
        });
        key_of(spread.wrapping_mul(inverse))
    }

    /// The bucket of a spread hash, whose pilot names the slot.
    #[inline(always)]
    pub(crate) fn bucket(self, spread: u64) -> u64 {
        high(spread, self.buckets)
    }

    /// The one slot that can hold the key.
    #[inline(always)]
    pub(crate) fn slot(self, spread: u64, pilot: u16) -> u64 {
        let turned = spread ^ u64::from(pilot).wrapping_mul(PILOT);
        high(turned.wrapping_mul(SLOT), self.slots)
    }
}

/// The upper half of the product: `x` of all numbers, brought below `n`.
#[inline(always)]
fn high(x: u64, n: u64) -> u64 {
    ((u128::from(x) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn keys_come_back_from_their_hashes() {
        for seed in [1, 3, PILOT, u64::MAX] {
            let places = Places {
                seed,
                buckets: 1,
                slots: 2,
            };
            for key in (0..1000).flat_map(|key: u64| [key, !key, key << 40, hash(key)]) {
                assert_eq!(key_of(hash(key)), key);
                assert_eq!(places.key_of(places.spread(hash(key))), key);
            }
        }
    }

    #[test]
    fn buckets_and_slots_stay_in_their_ranges() {
        for (buckets, slots) in [(1, 2), (3, 7), (1 << 30, 1 << 32)] {
            let places = Places {
                seed: PILOT,
                buckets,
                slots,
            };
            for key in [0, 1, u64::MAX, u64::MAX / 2, 12345] {
                let spread = places.spread(hash(key));
                assert!(places.bucket(spread) < buckets);
                for pilot in [0, 1, u16::MAX] {
                    assert!(places.slot(spread, pilot) < slots);
                }
            }
        }
    }

    #[test]
    fn pilots_move_the_keys_of_a_bucket_apart() {
        // Two keys of one bucket share the first bits of their spread hash; a pilot must still tell them apart.
        let places = Places {
            seed: PILOT,
            buckets: 1 << 20,
            slots: 1000,
        };
        let same_bucket = [1_u64, 2, 3, 1 << 40].map(|low| (77 << 44) | low);
        for pair in same_bucket.windows(2) {
            let met = (0..10_000_u16)
                .filter(|&pilot| places.slot(pair[0], pilot) == places.slot(pair[1], pilot))
                .count();
            // Ten are expected of a random function.
            assert!(met < 40, "{met} of 10,000 pilots put {pair:?} into one slot");
        }
    }
}
