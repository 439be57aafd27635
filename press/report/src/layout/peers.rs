//! Targets side by side: one table a load, targets as rows, the ratio to the first one in the last columns.
//!
//! Its invariant: a ratio with an interval is one of `comparisons`; one that was not measured in pairs has none.

use millpond_press_recorder::Interval;

use crate::cases::{self, Case};
use crate::number::{ABSENT, percent, rate, ratio, us_of};
use crate::table::{Cell, Table, cells};
use crate::{Judgement, Point, RunResult, describe};

/// One table for each load and grid.
pub(crate) fn tables(run: &RunResult) -> Vec<Table> {
    let cases = cases::join(&run.points, |point| {
        // The grid belongs to the load here: targets are compared within it.
        format!("{}\n{}", describe::target_name(point), grid_of(point))
    });
    let words = |case: &Case<'_>| case.points().first().map(|point| describe::point_in_words(point));
    let mut loads: Vec<String> = Vec::new();
    for load in cases.iter().filter_map(words) {
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    loads
        .into_iter()
        .map(|load| {
            let members: Vec<&Case<'_>> = cases
                .iter()
                .filter(|case| words(case).as_ref() == Some(&load))
                .collect();
            table(run, &load, &members)
        })
        .collect()
}

fn grid_of(point: &Point) -> String {
    point
        .grid
        .iter()
        .map(|(key, value)| format!("{key}={value} "))
        .collect()
}

fn table(run: &RunResult, load: &str, members: &[&Case<'_>]) -> Table {
    let mut table = Table::new(
        format!("Load {load}"),
        "(target)|repeats|ok/s|refused|errors|p50 us|p99 us|p99.9 us|server CPU %|client CPU %|(verdict)|qps ratio|\
         p99 ratio",
    );
    let baseline = members.first();
    for (index, case) in members.iter().enumerate() {
        let name = case
            .points()
            .first()
            .map(|point| describe::target_name(point))
            .unwrap_or_default();
        let ratios: [Cell; 2] = if index == 0 {
            ["1 (baseline)".into(), "1 (baseline)".into()]
        } else {
            // A server that fails at once is not faster.
            let is_failing = |case: &Case<'_>| {
                case.points()
                    .iter()
                    .any(|point| point.verdict.judgement == Judgement::Failing)
            };
            let qps = |case: &Case<'_>| case.median(|point| Some(point.qps));
            let p99 = |case: &Case<'_>| case.median(|point| point.latency.us_p99);
            let plain = |figure: &dyn Fn(&Case<'_>) -> Option<f64>| {
                if is_failing(case) || baseline.is_some_and(|case| is_failing(case)) {
                    return None;
                }
                let (above, below) = (figure(case), baseline.and_then(|case| figure(case)));
                above
                    .zip(below.filter(|&below| below > 0.0))
                    .map(|(above, below)| above / below)
            };
            [
                ratio_cell(paired(run, &name, load, "qps"), plain(&qps)),
                ratio_cell(paired(run, &name, load, "latency p99"), plain(&p99)),
            ]
        };
        let cells = figures(&name, case);
        table.row(cells.into_iter().chain(ratios));
    }
    table
}

fn figures(name: &str, case: &Case<'_>) -> [Cell; 11] {
    let sum = |count: &dyn Fn(&Point) -> u64| {
        let total = case
            .points()
            .iter()
            .fold(0u64, |sum, point| sum.saturating_add(count(point)));
        total.to_string()
    };
    let latency = |figure: &dyn Fn(&Point) -> Option<f64>| {
        let fewest = case
            .points()
            .iter()
            .map(|point| &point.latency)
            .min_by_key(|latency| latency.count);
        fewest.map_or_else(|| ABSENT.into(), |fewest| us_of(case.median(figure), fewest))
    };
    let share =
        |figure: &dyn Fn(&Point) -> Option<f64>| case.median(figure).map_or_else(|| ABSENT.into(), percent);
    cells![
        name,
        case.points().len().to_string(),
        case.median(|point| Some(point.qps))
            .map_or_else(|| ABSENT.into(), rate),
        sum(&|point| point.counters.refused_total()),
        sum(&|point| point.counters.failed_total()),
        latency(&|point| point.latency.us_p50),
        latency(&|point| point.latency.us_p99),
        latency(&|point| point.latency.us_p99_9),
        share(&|point| point.server_cpu.map(|cpu| cpu.percent)),
        share(&|point| point.client_cpu.map(|cpu| cpu.percent)),
        describe::gravest(case.points().iter().map(|point| point.verdict.judgement)),
    ]
}

fn paired<'r>(run: &'r RunResult, target: &str, load: &str, figure: &str) -> Option<&'r Interval> {
    run.comparisons
        .iter()
        .find(|one| one.target == target && one.load == load && one.figure == figure)
        .map(|one| &one.ratio)
}

fn ratio_cell(paired: Option<&Interval>, plain: Option<f64>) -> Cell {
    match (paired, plain) {
        (Some(paired), _) => interval(paired).into(),
        (None, Some(plain)) => ratio(plain).into(),
        (None, None) => ABSENT.into(),
    }
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
