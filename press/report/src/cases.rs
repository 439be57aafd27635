//! Points that are repeats of each other, joined.
//!
//! Its invariant: every point is in exactly one case, and cases keep the order in which they first ran.

use std::cmp::Ordering;

use crate::describe;
use crate::{LoadKind, Point};

/// One load offered to one target: all its repeats.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    /// The target with its grid, and the run's name before it where there are several.
    pub(crate) series: String,
    /// The load in words.
    pub(crate) load: String,
    /// Where it stands among the loads: closed loops by requests in flight, open ones behind them by rate.
    pub(crate) weight: (bool, f64),
    /// The repeats; never empty.
    points: Vec<&'a Point>,
}

/// Joins repeats. The name of a point's series is made by `series`.
pub(crate) fn join<'a>(
    points: impl IntoIterator<Item = &'a Point>,
    series: impl Fn(&Point) -> String,
) -> Vec<Case<'a>> {
    let mut cases: Vec<Case<'a>> = Vec::new();
    for point in points {
        let (series, load) = (series(point), describe::load(&point.offered));
        match cases
            .iter_mut()
            .find(|case| case.series == series && case.load == load)
        {
            Some(case) => case.points.push(point),
            None => cases.push(Case {
                series,
                load,
                weight: weight(point),
                points: vec![point],
            }),
        }
    }
    cases
}

fn weight(point: &Point) -> (bool, f64) {
    let offered = &point.offered;
    let in_flight = offered.connections as f64 * offered.in_flight.max(1) as f64;
    match offered.kind {
        LoadKind::Closed => (false, in_flight),
        LoadKind::Open => (true, offered.rate.unwrap_or(in_flight)),
    }
}

impl<'a> Case<'a> {
    /// The repeats.
    pub(crate) fn points(&self) -> &[&'a Point] {
        &self.points
    }

    /// The order of loads, lightest first.
    pub(crate) fn by_weight(&self, other: &Case<'_>) -> Ordering {
        let ((is_open, weight), (other_is_open, other)) = (self.weight, other.weight);
        is_open.cmp(&other_is_open).then(weight.total_cmp(&other))
    }

    /// The median of a figure over the repeats that have it.
    pub(crate) fn median(&self, figure: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self
            .points
            .iter()
            .filter_map(|point| figure(point))
            .filter(|value| value.is_finite())
            .collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        Some(if values.len() % 2 == 1 {
            upper
        } else {
            f64::midpoint(values[middle - 1], upper)
        })
    }

    /// The repeat in the middle by p99, of equal ones and without p99 by rate: the one whose curve is drawn.
    pub(crate) fn typical(&self) -> Option<&'a Point> {
        let mut points = self.points.clone();
        let p99 = |point: &Point| point.latency.us_p99.unwrap_or(f64::INFINITY);
        points.sort_by(|a, b| p99(a).total_cmp(&p99(b)).then(a.qps.total_cmp(&b.qps)));
        points.get((points.len().max(1) - 1) / 2).copied()
    }
}

/// The names of series or loads in `cases`, each once, as they first come.
pub(crate) fn distinct<'c>(names: impl Iterator<Item = &'c str>) -> Vec<&'c str> {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// The loads of `cases`, lightest first.
pub(crate) fn loads<'c>(cases: &'c [Case<'_>]) -> Vec<&'c str> {
    let mut by_weight: Vec<&Case<'_>> = cases.iter().collect();
    by_weight.sort_by(|a, b| a.by_weight(b));
    distinct(by_weight.into_iter().map(|case| case.load.as_str()))
}

/// At most `limit` of `items`, evenly spread, the first and the last among them.
pub(crate) fn thinned<T: Copy>(items: &[T], limit: usize) -> Vec<T> {
    if items.len() <= limit || limit < 2 {
        return items.iter().copied().take(limit).collect();
    }
    (0..limit)
        .filter_map(|index| items.get(index * (items.len() - 1) / (limit - 1)).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn repeats_are_one_case_and_the_middle_one_is_typical() {
        let point = |connections: usize, p99: Option<f64>| {
            let mut point = Point::default();
            point.offered.connections = connections;
            point.latency.us_p99 = p99;
            point
        };
        let points = [
            point(8, Some(30.0)),
            point(1, None),
            point(8, Some(10.0)),
            point(8, Some(20.0)),
        ];
        let cases = join(&points, describe::target);
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].points().len(), 3);
        assert_eq!(cases[0].typical().unwrap().latency.us_p99, Some(20.0));
        assert_eq!(cases[0].median(|point| point.latency.us_p99), Some(20.0));
        assert_eq!(cases[1].median(|point| point.latency.us_p99), None);
        assert_eq!(loads(&cases), ["1×0", "8×0"]);
    }

    #[test]
    fn thinning_keeps_both_ends() {
        assert_eq!(thinned(&[1, 2, 3], 8), [1, 2, 3]);
        assert_eq!(thinned(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 3), [0, 4, 8]);
        assert!(thinned::<u8>(&[], 3).is_empty());
    }
}
