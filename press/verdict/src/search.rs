//! What a search comes to: the knee of its curve, and the sentence that answers its question. The rates it tries are [`Edge`]'s.
//!
//! It offers nothing itself. Its invariant: the answer is an interval, a rate that met the SLO in most of its attempts and one that
//! did not; where one of them was not found, that is said.

mod edge;

pub use edge::{Edge, Next};

use crate::{Judgement, Point, Tried};

/// One sentence that answers the question.
pub fn sentence(edge: &Edge, target: &str, slo: &str) -> String {
    match (edge.met(), edge.missed()) {
        (Some(met), Some(_)) if edge.is_generator() => format!(
            "{target} meets {slo} at {met:.0}/s; above it the load generator was the limit, so the server's own limit is higher"
        ),
        (Some(met), Some(missed)) => {
            format!("{target} meets {slo} up to {met:.0}/s and misses it at {missed:.0}/s")
        }
        (Some(met), None) => {
            format!("{target} meets {slo} at {met:.0}/s, the highest rate that was tried (search.rate_max)")
        }
        (None, Some(missed)) => {
            format!("{target} misses {slo} at every rate that was tried, down to {missed:.1}/s")
        }
        (None, None) => "no rate was tried to its end".into(),
    }
}

/// The knee of throughput against latency: the point farthest from the line between the curve's ends, both axes scaled to
/// 1 (Satopaa et al., "Finding a Kneedle in a Haystack", 2011). Nothing for fewer than four rates.
pub fn knee(tried: &[Tried], points: &[Point]) -> Option<f64> {
    let mut curve: Vec<(f64, f64)> = tried
        .iter()
        .filter_map(|tried| {
            let point = points.get(tried.point.checked_sub(1)?)?;
            // Where most answers are missing, those that came say nothing of the rate.
            if point.verdict.judgement == Judgement::Failing {
                return None;
            }
            Some((tried.rate, point.latency.us_p99.or(point.latency.us_p50)?.ln()))
        })
        .collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    curve.dedup_by(|a, b| a.0 == b.0);
    farthest(&curve)
}

fn farthest(curve: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (curve.first()?, curve.last()?);
    if curve.len() < 4 || last.1 <= first.1 {
        return None;
    }
    let distance = |&(x, y): &(f64, f64)| {
        let x = (x - first.0) / (last.0 - first.0);
        let y = (y - first.1) / (last.1 - first.1);
        x - y
    };
    let best = curve.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    Some(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_the_curve_turns() {
        let curve: Vec<(f64, f64)> = [(1.0, 1.0), (2.0, 1.1), (3.0, 1.2), (4.0, 1.4), (5.0, 6.0)].into();
        assert_eq!(farthest(&curve), Some(4.0));
        assert_eq!(farthest(&curve[..3]), None);
        assert_eq!(farthest(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0), (4.0, 2.0)]), None);
    }
}
