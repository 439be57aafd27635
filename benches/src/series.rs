//! Repeated figures: the middle one, and the lowest and the highest beside it.
//!
//! Its invariant: nothing is left out, an odd one no less than the others.

use std::fmt;

/// Figures of one kind in the order they were measured.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[serde(transparent)]
pub(crate) struct Series(Vec<f64>);

impl Series {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The middle one, or the mean of the two in the middle; no number when there is none.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match (sorted.len(), sorted.len() / 2) {
            (0, _) => f64::NAN,
            (length, middle) if length % 2 == 1 => sorted[middle],
            (_, middle) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        }
    }

    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    pub(crate) fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    pub(crate) fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }

    /// Each figure over the one of the same round.
    pub(crate) fn over(&self, other: &Series) -> Series {
        self.0
            .iter()
            .zip(&other.0)
            .map(|(own, other)| own / other)
            .collect()
    }

    /// The one that is farthest from `value`.
    pub(crate) fn farthest_from(&self, value: f64) -> f64 {
        let far = |figure: f64| (figure - value).abs();
        let farthest = |worst: f64, figure: &f64| {
            if worst.is_nan() || far(*figure) > far(worst) {
                *figure
            } else {
                worst
            }
        };
        self.0.iter().fold(f64::NAN, farthest)
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Series {
        Series(figures.into_iter().collect())
    }
}

/// `median (min..max)`.
impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().unwrap_or(2);
        let (median, min, max) = (self.median(), self.min(), self.max());
        write!(f, "{median:.places$} ({min:.places$}..{max:.places$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        let check = |figures: &[f64], expected: &str| {
            let series: Series = figures.iter().copied().collect();
            assert_eq!(format!("{series:.1}"), expected);
        };
        check(&[3.0, 1.0, 2.0], "2.0 (1.0..3.0)");
        check(&[4.0, 1.0], "2.5 (1.0..4.0)");
        check(&[], "NaN (NaN..NaN)");
    }

    #[test]
    fn rounds_are_compared_with_themselves() {
        let (own, other) = (Series(vec![2.0, 9.0]), Series(vec![4.0, 3.0]));
        assert_eq!(own.over(&other).0, [0.5, 3.0]);
        assert_eq!(Series(vec![1.0, 0.9, 1.05]).farthest_from(1.0), 0.9);
        assert!(Series::default().farthest_from(1.0).is_nan());
    }
}
