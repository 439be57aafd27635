//! The order in which one connection goes through the requests: a seeded permutation, repeated for ever, or one after
//! the other from a seeded start.
//!
//! The permutation is `(start + i × step) mod len` with `step` prime to `len`, so it takes three numbers whatever the
//! size of the set. Its invariant: each run of `len` requests holds every request exactly once.

use crate::Random;

/// The endless order of one connection.
#[derive(Debug, Clone)]
pub struct Order {
    at: usize,
    step: usize,
    len: usize,
}

impl Order {
    /// The order of connection `connection` over `len` requests; `len` 0 is taken as 1.
    pub fn new(seed: u64, connection: u64, len: usize) -> Order {
        let len = len.max(1);
        let mut random = Random::part(seed, connection);
        let at = random.below(len as u64) as usize;
        let mut step = 1 + random.below(len as u64) as usize;
        // 1 is prime to everything, so this ends.
        while common_divisor(step as u64, len as u64) != 1 {
            step = if step == len { 1 } else { step + 1 };
        }
        Order {
            at,
            step: step % len,
            len,
        }
    }

    /// The order of connection `connection` that takes the requests as they stand, from a seeded start: for mixes whose
    /// order matters. `len` 0 is taken as 1.
    pub fn in_sequence(seed: u64, connection: u64, len: usize) -> Order {
        let len = len.max(1);
        let at = Random::part(seed, connection).below(len as u64) as usize;
        Order {
            at,
            step: 1 % len,
            len,
        }
    }

    /// The index of the next request, in `0..len`. An order has no end, so this is not an `Iterator`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> usize {
        let index = self.at;
        // Both are below `len`, so one subtraction does what a division would.
        let left = self.len - self.at;
        self.at = match self.step >= left {
            true => self.step - left,
            false => self.at + self.step,
        };
        index
    }
}

/// The greatest common divisor.
pub(crate) fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_request_comes_once_a_round(seed: u64, connection in 0u64..5_000, len in 1usize..700) {
            let mut order = Order::new(seed, connection, len);
            for _round in 0..2 {
                let mut seen = vec![false; len];
                for _ in 0..len {
                    let index = order.next();
                    prop_assert!(!seen[index]);
                    seen[index] = true;
                }
            }
        }
    }

    #[test]
    fn a_sequence_goes_round_from_its_start() {
        for len in [1, 2, 10] {
            let mut order = Order::in_sequence(1, 2, len);
            let start = order.next();
            for step in 1..25 {
                assert_eq!(order.next(), (start + step) % len);
            }
        }
        let start = |connection| Order::in_sequence(1, connection, 1_000_000).next();
        assert_eq!(start(3), start(3));
        assert_ne!(start(3), start(4));
        assert_eq!(Order::in_sequence(1, 0, 0).next(), 0);
    }

    #[test]
    fn an_order_depends_on_seed_and_connection() {
        let take = |seed, connection| {
            let mut order = Order::new(seed, connection, 10_007);
            (0..20).map(|_| order.next()).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
    }
}
