//! Targets held against the first one, load by load: the ratio of paired repeats with its interval.
//!
//! Its invariant: only points of the same load, grid and repeat are paired, and a point that cannot be believed takes part
//! like any other, because leaving it out would choose the result. A `FAILING` one has no figures to be held against others:
//! its pair is left out and counted.

use crate::{Comparison, Judgement, Point, point_in_words};
use millpond_press_recorder::Interval;

/// A figure that targets are compared by.
type Figure = (&'static str, fn(&Point) -> Option<f64>);

const FIGURES: [Figure; 4] = [
    ("qps", |point| Some(point.qps)),
    ("latency p50", |point| point.latency.us_p50),
    ("latency p99", |point| point.latency.us_p99),
    ("server cpu per request", |point| {
        let answers = point.counters.answers();
        let cpu = point.server_cpu?;
        (answers > 0).then(|| cpu.seconds / answers as f64)
    }),
];

/// All comparisons that the points allow, in their order.
pub fn comparisons(points: &[Point]) -> Vec<Comparison> {
    let Some(baseline) = points
        .iter()
        .map(|point| &point.target.name)
        .find(|name| !name.is_empty())
    else {
        return Vec::new();
    };
    let mut comparisons = Vec::new();
    let mut seen = Vec::new();
    for point in points.iter().filter(|point| &point.target.name != baseline) {
        let key = (point.target.name.clone(), point_in_words(point));
        if seen.contains(&key) {
            continue;
        }
        for (figure, of) in FIGURES {
            let mut pairs: (Vec<f64>, Vec<f64>) = Default::default();
            let mut left_out = 0;
            for above in points
                .iter()
                .filter(|other| (other.target.name.clone(), point_in_words(other)) == key)
            {
                let below = points.iter().find(|other| {
                    &other.target.name == baseline
                        && point_in_words(other) == key.1
                        && other.repeat == above.repeat
                });
                let is_failing = |point: &Point| point.verdict.judgement == Judgement::Failing;
                if below.is_some_and(|below| is_failing(above) || is_failing(below)) {
                    left_out += 1;
                } else if let (Some(above), Some(below)) = (of(above), below.and_then(of)) {
                    pairs.0.push(above);
                    pairs.1.push(below);
                }
            }
            if let Some(ratio) = Interval::of_ratios(&pairs.0, &pairs.1) {
                comparisons.push(Comparison {
                    target: key.0.clone(),
                    baseline: baseline.clone(),
                    load: key.1.clone(),
                    figure: figure.into(),
                    ratio,
                    left_out,
                });
            }
        }
        seen.push(key);
    }
    comparisons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_paired_by_load() {
        let point = |name: &str, connections, repeat, qps| {
            let mut point = Point {
                repeat,
                qps,
                ..Point::default()
            };
            point.target.name = name.into();
            point.offered.connections = connections;
            point
        };
        let points = [
            point("a", 1, 1, 100.0),
            point("b", 1, 1, 200.0),
            point("b", 1, 2, 300.0),
            point("a", 1, 2, 150.0),
            point("b", 9, 1, 5.0),
        ];
        let found = comparisons(&points);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].figure.as_str(), found[0].ratio.n), ("qps", 2));
        assert!((found[0].ratio.mean - 2.0).abs() < 1e-9);
        assert!(comparisons(&points[..1]).is_empty());
    }

    #[test]
    fn a_target_that_fails_is_faster_than_none() {
        let point = |name: &str, repeat, judgement| {
            let mut point = Point {
                repeat,
                qps: 100.0,
                ..Point::default()
            };
            point.target.name = name.into();
            point.verdict.judgement = judgement;
            point
        };
        let points = [
            point("a", 1, Judgement::Valid),
            point("b", 1, Judgement::Failing),
            point("a", 2, Judgement::Unstable),
            point("b", 2, Judgement::Valid),
        ];
        let found = comparisons(&points);
        assert_eq!((found[0].ratio.n, found[0].left_out), (1, 1));
        assert!(comparisons(&points[..2]).is_empty());
    }
}
