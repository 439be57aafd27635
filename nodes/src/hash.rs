//! From a text to its key, and from a key to its bucket. Not where a key lies inside a table: `engines/features` has that.
//!
//! These functions are part of the format (docs/formats/bucket-map.md). A feature shard is chosen by the upper half of the same
//! hash and a slot by its product with an odd seed, so the bucket is taken from the lower half: the keys of a bucket are as evenly
//! spread over shards and slots as all keys. The invariant: a bucket is below `buckets`.

/// Hashes a key, by the finalizer of SplitMix64 as feature shards do.
#[inline]
pub fn hash(key: u64) -> u64 {
    let mut h = key;
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 31)
}

/// The key of a text: FNV-1a, 64 bits, over the bytes of `slot`, one zero byte, and those of the text (docs/decisions/0015), as
/// tables have it: change both.
pub fn text_key(slot: &str, text: impl AsRef<[u8]>) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    let slot = slot.as_bytes().iter().fold(OFFSET_BASIS, step);
    text.as_ref().iter().fold(step(slot, &0), step)
}

/// The bucket of a key, of so many.
#[inline]
pub fn bucket_of(key: u64, buckets: u32) -> u32 {
    (((hash(key) & 0xffff_ffff) * u64::from(buckets)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_vectors_hold() {
        let check = |key, hashed, buckets: [u32; 4]| {
            assert_eq!(hash(key), hashed, "{key:#x}");
            assert_eq!(
                [1, 1000, 4096, 65_536].map(|n| bucket_of(key, n)),
                buckets,
                "{key:#x}"
            );
        };
        check(0, 0, [0, 0, 0, 0]);
        check(1, 0x5692_161d_100b_05e5, [0, 62, 256, 4107]);
        check(2, 0xdbd2_3897_3a2b_148a, [0, 227, 930, 14_891]);
        check(42, 0xa759_ea27_d472_7622, [0, 829, 3399, 54_386]);
        check(1 << 32, 0xd820_b7e9_10b0_f93f, [0, 65, 267, 4272]);
        check(u64::MAX, 0xb4d0_55fc_f2cb_bd7b, [0, 948, 3884, 62_155]);
    }

    #[test]
    fn texts_have_the_keys_that_tables_give_them() {
        assert_eq!(text_key("", ""), 0xaf63_bd4c_8601_b7df);
        assert_eq!(text_key("a", "bc"), 0xab40_f682_0d40_b523);
        assert_eq!(text_key("ab", "c"), 0xfd61_c083_ef20_0867);
        assert_eq!(text_key("genre", "drama"), 0x58b9_7987_c916_3bff);
    }

    #[test]
    fn buckets_are_even() {
        let mut counts = [0_u32; 7];
        for key in 0..70_000 {
            counts[bucket_of(key, 7) as usize] += 1;
        }
        assert!(counts.iter().all(|n| (9_500..10_500).contains(n)), "{counts:?}");
    }

    #[test]
    fn the_keys_of_a_bucket_are_spread_over_shards_and_slots() {
        // As docs/formats/feature-shard.md chooses them.
        let seed = 0x9e37_79b9_7f4a_7c15_u64;
        let (mut shards, mut slots) = ([0_u32; 8], [0_u32; 8]);
        let keys = (0_u64..).filter(|key| bucket_of(*key, 64) == 5).take(8_000);
        for key in keys {
            shards[(hash(key) >> 61) as usize] += 1;
            slots[(hash(key).wrapping_mul(seed) >> 61) as usize] += 1;
        }
        for counts in [shards, slots] {
            assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
        }
    }
}
