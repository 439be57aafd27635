//! Repeated figures: the middle one, and the lowest and the highest beside it; each with the conditions it was measured under.
//!
//! Its invariant: nothing is left out, an odd one no less than the others.

use std::fmt;

use serde::Serialize;

use super::conditions::Conditions;
use crate::Point;

/// One figure.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Figure {
    /// In the unit of its bar.
    pub value: f64,
    /// Nothing for what a clock or a counter says by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// Of a ratio of two loads in turns: those of the other side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Conditions>,
}

impl Figure {
    /// The same as no ratio of two loads: under the worse of both sides.
    pub(super) fn alone(self) -> Figure {
        Figure {
            conditions: Conditions::worse(self.conditions, self.beside),
            beside: None,
            ..self
        }
    }
}

/// Figures of one kind in the order they were measured.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct Series(Vec<Figure>);

impl Series {
    /// A figure that no load has part in.
    pub fn push(&mut self, value: f64) {
        self.0.push(Figure::from(value));
    }

    /// A figure of a point of load.
    pub fn measured(&mut self, value: f64, point: &Point) {
        self.under(value, Conditions::of(point));
    }

    /// A figure with its conditions.
    pub fn under(&mut self, value: f64, conditions: Conditions) {
        self.0.push(Figure {
            conditions: Some(conditions),
            ..Figure::from(value)
        });
    }

    /// All of them, in their order.
    pub fn figures(&self) -> &[Figure] {
        &self.0
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|figure| figure.value)
    }

    /// The middle one, or the mean of the two in the middle; no number when there is none.
    pub fn median(&self) -> f64 {
        let mut sorted: Vec<f64> = self.values().collect();
        sorted.sort_by(f64::total_cmp);
        match (sorted.len(), sorted.len() / 2) {
            (0, _) => f64::NAN,
            (length, middle) if length % 2 == 1 => sorted[middle],
            (_, middle) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        }
    }

    /// Their sum.
    pub(crate) fn sum(&self) -> f64 {
        self.values().sum()
    }

    /// The last of them; no number when there is none.
    pub(crate) fn last(&self) -> f64 {
        self.values().last().unwrap_or(f64::NAN)
    }

    /// Their mean; no number when there is none.
    pub fn mean(&self) -> f64 {
        self.sum() / self.0.len() as f64
    }

    /// The lowest; no number when there is none.
    pub fn min(&self) -> f64 {
        self.values().fold(f64::NAN, f64::min)
    }

    /// The highest; no number when there is none.
    pub fn max(&self) -> f64 {
        self.values().fold(f64::NAN, f64::max)
    }

    /// Each figure over the one of the same round, in which the two took turns.
    pub fn over(&self, other: &Series) -> Series {
        let pairs = self.0.iter().zip(&other.0);
        let ratio = |(own, other): (&Figure, &Figure)| Figure {
            value: own.value / other.value,
            conditions: own.conditions,
            beside: other.conditions,
        };
        Series(pairs.map(ratio).collect())
    }

    /// The one that is farthest from `value`.
    pub fn farthest_from(&self, value: f64) -> f64 {
        let far = |figure: f64| (figure - value).abs();
        let farthest = |worst: f64, figure: f64| {
            if worst.is_nan() || far(figure) > far(worst) {
                figure
            } else {
                worst
            }
        };
        self.values().fold(f64::NAN, farthest)
    }

    /// What the hypervisor took meanwhile, in percent of one core, on both sides of a ratio: from least to most. Nothing where no
    /// figure knows it.
    pub fn steal(&self) -> Option<(f64, f64)> {
        let both = self
            .0
            .iter()
            .flat_map(|figure| [figure.conditions, figure.beside]);
        let steals = both.flatten().map(|conditions| conditions.steal_percent);
        steals.fold(None, |range: Option<(f64, f64)>, steal| {
            let (least, most) = range.unwrap_or((steal, steal));
            Some((least.min(steal), most.max(steal)))
        })
    }
}

impl From<f64> for Figure {
    fn from(value: f64) -> Figure {
        Figure {
            value,
            conditions: None,
            beside: None,
        }
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Series {
        Series(figures.into_iter().map(Figure::from).collect())
    }
}

impl FromIterator<Figure> for Series {
    fn from_iter<I: IntoIterator<Item = Figure>>(figures: I) -> Series {
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
        let of = |values: &[f64]| values.iter().copied().collect::<Series>();
        let ratio: Vec<f64> = of(&[2.0, 9.0]).over(&of(&[4.0, 3.0])).values().collect();
        assert_eq!(ratio, [0.5, 3.0]);
        assert_eq!(of(&[1.0, 0.9, 1.05]).farthest_from(1.0), 0.9);
        assert!(Series::default().farthest_from(1.0).is_nan());
    }

    #[test]
    fn both_sides_of_a_ratio_keep_their_conditions() {
        let (mut own, mut other) = (Series::default(), Series::default());
        own.under(2.0, Conditions::without_load(3.0));
        other.under(4.0, Conditions::without_load(0.5));
        let ratio = own.over(&other);
        assert_eq!(ratio.steal(), Some((0.5, 3.0)));
        assert_eq!(ratio.figures()[0].beside, Some(Conditions::without_load(0.5)));
        // A constant has none.
        let ratio = own.over(&[910.0].into_iter().collect());
        assert_eq!(
            (ratio.steal(), ratio.figures()[0].beside),
            (Some((3.0, 3.0)), None)
        );
        assert_eq!([1.0].into_iter().collect::<Series>().steal(), None);
    }
}
