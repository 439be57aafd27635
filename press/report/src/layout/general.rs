//! One line a point, whatever the scenario.
//!
//! Its invariant: rows stand in the order the points ran.

use crate::RunResult;
use crate::describe;
use crate::number::{cpu, rate, us_of};
use crate::table::{Table, cells};

/// The table.
pub(crate) fn table(run: &RunResult) -> Table {
    let mut table = Table::new(
        "Every point",
        "(point)|(target)|(load)|ok/s|refused|errors|p50 us|p99 us|p99.9 us|max us|client late, p99 us|server CPU %|\
         client CPU %|(verdict)",
    );
    for point in &run.points {
        let latency = &point.latency;
        table.row(cells![
            point.number.to_string(),
            describe::target(point),
            describe::load(&point.offered),
            rate(point.qps),
            point.counters.refused_total().to_string(),
            point.counters.failed_total().to_string(),
            us_of(latency.us_p50, latency),
            us_of(latency.us_p99, latency),
            us_of(latency.us_p99_9, latency),
            us_of(latency.us_max, latency),
            us_of(point.lateness.us_p99, &point.lateness),
            cpu(point.server_cpu),
            cpu(point.client_cpu),
            point.verdict.judgement,
        ]);
    }
    table
}
