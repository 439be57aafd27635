//! The highest rate that meets an SLO: doubling until it is missed, bisection, then repeats on both sides of the edge.
//!
//! Its invariant: the answer is an interval, a rate that met the SLO in every repeat and one that missed it; where one of
//! them was not found, that is said.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_press_report::{Judgement, Search, Tried};

use crate::Error;
use crate::engine::{Amount, Offer};
use crate::scenario::Scenario;
use crate::scenario_run::{At, Run, Up};
use crate::session::Session;

/// The warm-up of each rate where the scenario does not say.
const WARMUP_MAX: Duration = Duration::from_secs(1);
/// After a rate that was missed, so that its backlog is gone before the next.
const PAUSE: Duration = Duration::from_millis(500);
/// Rates that are tried before the edge is repeated.
const STEPS_MAX: usize = 60;
/// How often a rate is offered again whose point missed but cannot be believed.
const DOUBTS_MAX: usize = 2;
/// A rate is offered for no longer than this, however few requests it makes.
const POINT_S_MAX: f64 = 60.0;

/// What must hold before a search is begun.
pub(crate) fn check(scenario: &Scenario) -> Result<(), String> {
    if scenario.slo.is_none() {
        return Err(
            "press search needs an `slo`, such as slo = \"p99 < 5ms, errors < 0.1%\" at the top of the file"
                .into(),
        );
    }
    if scenario.targets.len() > 1 || scenario.load.connections.len() > 1 || scenario.grid.len() > 1 {
        return Err(
            "press search takes one target, one number of connections and no grid; \
                    search each by itself, or compare them with press run"
                .into(),
        );
    }
    let search = &scenario.search;
    if search.rate_start > search.rate_max {
        return Err(format!(
            "search.rate_start is {}, above search.rate_max {}",
            search.rate_start, search.rate_max
        ));
    }
    Ok(())
}

/// The search so far.
#[derive(Default)]
struct Edge {
    /// The lowest rate that missed the SLO.
    missed: Option<f64>,
    tried: Vec<Tried>,
    /// Whether it was missed because the load generator was the limit.
    generator: bool,
}

/// Searches on one target; false if it was interrupted.
pub(crate) async fn walk(
    run: &mut Run,
    combination: &BTreeMap<String, String>,
    up: &mut [Up],
) -> Result<bool, Error> {
    let connections = run.scenario.load.connections[0];
    // A search is an open loop, whatever the scenario's points are.
    run.scenario.load.arrivals.get_or_insert_default();
    let Some(mut session) = run.session(0, connections, &up[0]).await? else {
        return Ok(false);
    };
    let mut edge = Edge::default();
    let at = |rate, repeat| At {
        combination,
        target: 0,
        connections,
        rate: Some(rate),
        repeat,
    };
    let settings = run.scenario.search.clone();
    let needed = run.scenario.slo.as_ref().map_or(1.0, |slo| slo.samples_needed());
    let (mut whole, mut repeat) = (true, 1);
    while whole && edge.tried.len() < STEPS_MAX {
        let (rate, which) = match edge.next(settings.rate_start, settings.rate_max, settings.resolution) {
            // Below this a point would take longer than anybody waits for its percentiles to be named.
            Some(rate) if rate * POINT_S_MAX < needed => break,
            Some(rate) => (rate, 1),
            // The edge is found: it must hold again.
            None if repeat < settings.repeats => match edge.met() {
                Some(met) => (met, repeat + 1),
                None => break,
            },
            None => break,
        };
        whole = edge
            .attempt(run, at(rate, which), &mut session, &mut up[0])
            .await?;
        // A rate that met the SLO once and not again is beyond the edge, and the edge is sought again below it.
        let holds = edge.met() == Some(rate);
        repeat = if holds { which } else { 1 };
    }
    run.result.search = Some(edge.result(run));
    Ok(whole)
}

impl Edge {
    /// The next rate: double while nothing was missed, halve while nothing was met, then the middle.
    fn next(&self, start: f64, max: f64, resolution: f64) -> Option<f64> {
        let met = self.met();
        let next = match (met, self.missed) {
            (None, None) => start,
            (Some(met), None) if met >= max => return None,
            (Some(met), None) => (2.0 * met).min(max),
            (None, Some(missed)) if missed <= 1.0 => return None,
            (None, Some(missed)) => (missed / 2.0).max(1.0),
            (Some(met), Some(missed)) if missed <= met * (1.0 + resolution) => return None,
            // In the middle of the ratio: the edge is as likely in either part.
            (Some(met), Some(missed)) => (met * missed).sqrt(),
        };
        // Whole rates read better, and nothing is known more exactly.
        let next = if next > 1_000.0 {
            next.round()
        } else {
            (next * 10.0).round() / 10.0
        };
        (Some(next) != met && Some(next) != self.missed).then_some(next)
    }

    async fn attempt(
        &mut self,
        run: &mut Run,
        at: At<'_>,
        session: &mut Session,
        up: &mut Up,
    ) -> Result<bool, Error> {
        let rate = at.rate.unwrap_or_default();
        let mut judged = (false, false);
        for _doubt in 0..=DOUBTS_MAX {
            let offer = self.offer(run, rate);
            if run.point(&at, &offer, session, up).await? {
                return Ok(false);
            }
            let Some(point) = run.last() else { return Ok(false) };
            let met = point.slo.as_ref().is_some_and(|slo| slo.met);
            let judgement = point.verdict.judgement;
            judged = (met, judgement == Judgement::GeneratorBound);
            self.tried.push(Tried {
                rate,
                point: point.number,
                met,
            });
            if met || !matches!(judgement, Judgement::GeneratorBound | Judgement::EnvDrift) {
                break;
            }
            // A miss that is not the server's is no miss: the rate is offered again.
            tokio::time::sleep(PAUSE).await;
        }
        let (met, is_generator) = judged;
        if !met {
            self.miss(rate, is_generator);
            tokio::time::sleep(PAUSE).await;
        }
        Ok(true)
    }

    fn offer(&self, run: &Run, rate: f64) -> Offer {
        let scenario = &run.scenario;
        let needed = scenario.slo.as_ref().map_or(1.0, |slo| slo.samples_needed());
        // Long enough for the percentiles to be named, with room for what a Poisson process leaves out.
        let seconds = scenario
            .search
            .point_s
            .max((1.2 * needed / rate).min(POINT_S_MAX));
        Offer {
            open: Some((scenario.load.arrivals.clone().unwrap_or_default(), Some(rate))),
            think: Duration::ZERO,
            amount: Amount::For(Duration::from_secs_f64(seconds)),
            warmup_max: scenario.load.warmup_said.unwrap_or(WARMUP_MAX),
            seed: scenario.seed.wrapping_add(self.tried.len() as u64),
        }
    }

    /// A rate missed the SLO, whoever was the limit.
    fn miss(&mut self, rate: f64, is_generator: bool) {
        if self.missed.is_none_or(|before| rate <= before) {
            self.missed = Some(rate);
            self.generator = is_generator;
        }
    }

    /// The highest rate that met the SLO, of those below the lowest that missed it.
    fn met(&self) -> Option<f64> {
        let missed = self.missed.unwrap_or(f64::INFINITY);
        let met = self.tried.iter().filter(|tried| tried.met && tried.rate < missed);
        met.map(|tried| tried.rate).max_by(f64::total_cmp)
    }

    fn result(self, run: &Run) -> Search {
        let slo = run
            .scenario
            .slo
            .as_ref()
            .map(|slo| slo.text.clone())
            .unwrap_or_default();
        let met = self.met();
        let sentence = match (met, self.missed) {
            (Some(met), Some(_)) if self.generator => format!(
                "{} meets {slo} at {met:.0}/s; above it the load generator was the limit, so the server's own limit is higher",
                run.scenario.targets[0].name
            ),
            (Some(met), Some(missed)) => format!(
                "{} meets {slo} up to {met:.0}/s and misses it at {missed:.0}/s",
                run.scenario.targets[0].name
            ),
            (Some(met), None) => format!(
                "{} meets {slo} at {met:.0}/s, the highest rate that was tried (search.rate_max)",
                run.scenario.targets[0].name
            ),
            (None, Some(missed)) => format!(
                "{} misses {slo} at every rate that was tried, down to {missed:.1}/s",
                run.scenario.targets[0].name
            ),
            (None, None) => "no rate was tried to its end".into(),
        };
        Search {
            target: run.scenario.targets[0].name.clone(),
            slo,
            rate_met: met,
            rate_missed: self.missed,
            rate_knee: knee(&self.tried, run),
            tried: self.tried,
            sentence,
        }
    }
}

/// The knee of throughput against latency: the point farthest from the line between the curve's ends, both axes scaled to
/// 1 (Satopaa et al., "Finding a Kneedle in a Haystack", 2011). Nothing for fewer than four rates.
fn knee(tried: &[Tried], run: &Run) -> Option<f64> {
    let mut curve: Vec<(f64, f64)> = tried
        .iter()
        .filter_map(|tried| {
            let point = run.result.points.get(tried.point.checked_sub(1)?)?;
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

    /// Walks against a server whose capacity is known.
    fn search(capacity: f64, start: f64, max: f64) -> Edge {
        let mut edge = Edge::default();
        while let Some(rate) = edge.next(start, max, 0.03) {
            let met = rate <= capacity;
            edge.tried.push(Tried { rate, point: 1, met });
            assert!(edge.tried.len() < STEPS_MAX);
            if !met {
                edge.miss(rate, false);
            }
        }
        edge
    }

    #[test]
    fn the_edge_is_found_from_below_and_from_above() {
        for capacity in [3.0, 950.0, 5_000.0, 123_456.0] {
            let edge = search(capacity, 1_000.0, 1e6);
            let (met, missed) = (edge.met().unwrap_or_default(), edge.missed.unwrap_or_default());
            assert!(
                met <= capacity && capacity < missed && missed <= met * 1.08,
                "{met} {capacity} {missed}"
            );
            assert!(edge.tried.len() < 25);
        }
        assert_eq!(search(1e9, 1_000.0, 50_000.0).met(), Some(50_000.0));
        assert_eq!(search(0.0, 1_000.0, 50_000.0).missed, Some(1.0));
    }

    #[test]
    fn the_knee_is_where_the_curve_turns() {
        let curve: Vec<(f64, f64)> = [(1.0, 1.0), (2.0, 1.1), (3.0, 1.2), (4.0, 1.4), (5.0, 6.0)].into();
        assert_eq!(farthest(&curve), Some(4.0));
        assert_eq!(farthest(&curve[..3]), None);
        assert_eq!(farthest(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0), (4.0, 2.0)]), None);
    }
}
