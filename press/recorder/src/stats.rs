//! Means with their uncertainty.
//!
//! Its invariant: `low <= mean <= high`, all finite; one value gives no interval and says so by `low == mean == high`.

use serde::{Deserialize, Serialize};

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom; the normal one serves beyond.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The same quantile of the normal distribution.
const NORMAL_95: f64 = 1.96;

/// A mean with its 95 % confidence interval, in the unit of its values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The lower end; the mean itself when `n` is 1, which is no interval.
    pub low: f64,
    /// The upper end; the mean itself when `n` is 1, which is no interval.
    pub high: f64,
    /// How many values stand behind it.
    pub n: usize,
}

impl Interval {
    /// The mean of `values` with Student's interval, or nothing when there are none or one is not finite.
    pub fn of(values: &[f64]) -> Option<Interval> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let n = values.len();
        let mean = mean(values);
        let half = match n {
            1 => 0.0,
            n => T_95.get(n - 2).copied().unwrap_or(NORMAL_95) * standard_error(values),
        };
        let (low, high) = (mean - half, mean + half);
        (low.is_finite() && high.is_finite()).then_some(Interval { mean, low, high, n })
    }

    /// The geometric mean of `above[i] / below[i]` with the interval of its logarithm, transformed back. Pairs whose two
    /// values are not both positive and finite are left out; nothing when none is left or the ends are out of range.
    pub fn of_ratios(above: &[f64], below: &[f64]) -> Option<Interval> {
        let usable = |value: f64| value > 0.0 && value.is_finite();
        let logs: Vec<f64> = above
            .iter()
            .zip(below)
            .filter(|&(&above, &below)| usable(above) && usable(below))
            .map(|(above, below)| above.ln() - below.ln())
            .collect();
        let log = Interval::of(&logs)?;
        let (mean, low, high) = (log.mean.exp(), log.low.exp(), log.high.exp());
        high.is_finite().then_some(Interval {
            mean,
            low,
            high,
            n: log.n,
        })
    }
}

/// The arithmetic mean; not a number for no values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard error of the mean of at least two values.
pub(crate) fn standard_error(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let n = values.len() as f64;
    (squares / (n - 1.0) / n).sqrt()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn near(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-3, "{got} is not {expected}");
    }

    #[test]
    fn the_interval_is_students() {
        // Mean 3, standard deviation 1.5811, t(4) = 2.776.
        let five = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(five.n, 5);
        near(five.mean, 3.0);
        near(five.low, 3.0 - 1.963);
        near(five.high, 3.0 + 1.963);
        let two = Interval::of(&[1.0, 2.0]).unwrap();
        near(two.high, 1.5 + 12.706 * 0.5);
        // 32 values: the normal quantile, with a standard error of 0.0898.
        let many: Vec<f64> = (0..32).map(|i| f64::from(i % 2)).collect();
        near(Interval::of(&many).unwrap().high, 0.5 + 1.96 * 0.089_803);
    }

    #[test]
    fn one_value_is_its_own_interval_and_none_has_no_mean() {
        let one = Interval::of(&[7.0]).unwrap();
        assert_eq!((one.low, one.mean, one.high, one.n), (7.0, 7.0, 7.0, 1));
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[1.0, f64::NAN]), None);
        assert_eq!(Interval::of(&[f64::MAX, f64::MAX]), None);
    }

    #[test]
    fn ratios_are_paired_and_geometric() {
        let ratio = Interval::of_ratios(&[2.0, 8.0, 5.0, 1.0], &[1.0, 1.0, 0.0]).unwrap();
        assert_eq!(ratio.n, 2);
        near(ratio.mean, 4.0);
        near(ratio.low * ratio.high, 16.0);
        let turned = Interval::of_ratios(&[1.0, 1.0], &[2.0, 8.0]).unwrap();
        near(turned.low, 1.0 / ratio.high);
        assert_eq!(Interval::of_ratios(&[1.0, -1.0], &[0.0, 2.0]), None);
    }
}
