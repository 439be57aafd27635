//! Whether a bar is met, by the figures it was made of and the conditions they were measured under.
//!
//! Figures of valid points decide by their value. Where the machine drifted, a ratio of two loads that took turns may still
//! decide: by the interval of at least [`PAIRS_MIN`] pairs whose sides lost nearly the same to the hypervisor. Its invariant: a load
//! that was not offered as asked, one that did not settle, and a figure that is no number, pass nothing; and nothing unfit to decide
//! passes or fails.

use std::fmt;

use millpond_press_recorder::Interval;
use serde::Serialize;

use super::conditions::Standing;
use super::series::{Figure, Series};
use super::{Bar, Op};

/// Pairs that an interval needs before it decides.
pub const PAIRS_MIN: usize = 9;
/// Both sides of a pair that counts lost nearly the same to the hypervisor: less than so many points of a core apart.
const STEAL_APART_MAX: f64 = 5.0;

/// What a bar's figure says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It is met.
    Pass,
    /// It is not.
    Fail,
    /// The machine was not quiet enough to tell.
    Noisy,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Decides a bar by its value, which was made of `runs`.
pub fn decide(bar: &Bar, value: f64, runs: &Series) -> Decision {
    let is_drifted = standings(runs).any(|standing| standing == Standing::Drifted);
    let decided = match interval(runs) {
        _ if !is_drifted => by_value(bar, value),
        Some(interval) if interval.n >= PAIRS_MIN => by_interval(bar, interval),
        _ => Decision::Noisy,
    };
    match value.is_nan() {
        true => Decision::Fail,
        false => under(runs, decided),
    }
}

/// Decides a bar whose value is the upper end of its ratio's interval: it says that the interval is not wholly below the limit.
/// It decides on pairs alone, however quiet the machine was.
pub fn decide_upper_end(bar: &Bar, runs: &Series) -> (f64, Decision) {
    let Some(interval) = interval(runs) else {
        return (f64::NAN, Decision::Fail);
    };
    let decided = match interval.n >= PAIRS_MIN {
        true => by_value(bar, interval.high),
        false => Decision::Noisy,
    };
    (interval.high, under(runs, decided))
}

fn by_value(bar: &Bar, value: f64) -> Decision {
    match bar.passes(value) {
        true => Decision::Pass,
        false => Decision::Fail,
    }
}

/// What is left of a decision under the worst condition of its figures.
fn under(runs: &Series, decided: Decision) -> Decision {
    match (standings(runs).max(), decided) {
        (Some(Standing::NotSent), _) => Decision::Fail,
        (Some(Standing::Unfit), _) => Decision::Noisy,
        // Where a load did not settle, a good figure may be luck; a bad one is the server's.
        (Some(Standing::Unsettled), Decision::Pass) => Decision::Noisy,
        (_, decided) => decided,
    }
}

/// The interval of a ratio: the geometric mean of its pairs with Student's interval at 95 %. Pairs count whose sides lost nearly the
/// same to the hypervisor; nothing where there is none, or where the figures are no ratio of two loads.
pub fn interval(runs: &Series) -> Option<Interval> {
    let counted = runs.figures().iter().filter(|figure| counts(figure));
    let ratios: Vec<f64> = counted.map(|figure| figure.value).collect();
    Interval::of_ratios(&ratios, &vec![1.0; ratios.len()])
}

fn counts(figure: &Figure) -> bool {
    let sides = figure.conditions.zip(figure.beside);
    sides.is_some_and(|(own, beside)| (own.steal_percent - beside.steal_percent).abs() < STEAL_APART_MAX)
}

/// The standings of all figures, on either side.
fn standings(runs: &Series) -> impl Iterator<Item = Standing> {
    let both = runs
        .figures()
        .iter()
        .flat_map(|figure| [figure.conditions, figure.beside]);
    both.flatten().map(|conditions| conditions.standing)
}

/// A whole interval on one side of the limit decides.
fn by_interval(bar: &Bar, interval: Interval) -> Decision {
    let (good, bad) = match bar.op {
        Op::AtLeast => (interval.low >= bar.limit, interval.high < bar.limit),
        Op::AtMost => (interval.high <= bar.limit, interval.low > bar.limit),
        // An interval has no side of a single value.
        Op::Equal => (false, false),
    };
    match (good, bad) {
        (true, _) => Decision::Pass,
        (_, true) => Decision::Fail,
        _ => Decision::Noisy,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Conditions;
    use super::*;

    const LEAST: Bar = Bar::new("a-over-b", Op::AtLeast, 0.9);
    const MOST: Bar = Bar::new("c-us", Op::AtMost, 2.0);

    fn under(standing: Standing, steal_percent: f64) -> Option<Conditions> {
        Some(Conditions {
            standing,
            steal_percent,
        })
    }

    /// `count` rounds of a ratio, some a little above `value` and some below.
    fn ratio(value: f64, count: usize, standing: Standing, steals: (f64, f64)) -> Series {
        (0..count)
            .map(|round| Figure {
                value: value * [0.99, 1.0, 1.01][round % 3],
                conditions: under(Standing::Valid, steals.0),
                beside: under(standing, steals.1),
            })
            .collect()
    }

    fn alone(standing: Standing, value: f64) -> Series {
        [Figure {
            value,
            conditions: under(standing, 0.0),
            beside: None,
        }]
        .into_iter()
        .collect()
    }

    #[test]
    fn valid_figures_decide_by_their_value() {
        let check = |bar: &Bar, value, expected| {
            assert_eq!(decide(bar, value, &alone(Standing::Valid, value)), expected);
            // What no load has part in is judged alike.
            assert_eq!(decide(bar, value, &[value].into_iter().collect()), expected);
        };
        check(&LEAST, 0.91, Decision::Pass);
        check(&LEAST, 0.89, Decision::Fail);
        check(&MOST, 2.0, Decision::Pass);
        check(&MOST, f64::NAN, Decision::Fail);
        assert_eq!(
            decide(&LEAST, f64::NAN, &alone(Standing::Drifted, 1.0)),
            Decision::Fail
        );
    }

    #[test]
    fn a_load_that_was_not_sent_passes_nothing() {
        assert_eq!(
            decide(&LEAST, 1.5, &alone(Standing::NotSent, 1.5)),
            Decision::Fail
        );
        let runs = ratio(1.5, 9, Standing::NotSent, (0.0, 0.0));
        assert_eq!(decide(&LEAST, 1.5, &runs), Decision::Fail);
        assert_eq!(decide_upper_end(&LEAST, &runs).1, Decision::Fail);
    }

    #[test]
    fn what_did_not_settle_fails_but_never_passes() {
        // The failing figures passed as noise once.
        for (value, expected) in [(0.5, Decision::Fail), (1.5, Decision::Noisy)] {
            let one = alone(Standing::Unsettled, value);
            assert_eq!(decide(&LEAST, value, &one), expected, "{value}");
            let runs = ratio(value, 20, Standing::Unsettled, (0.0, 0.0));
            assert_eq!(decide(&LEAST, value, &runs), expected, "{value}");
            assert_eq!(decide_upper_end(&LEAST, &runs).1, expected, "{value}");
        }
        let few = ratio(0.5, 8, Standing::Unsettled, (0.0, 0.0));
        assert_eq!(decide_upper_end(&LEAST, &few).1, Decision::Noisy);
    }

    #[test]
    fn what_did_not_settle_on_a_drifting_machine_fails_by_its_interval_alone() {
        let check = |value, count, expected| {
            let steals = (30.0, 31.0);
            let (drifted, unsettled) = (
                ratio(value, count, Standing::Drifted, steals),
                ratio(value, 1, Standing::Unsettled, steals),
            );
            let both = drifted.figures().iter().chain(unsettled.figures()).copied();
            assert_eq!(
                decide(&LEAST, value, &both.collect()),
                expected,
                "{value} {count}"
            );
        };
        check(0.8, 9, Decision::Fail);
        check(0.8, 3, Decision::Noisy);
        check(1.0, 9, Decision::Noisy);
    }

    #[test]
    fn what_was_the_presss_own_decides_nothing() {
        for value in [0.5, 1.5] {
            assert_eq!(
                decide(&LEAST, value, &alone(Standing::Unfit, value)),
                Decision::Noisy
            );
            let runs = ratio(value, 20, Standing::Unfit, (0.0, 0.0));
            assert_eq!(decide(&LEAST, value, &runs), Decision::Noisy);
        }
    }

    #[test]
    fn a_drifted_figure_without_a_side_beside_it_decides_nothing() {
        assert_eq!(
            decide(&MOST, 0.1, &alone(Standing::Drifted, 0.1)),
            Decision::Noisy
        );
    }

    #[test]
    fn drifted_pairs_decide_by_their_interval() {
        let check = |value, count, steals, expected| {
            let runs = ratio(value, count, Standing::Drifted, steals);
            assert_eq!(
                decide(&LEAST, value, &runs),
                expected,
                "{value} {count} {steals:?}"
            );
        };
        check(1.0, 9, (30.0, 31.0), Decision::Pass);
        check(0.8, 9, (30.0, 31.0), Decision::Fail);
        // The limit lies within.
        check(0.9, 9, (30.0, 31.0), Decision::Noisy);
        check(1.0, 8, (30.0, 31.0), Decision::Noisy);
        // One side lost more than the other.
        check(1.0, 9, (30.0, 35.0), Decision::Noisy);
        check(1.0, 9, (30.0, 34.9), Decision::Pass);
    }

    #[test]
    fn pairs_that_lost_unlike_shares_do_not_count() {
        let even = ratio(1.0, 9, Standing::Drifted, (30.0, 30.0));
        let uneven = ratio(0.1, 3, Standing::Drifted, (30.0, 60.0));
        let both: Series = even.figures().iter().chain(uneven.figures()).copied().collect();
        assert_eq!(interval(&both).unwrap().n, 9);
        assert_eq!(decide(&LEAST, 1.0, &both), Decision::Pass);
    }

    #[test]
    fn a_limit_from_above_and_a_single_value() {
        let runs = |value| ratio(value, 9, Standing::Drifted, (1.0, 1.0));
        assert_eq!(decide(&MOST, 1.9, &runs(1.9)), Decision::Pass);
        assert_eq!(decide(&MOST, 2.0, &runs(2.0)), Decision::Noisy);
        assert_eq!(decide(&MOST, 2.2, &runs(2.2)), Decision::Fail);
        let one = Bar::new("d", Op::Equal, 1.0);
        assert_eq!(decide(&one, 1.0, &runs(1.0)), Decision::Noisy);
    }

    #[test]
    fn an_upper_end_needs_nine_pairs_and_no_valid_verdict() {
        let check = |value, count, standing, expected| {
            let runs = ratio(value, count, standing, (1.0, 1.0));
            let (end, verdict) = decide_upper_end(&LEAST, &runs);
            assert!(
                end > value && verdict == expected,
                "{value} {count}: {end} {verdict}"
            );
        };
        check(0.9, 9, Standing::Valid, Decision::Pass);
        check(0.9, 9, Standing::Drifted, Decision::Pass);
        check(0.8, 9, Standing::Valid, Decision::Fail);
        check(1.0, 8, Standing::Valid, Decision::Noisy);
        check(1.0, 9, Standing::Unfit, Decision::Noisy);
        let (end, verdict) = decide_upper_end(&LEAST, &Series::default());
        assert!(end.is_nan() && verdict == Decision::Fail);
    }
}
