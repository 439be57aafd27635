//! Zipf ranks over any number of keys: the exact table while it is small, rejection-inversion beyond.
//!
//! Rank `k` (from 1) comes up in proportion to `1 / k^exponent`, the popularity of real traffic. Its invariant: a drawn rank
//! is never above the count it was made for.

use crate::{Error, Random};

/// The largest number of ids: 32 MB of table.
pub(crate) const IDS_MAX: usize = 4_000_000;

/// A Zipf distribution over the ranks `0..count`.
#[derive(Debug, Clone)]
pub(crate) enum Ranks {
    Table(Table),
    Sampled(Sampled),
}

impl Ranks {
    /// The ranks of `count` keys.
    ///
    /// # Errors
    /// What [`Table::new`] refuses.
    pub(crate) fn new(count: u64, exponent: f64) -> Result<Ranks, Error> {
        match usize::try_from(count) {
            Ok(ids) if ids <= IDS_MAX => Ok(Ranks::Table(Table::new(ids, exponent)?)),
            _ => Ok(Ranks::Sampled(Sampled::new(count, exponent))),
        }
    }

    /// Draws a rank in `0..count`.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Ranks::Table(table) => table.draw(random) as u64 - 1,
            Ranks::Sampled(sampled) => sampled.draw(random) - 1,
        }
    }
}

/// The cumulated weights of `1..=ids`: exact, at 8 bytes an id.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    cumulated: Vec<f64>,
}

impl Table {
    /// A distribution over `1..=ids`; `exponent` 0 is uniform, 1 is the classic one.
    ///
    /// # Errors
    /// `ids` is 0 or above [`IDS_MAX`], or `exponent` is negative or not finite.
    pub(crate) fn new(ids: usize, exponent: f64) -> Result<Table, Error> {
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
        Ok(Table { cumulated })
    }

    /// Draws one id.
    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let total = self.cumulated.last().copied().unwrap_or(0.0);
        let at = random.unit() * total;
        let below = self.cumulated.partition_point(|&weight| weight <= at);
        // Rounding may put the drawn point on the very end of the table.
        (below + 1).min(self.cumulated.len())
    }
}

/// Rejection-inversion after Hörmann and Derflinger, "Rejection-Inversion to Generate Variates from Monotone Discrete
/// Distributions" (ACM TOMACS 6(3), 1996).
///
/// The weight `h(k) = k^-s` is covered by its own integral `H` over `[k - 1/2, k + 1/2]`, which is inverted in closed
/// form; a point is kept when it falls under the weight. At least some 70 % of the points are kept.
#[derive(Debug, Clone)]
pub(crate) struct Sampled {
    count: f64,
    exponent: f64,
    /// `H(3/2) - h(1)`: where the points of rank 1 begin, so that it is never rejected.
    area_first: f64,
    /// `H(count + 1/2)`: where the points end.
    area_last: f64,
    /// A point this near below its rank is kept without a look at the weight.
    sure: f64,
}

impl Sampled {
    fn new(count: u64, exponent: f64) -> Sampled {
        let mut sampled = Sampled {
            count: count as f64,
            exponent,
            area_first: 0.0,
            area_last: 0.0,
            sure: 0.0,
        };
        sampled.area_first = sampled.integral(1.5) - 1.0;
        sampled.area_last = sampled.integral(sampled.count + 0.5);
        sampled.sure = 2.0 - sampled.inverse(sampled.integral(2.5) - sampled.weight(2.0));
        sampled
    }

    /// A rank in `1..=count`.
    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.area_last + random.unit() * (self.area_first - self.area_last);
            let at = self.inverse(area);
            let rank = (at + 0.5).floor().clamp(1.0, self.count);
            if rank - at <= self.sure || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }

    fn weight(&self, at: f64) -> f64 {
        at.powf(-self.exponent)
    }

    /// `(at^(1-s) - 1) / (1-s)`, which is `ln at` at `s` = 1; written so that it keeps its digits near there.
    fn integral(&self, at: f64) -> f64 {
        let log = at.ln();
        log * ratio_exp_m1((1.0 - self.exponent) * log)
    }

    /// What [`Sampled::integral`] is the integral of.
    fn inverse(&self, area: f64) -> f64 {
        // Rounding may pass the pole of the logarithm.
        let inside = (area * (1.0 - self.exponent)).max(-1.0);
        (area * ratio_ln_1p(inside)).exp()
    }
}

/// `(e^x - 1) / x`, by its series near 0.
fn ratio_exp_m1(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x / 2.0
    }
}

/// `ln(1 + x) / x`, by its series near 0.
fn ratio_ln_1p(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x / 2.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The sampled ranks against exact weights, each within five standard deviations.
    #[test]
    fn sampled_ranks_follow_the_exact_weights() {
        const DRAWS: usize = 200_000;
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.0 + 1e-12, 1.5, 3.0] {
            let sampled = Sampled::new(20, exponent);
            let mut random = Random::new(5);
            let mut counts = [0; 20];
            for _ in 0..DRAWS {
                counts[sampled.draw(&mut random) as usize - 1] += 1;
            }
            let weights: Vec<f64> = (1..=20).map(|k| f64::from(k).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            for (rank, (&count, weight)) in counts.iter().zip(weights).enumerate() {
                let share = weight / total;
                let expected = DRAWS as f64 * share;
                let bound = 5.0 * (expected * (1.0 - share)).sqrt() + 1.0;
                assert!(
                    (f64::from(count) - expected).abs() < bound,
                    "exponent {exponent}, rank {rank}: {count} for {expected}"
                );
            }
        }
    }

    #[test]
    fn a_thousand_million_ranks_stay_in_their_range() {
        for (count, exponent) in [(1_000_000_000, 0.99), (1_000_000_000_000, 0.0), (5_000_000, 9.0)] {
            let ranks = Ranks::new(count, exponent).unwrap();
            let mut random = Random::new(9);
            let drawn: Vec<u64> = (0..50_000).map(|_| ranks.draw(&mut random)).collect();
            assert!(drawn.iter().all(|&rank| rank < count));
            if exponent == 0.99 {
                // The sum of k^-0.99 up to 10^9 is 23.603: rank 0 takes 4.24 % of the draws, the first million 65.2 %.
                let first = drawn.iter().filter(|&&rank| rank == 0).count();
                assert!(first.abs_diff(2_118) < 225, "{first}");
                let million = drawn.iter().filter(|&&rank| rank < 1_000_000).count();
                assert!(million.abs_diff(32_605) < 600, "{million}");
            }
        }
    }

    #[test]
    fn small_counts_use_the_exact_table() {
        assert!(matches!(Ranks::new(IDS_MAX as u64, 0.9), Ok(Ranks::Table(_))));
        assert!(matches!(
            Ranks::new(IDS_MAX as u64 + 1, 0.9),
            Ok(Ranks::Sampled(_))
        ));
        assert!(Ranks::new(0, 0.9).is_err());
    }

    fn counts(ids: usize, exponent: f64) -> Vec<usize> {
        let table = Table::new(ids, exponent).unwrap();
        let mut random = Random::new(11);
        let mut counts = vec![0; ids];
        for _ in 0..100_000 {
            counts[table.draw(&mut random) - 1] += 1;
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
        assert!(Table::new(0, 1.0).is_err());
        assert!(Table::new(IDS_MAX + 1, 1.0).is_err());
        assert!(Table::new(10, f64::NAN).is_err());
        assert!(Table::new(10, -1.0).is_err());
    }
}
