//! Targets side by side: one table a load, targets as rows, the ratio to the first one in the last columns.
//!
//! Its invariant: those of [`repeats`].

use crate::cases::{self, Case};
use crate::layout::repeats;
use crate::number::{ABSENT, rate, us_of};
use crate::table::{Cell, Table, cells};
use crate::{RunResult, describe};

/// One table for each load and grid.
pub(crate) fn tables(run: &RunResult) -> Vec<Table> {
    let cases = cases::join(&run.points, |point| {
        // The grid belongs to the load here: targets are compared within it.
        format!("{}\n{}", describe::target_name(point), repeats::grid_of(point))
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

fn table(run: &RunResult, load: &str, members: &[&Case<'_>]) -> Table {
    let mut table = Table::new(
        format!("Load {load}"),
        "(target)|repeats|ok/s|refused|errors|p50 us|p99 us|p99.9 us|server CPU %|client CPU %|(verdict)|qps ratio|\
         p99 ratio",
    );
    let baseline = members.first().copied();
    for case in members {
        let name = repeats::name(case);
        let qps = repeats::ratio_to(run, baseline, case, "qps", |point| Some(point.qps));
        let p99 = repeats::ratio_to(run, baseline, case, "latency p99", |point| point.latency.us_p99);
        let cells = figures(&name, case);
        table.row(cells.into_iter().chain([qps, p99]));
    }
    table
}

fn figures(name: &str, case: &Case<'_>) -> [Cell; 11] {
    cells![
        name,
        case.points().len().to_string(),
        case.median(|point| Some(point.qps))
            .map_or_else(|| ABSENT.into(), rate),
        repeats::sum(case, |point| point.counters.refused_total()),
        repeats::sum(case, |point| point.counters.failed_total()),
        repeats::latency(case, us_of, |latency| latency.us_p50),
        repeats::latency(case, us_of, |latency| latency.us_p99),
        repeats::latency(case, us_of, |latency| latency.us_p99_9),
        repeats::share(case, |point| point.server_cpu),
        repeats::share(case, |point| point.client_cpu),
        repeats::verdict(case),
    ]
}
