//! Targets side by side: one table a load, targets as rows, the ratio to the first one in the last columns.
//!
//! Its invariant: those of [`repeats`].

use crate::RunResult;
use crate::cases::Case;
use crate::layout::repeats;
use crate::number::{ABSENT, rate, us_of};
use crate::table::{Cell, Table, cells};

/// One table for each load and grid.
pub(crate) fn tables(run: &RunResult) -> Vec<Table> {
    repeats::by_load(run)
        .iter()
        .map(|(load, members)| table(run, load, members))
        .collect()
}

fn table(run: &RunResult, load: &str, members: &[Case<'_>]) -> Table {
    let mut table = Table::new(
        format!("Load {load}"),
        "(target)|repeats|ok/s|refused|errors|p50 us|p99 us|p99.9 us|server CPU %|client CPU %|(verdict)|qps ratio|\
         p99 ratio",
    );
    let baseline = members.first();
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
