//! What went wrong and what was refused.
//!
//! Its invariant: a count is told with the first message of its kind; a run without trouble has none of these sections.

use super::{Block, Section, of_table, place};
use crate::number::us_of;
use crate::table::{Table, cells};
use crate::{Point, RunResult};

/// Why the run failed.
pub(crate) fn failure(run: &RunResult) -> Section {
    Section {
        id: "failure",
        title: "Why it failed",
        blocks: run.failure.iter().cloned().map(Block::Verbatim).collect(),
    }
}

/// What went wrong, point by point.
pub(crate) fn troubles(run: &RunResult) -> Section {
    let mut table = Table::new(
        "Wrong answers, errors and requests that were not sent",
        "(point)|(target)|(load)|(what)|how many|(the first one)",
    );
    for point in &run.points {
        troubles_of(point, &mut table);
    }
    of_table("troubles", "What went wrong", table)
}

fn troubles_of(point: &Point, table: &mut Table) {
    let counters = &point.counters;
    let mut row = |what: &str, count: u64| {
        if count == 0 {
            return;
        }
        let first = counters.first.get(what).cloned().unwrap_or_default();
        let told = cells![what.replace('_', " "), count.to_string(), first];
        table.row(place(point).into_iter().chain(told));
    };
    row("wrong", counters.wrong);
    for (kind, &count) in &counters.errors {
        row(kind.as_str(), count);
    }
    row("not_connected", counters.connections_failed);
    row("not_sent", counters.not_sent);
    row("late", counters.late);
    row("cut", counters.cut);
}

/// Refusals by code, with their own latencies.
pub(crate) fn refusals(run: &RunResult) -> Section {
    let mut table = Table::new(
        "Refused requests, which are in no latency above",
        "(point)|(target)|(load)|(refused, by code)|connections refused|p50 us|p99 us|max us",
    );
    for point in &run.points {
        let counters = &point.counters;
        if counters.refused.is_empty() {
            continue;
        }
        let codes: Vec<String> = counters
            .refused
            .iter()
            .map(|(code, count)| format!("{code}: {count}"))
            .collect();
        let latency = &point.latency_refused;
        let figures = cells![
            codes.join(", "),
            counters.connections_refused.to_string(),
            us_of(latency.us_p50, latency),
            us_of(latency.us_p99, latency),
            us_of(latency.us_max, latency),
        ];
        table.row(place(point).into_iter().chain(figures));
    }
    of_table("refusals", "Refusals", table)
}
