//! Where the keys of fresh rows lie: by a hash that nobody outside the process can foresee.
//!
//! Not the hash of the format, which everyone knows, and no cipher. Invariant: a process has one seed, so that what it said of an
//! order holds as long as it runs.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// What hashes are mixed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed {
    /// Added before a multiplication and the number to multiply by, twice.
    words: [u64; 4],
    /// Says nothing of the words.
    mark: u64,
}

/// A hash of a key by a seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seeded(pub(super) u64);

/// Of numbers to multiply by: the product depends on all bits of both.
const WIDE: u64 = 1 << 63 | 1;

impl Seed {
    /// The one of this process.
    pub(crate) fn of_process() -> Seed {
        static SEED: LazyLock<Seed> = LazyLock::new(|| {
            let random = RandomState::new();
            Seed::of(|number| random.hash_one(number))
        });
        *SEED
    }

    pub(super) fn of(random: impl Fn(u8) -> u64) -> Seed {
        Seed {
            words: [random(0), random(1) | WIDE, random(2), random(3) | WIDE],
            mark: random(4),
        }
    }

    /// Mixes the hash that a key has in the format. Who does not know the seed cannot choose keys whose mixed hashes lie close to each
    /// other. One multiplication would keep hashes of equal distances at equal distances.
    #[inline(always)]
    pub(crate) fn mix(&self, hash: u64) -> Seeded {
        let [before, by, between, by_again] = self.words;
        Seeded(folded(folded(hash ^ before, by) ^ between, by_again))
    }

    /// Tells it from the seeds of other processes, in so many bits.
    pub(crate) fn mark(&self, bits: u32) -> u64 {
        self.mark >> (u64::BITS - bits)
    }
}

/// The halves of a product, which has them depend on each other.
#[inline(always)]
fn folded(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    product as u64 ^ (product >> 64) as u64
}

/// The same seed in every process.
#[cfg(test)]
pub(super) fn fixed(number: u64) -> Seed {
    Seed::of(|word| crate::hash::hash((number << 8) + u64::from(word) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_seed_and_another_has_another() {
        assert_eq!(Seed::of_process(), Seed::of_process());
        let random = RandomState::new();
        assert_ne!(Seed::of_process(), Seed::of(|number| random.hash_one(number)));
    }

    #[test]
    fn hashes_of_equal_distances_are_mixed_to_even_ones() {
        for (seed, shift) in (0..8).flat_map(|seed| [0, 8, 20, 40, 56].map(|shift| (fixed(seed), shift))) {
            let mut counts = [0_u32; 16];
            for number in 0..256_u64 {
                counts[(seed.mix(number << shift).0 >> 60) as usize] += 1;
            }
            // Sixteen are expected of each, give or take four.
            assert!(
                counts.iter().all(|count| (2..40).contains(count)),
                "{shift}: {counts:?}"
            );
        }
    }
}
