//! The keys of `rw1`: decimal numbers of 31 random bits, one to ten digits, in the order of their text.
//!
//! Its invariant: the same count gives the same keys in the same order. Some are drawn twice, 2 in 1,000 of ten million.

use millpond_press_workload::Random;

const SEED: u64 = 31_415;
/// Of 2,147,483,647.
const DIGITS_MAX: usize = 10;
/// Of each value.
pub(super) const VALUE_BYTES: usize = 8;

/// A key's text, as a store takes it.
#[derive(Clone, Copy)]
pub(super) struct Text {
    digits: [u8; DIGITS_MAX],
    len: u8,
}

impl Text {
    fn of(number: u64) -> Text {
        let mut digits = [0; DIGITS_MAX];
        let text = number.to_string();
        for (digit, byte) in digits.iter_mut().zip(text.bytes()) {
            *digit = byte;
        }
        Text {
            digits,
            len: text.len() as u8,
        }
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.digits.get(..self.len()).unwrap_or_default()
    }

    /// The value that is put with it: eight bytes that tell most keys apart.
    pub(super) fn value(&self) -> &[u8] {
        self.digits.get(DIGITS_MAX - VALUE_BYTES..).unwrap_or_default()
    }

    /// The same key in one number, in the same order: four bits a digit from the top, 0 where there is none.
    pub(super) fn packed(&self) -> u64 {
        let nibble = |(at, byte): (usize, &u8)| u64::from(byte - b'0' + 1) << (60 - 4 * at);
        self.bytes().iter().enumerate().map(nibble).sum()
    }
}

/// So many keys, in the order in which they are put.
pub(super) fn draw(count: usize) -> Vec<Text> {
    let mut random = Random::new(SEED);
    (0..count).map(|_| Text::of(random.next_u64() >> 33)).collect()
}

/// Another random order (Fisher and Yates).
pub(super) fn shuffle<K>(keys: &mut [K]) {
    let mut random = Random::part(SEED, 1);
    for at in (1..keys.len()).rev() {
        keys.swap(at, random.below(at as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_key_has_the_order_of_its_text() {
        let mut texts = draw(1_000);
        texts.extend([0, 1, 10, 100, 19, 2, 999_999_999, 2_147_483_647].map(Text::of));
        texts.sort_by(|one, other| one.bytes().cmp(other.bytes()));
        for pair in texts.windows(2) {
            let [one, other] = pair else { continue };
            assert_eq!(
                one.packed().cmp(&other.packed()),
                one.bytes().cmp(other.bytes()),
                "{:?} {:?}",
                one.bytes(),
                other.bytes()
            );
        }
    }
}
