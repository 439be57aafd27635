//! Whether a bar is met, by the figures it was made of and the conditions they were measured under.
//!
//! Figures of valid points decide by their value. Where the machine drifted, a ratio of two loads that took turns may still
//! decide: by the interval of at least [`PAIRS_MIN`] pairs whose sides lost nearly the same to the hypervisor. Its invariant: a load
//! that was not offered as asked, one that did not settle, and a figure that is no number, pass nothing; and nothing unfit to decide
//! passes or fails.

use crate::bar::{Bar, Op};
use crate::conditions::Standing;
use crate::series::{Figure, Series};
use millpond_press_recorder::Interval;
use std::fmt;

/// Pairs that an interval needs before it decides.
pub(crate) const PAIRS_MIN: usize = 9;
/// Both sides of a pair that counts lost nearly the same to the hypervisor: less than so many points of a core apart.
const STEAL_APART_MAX: f64 = 5.0;

/// What a bar's figure says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Pass,
    Fail,
    /// The machine was not quiet enough to tell.
    Noisy,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Noisy => "noisy",
        })
    }
}

/// Judges a bar by its value, which was made of `runs`.
pub(crate) fn judge(bar: &Bar, value: f64, runs: &Series) -> Verdict {
    let by_value = if bar.passes(value) {
        Verdict::Pass
    } else {
        Verdict::Fail
    };
    let decided = match (holds(runs, Standing::Drifted), interval(runs)) {
        (false, _) => by_value,
        (true, Some(interval)) if interval.n >= PAIRS_MIN => by_interval(bar, interval),
        (true, _) => Verdict::Noisy,
    };
    match worst(runs) {
        _ if value.is_nan() => Verdict::Fail,
        Standing::NotSent => Verdict::Fail,
        Standing::Unfit => Verdict::Noisy,
        Standing::Unsettled => unsettled(decided),
        Standing::Valid | Standing::Drifted => decided,
    }
}

/// What is left of a verdict where a load did not settle: a good figure may be luck, a bad one is the server's.
fn unsettled(decided: Verdict) -> Verdict {
    match decided {
        Verdict::Pass => Verdict::Noisy,
        other => other,
    }
}

/// Judges a bar whose value is the upper end of its ratio's interval: it says that the interval is not wholly below the limit.
/// It decides on pairs alone, however quiet the machine was.
pub(crate) fn judge_upper_end(bar: &Bar, runs: &Series) -> (f64, Verdict) {
    let Some(interval) = interval(runs) else {
        return (f64::NAN, Verdict::Fail);
    };
    let decided = match interval.n >= PAIRS_MIN {
        false => Verdict::Noisy,
        true if bar.passes(interval.high) => Verdict::Pass,
        true => Verdict::Fail,
    };
    let verdict = match worst(runs) {
        Standing::NotSent => Verdict::Fail,
        Standing::Unfit => Verdict::Noisy,
        Standing::Unsettled => unsettled(decided),
        Standing::Valid | Standing::Drifted => decided,
    };
    (interval.high, verdict)
}

/// The interval of a ratio: the geometric mean of its pairs with Student's interval at 95 %. Pairs count whose sides lost nearly the
/// same to the hypervisor; nothing where there is none, or where the figures are no ratio of two loads.
pub(crate) fn interval(runs: &Series) -> Option<Interval> {
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

fn worst(runs: &Series) -> Standing {
    standings(runs).max().unwrap_or(Standing::Valid)
}

fn holds(runs: &Series, sought: Standing) -> bool {
    standings(runs).any(|standing| standing == sought)
}

/// A whole interval on one side of the limit decides.
fn by_interval(bar: &Bar, interval: Interval) -> Verdict {
    let (good, bad) = match bar.op {
        Op::AtLeast => (interval.low >= bar.limit, interval.high < bar.limit),
        Op::AtMost => (interval.high <= bar.limit, interval.low > bar.limit),
        // An interval has no side of a single value.
        Op::Equal => (false, false),
    };
    match (good, bad) {
        (true, _) => Verdict::Pass,
        (_, true) => Verdict::Fail,
        _ => Verdict::Noisy,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::conditions::Conditions;

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
            assert_eq!(judge(bar, value, &alone(Standing::Valid, value)), expected);
            // What no load has part in is judged alike.
            assert_eq!(judge(bar, value, &[value].into_iter().collect()), expected);
        };
        check(&LEAST, 0.91, Verdict::Pass);
        check(&LEAST, 0.89, Verdict::Fail);
        check(&MOST, 2.0, Verdict::Pass);
        check(&MOST, f64::NAN, Verdict::Fail);
        assert_eq!(
            judge(&LEAST, f64::NAN, &alone(Standing::Drifted, 1.0)),
            Verdict::Fail
        );
    }

    #[test]
    fn a_load_that_was_not_sent_passes_nothing() {
        assert_eq!(judge(&LEAST, 1.5, &alone(Standing::NotSent, 1.5)), Verdict::Fail);
        let runs = ratio(1.5, 9, Standing::NotSent, (0.0, 0.0));
        assert_eq!(judge(&LEAST, 1.5, &runs), Verdict::Fail);
        assert_eq!(judge_upper_end(&LEAST, &runs).1, Verdict::Fail);
    }

    #[test]
    fn what_did_not_settle_fails_but_never_passes() {
        // The failing figures passed as noise once.
        for (value, expected) in [(0.5, Verdict::Fail), (1.5, Verdict::Noisy)] {
            let one = alone(Standing::Unsettled, value);
            assert_eq!(judge(&LEAST, value, &one), expected, "{value}");
            let runs = ratio(value, 20, Standing::Unsettled, (0.0, 0.0));
            assert_eq!(judge(&LEAST, value, &runs), expected, "{value}");
            assert_eq!(judge_upper_end(&LEAST, &runs).1, expected, "{value}");
        }
        let few = ratio(0.5, 8, Standing::Unsettled, (0.0, 0.0));
        assert_eq!(judge_upper_end(&LEAST, &few).1, Verdict::Noisy);
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
            assert_eq!(judge(&LEAST, value, &both.collect()), expected, "{value} {count}");
        };
        check(0.8, 9, Verdict::Fail);
        check(0.8, 3, Verdict::Noisy);
        check(1.0, 9, Verdict::Noisy);
    }

    #[test]
    fn what_was_the_presss_own_decides_nothing() {
        for value in [0.5, 1.5] {
            assert_eq!(
                judge(&LEAST, value, &alone(Standing::Unfit, value)),
                Verdict::Noisy
            );
            let runs = ratio(value, 20, Standing::Unfit, (0.0, 0.0));
            assert_eq!(judge(&LEAST, value, &runs), Verdict::Noisy);
        }
    }

    #[test]
    fn a_drifted_figure_without_a_side_beside_it_decides_nothing() {
        assert_eq!(judge(&MOST, 0.1, &alone(Standing::Drifted, 0.1)), Verdict::Noisy);
    }

    #[test]
    fn drifted_pairs_decide_by_their_interval() {
        let check = |value, count, steals, expected| {
            let runs = ratio(value, count, Standing::Drifted, steals);
            assert_eq!(
                judge(&LEAST, value, &runs),
                expected,
                "{value} {count} {steals:?}"
            );
        };
        check(1.0, 9, (30.0, 31.0), Verdict::Pass);
        check(0.8, 9, (30.0, 31.0), Verdict::Fail);
        // The limit lies within.
        check(0.9, 9, (30.0, 31.0), Verdict::Noisy);
        check(1.0, 8, (30.0, 31.0), Verdict::Noisy);
        // One side lost more than the other.
        check(1.0, 9, (30.0, 35.0), Verdict::Noisy);
        check(1.0, 9, (30.0, 34.9), Verdict::Pass);
    }

    #[test]
    fn pairs_that_lost_unlike_shares_do_not_count() {
        let even = ratio(1.0, 9, Standing::Drifted, (30.0, 30.0));
        let uneven = ratio(0.1, 3, Standing::Drifted, (30.0, 60.0));
        let both: Series = even.figures().iter().chain(uneven.figures()).copied().collect();
        assert_eq!(interval(&both).unwrap().n, 9);
        assert_eq!(judge(&LEAST, 1.0, &both), Verdict::Pass);
    }

    #[test]
    fn a_limit_from_above_and_a_single_value() {
        let runs = |value| ratio(value, 9, Standing::Drifted, (1.0, 1.0));
        assert_eq!(judge(&MOST, 1.9, &runs(1.9)), Verdict::Pass);
        assert_eq!(judge(&MOST, 2.0, &runs(2.0)), Verdict::Noisy);
        assert_eq!(judge(&MOST, 2.2, &runs(2.2)), Verdict::Fail);
        let one = Bar::new("d", Op::Equal, 1.0);
        assert_eq!(judge(&one, 1.0, &runs(1.0)), Verdict::Noisy);
    }

    #[test]
    fn an_upper_end_needs_nine_pairs_and_no_valid_verdict() {
        let check = |value, count, standing, expected| {
            let runs = ratio(value, count, standing, (1.0, 1.0));
            let (end, verdict) = judge_upper_end(&LEAST, &runs);
            assert!(
                end > value && verdict == expected,
                "{value} {count}: {end} {verdict}"
            );
        };
        check(0.9, 9, Standing::Valid, Verdict::Pass);
        check(0.9, 9, Standing::Drifted, Verdict::Pass);
        check(0.8, 9, Standing::Valid, Verdict::Fail);
        check(1.0, 8, Standing::Valid, Verdict::Noisy);
        check(1.0, 9, Standing::Unfit, Verdict::Noisy);
        let (end, verdict) = judge_upper_end(&LEAST, &Series::default());
        assert!(end.is_nan() && verdict == Verdict::Fail);
    }
}
