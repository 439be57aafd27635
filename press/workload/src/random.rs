//! A small seeded generator of numbers (SplitMix64), owned so that no version of a library changes a run.
//!
//! Not for secrets. Its invariant: the sequence depends on the seed alone.

/// SplitMix64: 64 bits of state, every seed as good as any other.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// A generator for part `part` of what `seed` describes: parts do not overlap in practice.
    pub fn part(seed: u64, part: u64) -> Random {
        let mut outer = Random::new(seed);
        let mixed = outer.next_u64() ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut inner = Random::new(mixed);
        Random::new(inner.next_u64())
    }

    /// A generator for part `part` of one purpose, so that what one purpose draws never moves another.
    pub(crate) fn of(seed: u64, purpose: &[u8; 8], part: u64) -> Random {
        Random::part(seed ^ u64::from_be_bytes(*purpose), part)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number in `[0, below)`; 0 when `below` is 0. The bias of the multiplication is under 2^-64 × `below`.
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(below)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference sequence of SplitMix64 for seed 1234567.
    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        let got: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            got,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut random = Random::new(3);
        for _ in 0..10_000 {
            assert!(random.below(7) < 7);
            let unit = random.unit();
            assert!((0.0..1.0).contains(&unit));
        }
        assert_eq!(random.below(0), 0);
    }
}
