//! The exit code of a program that ran a scenario to its end.
//!
//! Its invariant: 0 only where every request was answered rightly, or where an SLO says what may be missing and nothing more is.

use std::collections::BTreeMap;

use crate::{Judgement, LoadKind, Point, Search};

use crate::judge::is_doubted;

/// An SLO decides where there is one; without one, any failure is one too many. With `until_missed` a rate that misses is the
/// end of the rates, and a failure only where none met it.
pub fn exit_code(points: &[Point], search: Option<&Search>, until_missed: bool) -> u8 {
    if points.is_empty() {
        return 3;
    }
    if let Some(search) = search {
        return of_search(search, points);
    }
    let mut rising: BTreeMap<_, Vec<&Point>> = BTreeMap::new();
    for point in points {
        // Rates rise anew for each of these.
        let key = (
            &point.grid,
            &point.target.name,
            point.offered.connections,
            point.repeat,
        );
        rising.entry(key).or_default().push(point);
    }
    let met = |point: &&Point| point.slo.as_ref().is_some_and(|slo| slo.met);
    let mut codes = Vec::new();
    for points in rising.values() {
        let has_risen = until_missed && points.iter().any(met);
        let counts = |point: &&&Point| !has_risen || met(point);
        codes.extend(points.iter().filter(counts).map(|point| of_point(point)));
    }
    // A failure is told before a doubt: 1 before 3.
    [1, 3].into_iter().find(|code| codes.contains(code)).unwrap_or(0)
}

/// A search that found no rate failed, unless all it saw was a load generator or a machine that could not do it. One whose rate
/// was never met in a point that can be believed is run again.
fn of_search(search: &Search, points: &[Point]) -> u8 {
    if let Some(rate) = search.rate_met {
        let at_rate = search
            .tried
            .iter()
            .filter(|tried| tried.met && tried.rate == rate);
        let mut met = at_rate.filter_map(|tried| points.iter().find(|point| point.number == tried.point));
        let is_believed = |point: &Point| {
            !matches!(
                point.verdict.judgement,
                Judgement::GeneratorBound | Judgement::Unstable
            )
        };
        return if met.any(is_believed) { 0 } else { 3 };
    }
    if points.iter().all(is_doubted) { 3 } else { 1 }
}

/// A missed SLO of a point that cannot be believed is no missed SLO; one that was met although others took part is met.
fn of_point(point: &Point) -> u8 {
    let counters = &point.counters;
    let met = point.slo.as_ref().map(|slo| slo.met);
    let judgement = point.verdict.judgement;
    let failed = counters.failed_total() + counters.connections_failed > 0;
    // An SLO says what refusals are worth; without one, a server that only refuses was not measured.
    let has_result = counters.answers() > 0 || failed || (met.is_some() && counters.refused_total() > 0);
    match met {
        _ if !has_result => 3,
        Some(false) if is_doubted(point) => 3,
        Some(false) => 1,
        Some(true) if matches!(judgement, Judgement::GeneratorBound | Judgement::Unstable) => 3,
        Some(true) => 0,
        None if failed => 1,
        // A load generator that is late leaves the end of its schedule unsent.
        None if counters.not_sent > 0 && is_doubted(point) && point.offered.kind == LoadKind::Open => 3,
        None => u8::from(counters.not_sent > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SloOutcome, Tried};
    use millpond_press_recorder::ResourceSecond;

    fn judged(met: Option<bool>, judgement: Judgement) -> Point {
        let mut point = Point::default();
        point.counters.ok = 10;
        point.verdict.judgement = judgement;
        point.slo = met.map(|met| SloOutcome {
            met,
            ..SloOutcome::default()
        });
        point
    }

    #[test]
    fn rates_that_rise_end_with_a_miss() {
        let points = |met: &[bool]| -> Vec<Point> {
            let points = met.iter().map(|met| judged(Some(*met), Judgement::Valid));
            points.collect()
        };
        assert_eq!(exit_code(&points(&[true, false]), None, true), 0);
        assert_eq!(exit_code(&points(&[true, false]), None, false), 1);
        assert_eq!(exit_code(&points(&[false]), None, true), 1);
        // What one number of connections reached is nothing that another did.
        let mut two = points(&[true, false, false]);
        two[2].offered.connections = 600;
        assert_eq!(exit_code(&two, None, true), 1);
        assert_eq!(exit_code(&[], None, false), 3);
    }

    #[test]
    fn a_missed_slo_is_the_servers_only_in_a_point_that_can_be_believed() {
        let code = |met: Option<bool>, judgement| of_point(&judged(met, judgement));
        assert_eq!(code(None, Judgement::EnvDrift), 0);
        assert_eq!(code(Some(true), Judgement::EnvDrift), 0);
        assert_eq!(code(Some(true), Judgement::GeneratorBound), 3);
        assert_eq!(code(Some(false), Judgement::Valid), 1);
        assert_eq!(code(Some(false), Judgement::Unstable), 1);
        assert_eq!(code(Some(false), Judgement::Failing), 1);
        assert_eq!(code(Some(false), Judgement::EnvDrift), 3);
        assert_eq!(
            of_point(&Point::default()),
            3,
            "a point without an answer is no result"
        );
    }

    #[test]
    fn a_load_that_was_not_offered_meets_nothing_and_others_who_took_part_excuse_a_miss() {
        let code = |met, foreign_percent, change: fn(&mut Point)| {
            let mut point = judged(Some(met), Judgement::Valid);
            point.resources.seconds = vec![ResourceSecond {
                foreign_percent: Some(foreign_percent),
                ..ResourceSecond::default()
            }];
            change(&mut point);
            point.verdict = crate::judge::judge(&point);
            of_point(&point)
        };
        let closed = |point: &mut Point| {
            point.offered.connections = 100;
            point.counters.connections_failed = 300;
            point.counters.connections_down = 60;
        };
        let open = |point: &mut Point| {
            point.offered.kind = LoadKind::Open;
            point.counters.not_sent = 90;
        };
        for change in [closed, open] {
            assert_eq!((code(true, 0.0, change), code(true, 60.0, change)), (3, 3));
            assert_eq!((code(false, 0.0, change), code(false, 60.0, change)), (1, 3));
        }
        assert_eq!(code(true, 60.0, |_| {}), 0, "the whole load was offered");
    }

    #[test]
    fn without_an_slo_every_request_must_be_answered() {
        let code = |change: fn(&mut Point)| {
            let mut point = judged(None, Judgement::Valid);
            change(&mut point);
            of_point(&point)
        };
        assert_eq!(code(|point| point.counters.wrong = 1), 1);
        assert_eq!(code(|point| point.counters.not_sent = 1), 1);
        assert_eq!(code(|point| point.counters.connections_failed = 1), 1);
        assert_eq!(
            code(|point| {
                point.counters.refused.insert(30_101, 5);
            }),
            0,
            "a refusal is an answer"
        );
        let late = |point: &mut Point| {
            point.counters.not_sent = 1;
            point.offered.kind = LoadKind::Open;
            point.verdict.judgement = Judgement::GeneratorBound;
        };
        assert_eq!(code(late), 3);
        let mut met = judged(Some(true), Judgement::Valid);
        met.counters.wrong = 1;
        assert_eq!(of_point(&met), 0, "the SLO decides");
    }

    #[test]
    fn nothing_but_refusals_is_missed_where_an_slo_asks() {
        let mut point = judged(None, Judgement::Unstable);
        point.counters.ok = 0;
        point.counters.refused.insert(30_101, 5);
        assert_eq!(of_point(&point), 3);
        point.slo = Some(SloOutcome::default());
        assert_eq!(of_point(&point), 1);
    }

    #[test]
    fn a_search_that_saw_only_a_slow_generator_is_run_again() {
        let search = |rate_met: Option<f64>, judgements: &[Judgement]| {
            let points = judgements.iter().enumerate().map(|(at, judgement)| Point {
                number: at + 1,
                ..judged(Some(rate_met.is_some()), *judgement)
            });
            let points: Vec<Point> = points.collect();
            let tried = (1..=judgements.len()).map(|point| Tried {
                rate: 5.0,
                point,
                met: rate_met.is_some(),
            });
            let search = Search {
                rate_met,
                tried: tried.collect(),
                ..Search::default()
            };
            exit_code(&points, Some(&search), false)
        };
        assert_eq!(
            search(Some(5.0), &[Judgement::GeneratorBound, Judgement::Valid]),
            0
        );
        assert_eq!(search(Some(5.0), &[Judgement::EnvDrift]), 0);
        assert_eq!(
            search(Some(5.0), &[Judgement::GeneratorBound, Judgement::Unstable]),
            3
        );
        assert_eq!(search(None, &[Judgement::GeneratorBound, Judgement::EnvDrift]), 3);
        assert_eq!(search(None, &[Judgement::GeneratorBound, Judgement::Failing]), 1);
    }
}
