//! The cells of a row that stands for all repeats of one load on one target: medians, sums, and ratios to another target.
//!
//! Its invariant: a ratio with an interval is one of `comparisons`; one that was not measured in pairs has none.

use millpond_press_recorder::{Interval, LatencySummary};

use crate::cases::{self, Case};
use crate::number::{ABSENT, percent, ratio};
use crate::table::Cell;
use crate::{Cpu, Judgement, Point, RunResult, describe};

/// The target of a row.
pub(super) fn name(case: &Case<'_>) -> String {
    let first = case.points().first();
    first
        .map(|point| describe::target_name(point))
        .unwrap_or_default()
}

/// The grid's values, so that points of different ones are never joined.
pub(super) fn grid_of(point: &Point) -> String {
    let values = point.grid.iter();
    values.map(|(key, value)| format!("{key}={value} ")).collect()
}

/// The targets of each load, in the order in which they first ran; the grid belongs to the load: targets are compared within it.
pub(super) fn by_load(run: &RunResult) -> Vec<(String, Vec<Case<'_>>)> {
    let cases = cases::join(&run.points, |point| {
        format!("{}\n{}", describe::target_name(point), grid_of(point))
    });
    let mut loads: Vec<(String, Vec<Case<'_>>)> = Vec::new();
    for case in cases {
        let first = case.points().first();
        let load = first
            .map(|point| describe::point_in_words(point))
            .unwrap_or_default();
        match loads.iter_mut().find(|(other, _)| *other == load) {
            Some((_, members)) => members.push(case),
            None => loads.push((load, vec![case])),
        }
    }
    loads
}

/// The sum of a count.
pub(super) fn sum(case: &Case<'_>, count: impl Fn(&Point) -> u64) -> String {
    let points = case.points().iter();
    let total = points.fold(0u64, |sum, point| sum.saturating_add(count(point)));
    total.to_string()
}

/// The median of a latency, as `write` writes it.
pub(super) fn latency(
    case: &Case<'_>,
    write: fn(Option<f64>, &LatencySummary) -> String,
    figure: impl Fn(&LatencySummary) -> Option<f64>,
) -> String {
    let summaries = case.points().iter().map(|point| &point.latency);
    let median = case.median(|point| figure(&point.latency));
    let fewest = summaries.min_by_key(|latency| latency.count);
    fewest.map_or_else(|| ABSENT.into(), |fewest| write(median, fewest))
}

/// The median use of a side.
pub(super) fn share(case: &Case<'_>, cpu: impl Fn(&Point) -> Option<Cpu>) -> String {
    let median = case.median(|point| cpu(point).map(|cpu| cpu.percent));
    median.map_or_else(|| ABSENT.into(), percent)
}

/// The gravest judgement.
pub(super) fn verdict(case: &Case<'_>) -> Judgement {
    describe::gravest(case.points().iter().map(|point| point.verdict.judgement))
}

/// A figure against that of the baseline.
pub(super) fn ratio_to(
    run: &RunResult,
    baseline: Option<&Case<'_>>,
    case: &Case<'_>,
    name_of_figure: &str,
    figure: impl Fn(&Point) -> Option<f64>,
) -> Cell {
    if baseline.is_some_and(|baseline| std::ptr::eq(baseline, case)) {
        return "1 (baseline)".into();
    }
    let words = case.points().first().map(|point| describe::point_in_words(point));
    let paired = words.and_then(|load| paired(run, &name(case), &load, name_of_figure));
    // A server that fails at once is not faster.
    let is_failing = |case: &Case<'_>| verdict(case) == Judgement::Failing;
    let plain = baseline
        .filter(|baseline| !is_failing(baseline) && !is_failing(case))
        .and_then(|baseline| {
            let (above, below) = (case.median(&figure)?, baseline.median(&figure)?);
            (below > 0.0).then_some(above / below)
        });
    match (paired, plain) {
        (Some(paired), _) => interval(paired).into(),
        (None, Some(plain)) => ratio(plain).into(),
        (None, None) => ABSENT.into(),
    }
}

fn paired<'r>(run: &'r RunResult, target: &str, load: &str, figure: &str) -> Option<&'r Interval> {
    run.comparisons
        .iter()
        .find(|one| one.target == target && one.load == load && one.figure == figure)
        .map(|one| &one.ratio)
}

/// `1.42 [1.38, 1.47]`; one value alone has no interval.
pub(crate) fn interval(interval: &Interval) -> String {
    if interval.n < 2 {
        return ratio(interval.mean);
    }
    format!(
        "{} [{}, {}]",
        ratio(interval.mean),
        ratio(interval.low),
        ratio(interval.high)
    )
}
