//! Rows of numbers that follow from their key: those that `millpond features random` writes.
//!
//! Written from the description of that command and not with the engine's code, so that a defect of its writer or its reader
//! cannot hide here. Its invariant: a row depends on the seed, the key and the length alone.

use serde::Deserialize;

/// The most numbers in a row.
pub const DIM_MAX: usize = 65_536;

/// The rows of a table of random rows, which follow from these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomRows {
    /// What they were made of.
    pub seed: u64,
    /// Numbers of a row.
    pub dim: usize,
}

impl RandomRows {
    /// Bytes of a row.
    pub fn bytes(&self) -> usize {
        self.dim.saturating_mul(size_of::<f32>())
    }

    /// Appends the row of `key`: floats in [-1, 1), little-endian, each by the finalizer of SplitMix64 (Steele, Lea and Flood
    /// 2014) over seed, key and place.
    pub fn write(&self, key: u64, out: &mut Vec<u8>) {
        let mix = |state: u64| {
            let z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        let of_key = mix(mix(self.seed) ^ key);
        for place in 0..self.dim as u64 {
            let value = (mix(of_key ^ place) >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_floats_that_follow_from_their_key() {
        let row = |seed, key| {
            let mut bytes = Vec::new();
            RandomRows { seed, dim: 10 }.write(key, &mut bytes);
            bytes
        };
        let one = row(7, 5);
        assert_eq!((one.len(), one.clone()), (40, row(7, 5)));
        assert_ne!(one, row(7, 6));
        assert_ne!(one, row(8, 5));
        let (words, _) = one.as_chunks::<4>();
        assert!(
            words
                .iter()
                .all(|word| (-1.0..1.0).contains(&f32::from_le_bytes(*word)))
        );
    }
}
