//! The tables of report R4: one a combination of the grid, each target at each number of clients, with the ratio to the first target.
//!
//! Its invariants: names and units of the columns TP50 (ms), QPS and clients are the original's; a row is held against the first
//! target with as many clients, or against its only row where it has one.

use millpond_press_recorder::LatencySummary;

use crate::cases::{self, Case};
use crate::layout::repeats;
use crate::number::{ABSENT, ms_of, rate};
use crate::table::{Cell, Table, cells};
use crate::{RunResult, describe};

/// The original's columns, then the tails and what else it left out.
const COLUMNS: &str = "(target)|clients|TP50 (ms)|QPS|p99 (ms)|p99.9 (ms)|max (ms)|errors|server CPU %|client CPU %|(verdict)|\
    QPS ratio|TP50 ratio";

/// One table for each combination of the grid.
pub(super) fn tables(run: &RunResult) -> Vec<Table> {
    let cases = cases::join(&run.points, |point| {
        format!("{}\n{}", describe::target_name(point), repeats::grid_of(point))
    });
    let grid = |case: &Case<'_>| {
        case.points()
            .first()
            .map(|point| repeats::grid_of(point))
            .unwrap_or_default()
    };
    let grids: Vec<String> = cases.iter().map(grid).collect();
    let table_of = |of: &str| {
        let members: Vec<&Case<'_>> = cases.iter().filter(|case| grid(case) == of).collect();
        table(run, of.trim_end(), &members)
    };
    cases::distinct(grids.iter().map(String::as_str))
        .into_iter()
        .map(table_of)
        .collect()
}

fn table(run: &RunResult, grid: &str, members: &[&Case<'_>]) -> Table {
    let caption = if grid.is_empty() { "Every target" } else { grid };
    let mut table = Table::new(caption, COLUMNS);
    let names: Vec<String> = members.iter().map(|case| repeats::name(case)).collect();
    let names = cases::distinct(names.iter().map(String::as_str));
    let of = |name: &str| -> Vec<&Case<'_>> {
        let own = |case: &&Case<'_>| repeats::name(case) == name;
        members.iter().copied().filter(own).collect()
    };
    let firsts = names.first().map(|name| of(name)).unwrap_or_default();
    // They ran load by load; a reader compares the clients of one target.
    for case in names.iter().flat_map(|name| of(name)) {
        let baseline = match firsts[..] {
            [only] => Some(only),
            _ => firsts.iter().copied().find(|first| first.load == case.load),
        };
        table.row(row(run, baseline, case));
    }
    table
}

fn row(run: &RunResult, baseline: Option<&Case<'_>>, case: &Case<'_>) -> [Cell; 13] {
    let clients = case.points().first().map_or(0, |point| point.offered.connections);
    let ms = |figure: fn(&LatencySummary) -> Option<f64>| repeats::latency(case, ms_of, figure);
    cells![
        repeats::name(case),
        clients.to_string(),
        ms(|latency| latency.us_p50),
        case.median(|point| Some(point.qps))
            .map_or_else(|| ABSENT.into(), rate),
        ms(|latency| latency.us_p99),
        ms(|latency| latency.us_p99_9),
        ms(|latency| latency.us_max),
        repeats::sum(case, |point| point.counters.failed_total()),
        repeats::share(case, |point| point.server_cpu),
        repeats::share(case, |point| point.client_cpu),
        repeats::verdict(case),
        repeats::ratio_to(run, baseline, case, "qps", |point| Some(point.qps)),
        repeats::ratio_to(run, baseline, case, "latency p50", |point| point.latency.us_p50),
    ]
}
