//! Ids with the popularity of real traffic: id `k` (from 1) comes up in proportion to `1 / k^exponent`.
//!
//! The table of cumulated weights is exact and costs 8 bytes an id, so the number of ids is bounded. Its invariant: a
//! drawn id is always in `1..=ids`.

use crate::{Error, Random};

/// The largest number of ids: 32 MB of table.
pub const IDS_MAX: usize = 4_000_000;

/// A Zipf distribution over `1..=ids`.
#[derive(Debug, Clone)]
pub struct Zipf {
    cumulated: Vec<f64>,
}

impl Zipf {
    /// A distribution over `1..=ids`; `exponent` 0 is uniform, 1 is the classic one.
    ///
    /// # Errors
    /// `ids` is 0 or above [`IDS_MAX`], or `exponent` is negative or not finite.
    pub fn new(ids: usize, exponent: f64) -> Result<Zipf, Error> {
        if ids == 0 || ids > IDS_MAX {
            return Err(Error::setting(
                "the generator's ids",
                ids,
                format!("1 to {IDS_MAX}"),
            ));
        }
        if !exponent.is_finite() || exponent < 0.0 {
            let expected = "a finite number, 0 (uniform) or more";
            return Err(Error::setting("the generator's zipf", exponent, expected));
        }
        let mut total = 0.0;
        let cumulated = (1..=ids)
            .map(|id| {
                total += (id as f64).powf(-exponent);
                total
            })
            .collect();
        Ok(Zipf { cumulated })
    }

    /// Draws one id.
    pub fn draw(&self, random: &mut Random) -> usize {
        let total = self.cumulated.last().copied().unwrap_or(0.0);
        let at = random.unit() * total;
        let below = self.cumulated.partition_point(|&weight| weight <= at);
        // Rounding may put the drawn point on the very end of the table.
        (below + 1).min(self.cumulated.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn counts(ids: usize, exponent: f64) -> Vec<usize> {
        let zipf = Zipf::new(ids, exponent).unwrap();
        let mut random = Random::new(11);
        let mut counts = vec![0; ids];
        for _ in 0..100_000 {
            counts[zipf.draw(&mut random) - 1] += 1;
        }
        counts
    }

    #[test]
    fn popularity_falls_as_one_over_the_rank() {
        let counts = counts(1_000, 1.0);
        // The harmonic number of 1,000 is 7.485: the first id takes 13.4 % of the draws, the tenth a tenth of that.
        assert!((12_800..13_900).contains(&counts[0]), "{}", counts[0]);
        assert!((1_150..1_550).contains(&counts[9]), "{}", counts[9]);
    }

    #[test]
    fn exponent_zero_is_uniform() {
        let counts = counts(10, 0.0);
        assert!(counts.iter().all(|&n| (9_500..10_500).contains(&n)), "{counts:?}");
    }

    #[test]
    fn impossible_numbers_are_refused() {
        assert!(Zipf::new(0, 1.0).is_err());
        assert!(Zipf::new(IDS_MAX + 1, 1.0).is_err());
        assert!(Zipf::new(10, f64::NAN).is_err());
        assert!(Zipf::new(10, -1.0).is_err());
    }
}
