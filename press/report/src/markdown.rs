//! The report of a run: how it was made, its tables, what went wrong.
//!
//! Its invariant: every sentence is derived from the [`RunResult`].

use std::fmt::Write as _;

use crate::table::{self, Table, figure};
use crate::{Layout, Point, RunResult, State};

/// The whole report.
pub fn report(run: &RunResult) -> String {
    let mut text = format!(
        "# {}\n\n",
        if run.title.is_empty() {
            &run.name
        } else {
            &run.title
        }
    );
    for warning in warnings(run) {
        let _ = writeln!(text, "**{warning}**\n");
    }
    text += &tables(run);
    if let Some(failure) = &run.failure {
        // A fence longer than any that the server's own words may hold.
        let _ = write!(text, "\n## Why it failed\n\n``````\n{failure}\n``````\n");
    }
    text += &troubles(run);
    text += &refusals(run);
    text += &method(run);
    text
}

/// The tables alone, in the scenario's layout.
pub fn tables(run: &RunResult) -> String {
    let all: Vec<&Point> = run.points.iter().collect();
    if all.is_empty() {
        return "No point was finished.\n".into();
    }
    if run.layout == Layout::General {
        return table::general(&all);
    }
    let groups = groups(&all);
    let mut text = String::new();
    for (name, points) in &groups {
        let _ = writeln!(text, "## {name}\n\n{}", table::r1(points));
    }
    let _ = writeln!(text, "## Summary\n\n{}", table::r1_summary(&groups));
    text += "aveTime is the mean time of an answer; totalTime runs from the first request to the end of the last one, \
             connection set-up excluded;\nqps counts checked answers only. A percentile is n/a where fewer than ten \
             samples lie beyond it (samples in parentheses).\n";
    text
}

/// Points that share the grid's values, in the order they ran.
fn groups<'a>(points: &[&'a Point]) -> Vec<(String, Vec<&'a Point>)> {
    let mut groups: Vec<(String, Vec<&Point>)> = Vec::new();
    for &point in points {
        let name = grid_name(point);
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, members)) => members.push(point),
            None => groups.push((name, vec![point])),
        }
    }
    groups
}

fn grid_name(point: &Point) -> String {
    if point.grid.is_empty() {
        return format!("{} {}", point.target.protocol, point.target.path);
    }
    let parts: Vec<String> = point
        .grid
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    parts.join(", ")
}

/// What a reader must know before the figures.
fn warnings(run: &RunResult) -> Vec<String> {
    let mut warnings = Vec::new();
    match run.state {
        State::Complete => {}
        State::Running => warnings.push("This run has not ended, or its process died.".into()),
        State::Interrupted => warnings.push("This run was interrupted: the last point is cut short.".into()),
        State::Failed => {
            warnings.push("This run failed, as told below: it has the points before that.".into())
        }
    }
    let servers = || run.points.iter().filter_map(|point| point.server.as_ref());
    if servers().any(|server| server.build.as_deref() == Some("dev")) {
        warnings.push("The server is a dev build: a release build is faster.".into());
    }
    if run.press.build.as_deref() == Some("dev") {
        warnings.push(
            "The load generator is a dev build: it costs more processor time than a release build.".into(),
        );
    }
    if run.requests.check_share < 1.0 && !run.points.is_empty() {
        warnings.push(format!(
            "Only {} % of the answers were checked.",
            run.requests.check_share * 100.0
        ));
    }
    warnings
}

/// What went wrong, point by point, with the first message of each kind.
fn troubles(run: &RunResult) -> String {
    let mut table = Table::new(&["connections", "grid", "what", "how many", "the first one"]);
    let mut any = false;
    for point in &run.points {
        let counters = &point.counters;
        let mut row = |what: &str, count: u64| {
            if count == 0 {
                return;
            }
            any = true;
            let first = counters.first.get(what).cloned().unwrap_or_default();
            table.row([
                point.connections.to_string(),
                grid_name(point),
                what.replace('_', " "),
                count.to_string(),
                first,
            ]);
        };
        row("wrong", counters.wrong);
        for (kind, &count) in &counters.errors {
            row(kind.as_str(), count);
        }
        row("not_connected", counters.connections_failed);
        row("not_sent", counters.not_sent);
        row("cut", counters.cut);
    }
    if any {
        format!("\n## What went wrong\n\n{}", table.draw())
    } else {
        String::new()
    }
}

/// Refusals by code, with their own latencies.
fn refusals(run: &RunResult) -> String {
    let mut table = Table::new(&[
        "connections",
        "grid",
        "refused, by code",
        "connections refused",
        "p50 us",
        "p99 us",
        "max us",
    ]);
    let mut any = false;
    for point in &run.points {
        let counters = &point.counters;
        if counters.refused.is_empty() {
            continue;
        }
        any = true;
        let codes: Vec<String> = counters
            .refused
            .iter()
            .map(|(code, count)| format!("{code}: {count}"))
            .collect();
        let latency = &point.latency_refused;
        table.row([
            point.connections.to_string(),
            grid_name(point),
            codes.join(", "),
            counters.connections_refused.to_string(),
            figure(latency.us_p50, latency),
            figure(latency.us_p99, latency),
            figure(latency.us_max, latency),
        ]);
    }
    if any {
        format!("\n## Refusals\n\n{}", table.draw())
    } else {
        String::new()
    }
}

/// How the figures came about.
fn method(run: &RunResult) -> String {
    let unknown = || "unknown".to_owned();
    let mut text = String::from("\n## How it was measured\n\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "- {name}: {value}");
    };
    line("command", format!("`{}`", run.command.join(" ")));
    line(
        "started",
        format!("{}, {:.1} s in all", run.started_at, run.wall_s),
    );
    line("seed", run.seed.to_string());
    let requests = &run.requests;
    line(
        "requests",
        format!(
            "{}: {} bodies, {} of them distinct, {} bytes",
            requests.source, requests.count, requests.distinct, requests.bytes
        ),
    );
    line(
        "answers checked",
        format!("{} ({} %)", requests.check, requests.check_share * 100.0),
    );
    if let Some(point) = run.points.last() {
        line(
            "target",
            format!(
                "{} {} at {}",
                point.target.protocol, point.target.path, point.target.address
            ),
        );
        let server = point.server.clone().unwrap_or_default();
        line("server", build(server.version, server.build));
        line("client threads", point.client_threads.to_string());
        let warm_up: u64 = run.points.iter().map(|point| point.counters.warm_up.sent).sum();
        line(
            "requests before the clock",
            format!("{warm_up} (warm-up), in no figure above"),
        );
    }
    line(
        "load generator",
        build(run.press.version.clone(), run.press.build.clone()),
    );
    let machine = &run.machine;
    line(
        "machine",
        format!(
            "{}, {} cores, {} MiB, kernel {}, {} open files",
            machine.cpu_model.clone().unwrap_or_else(unknown),
            machine.cores.map_or_else(unknown, |cores| cores.to_string()),
            machine
                .memory_bytes
                .map_or_else(unknown, |bytes| (bytes >> 20).to_string()),
            machine.kernel.clone().unwrap_or_else(unknown),
            machine
                .open_files_max
                .map_or_else(unknown, |files| files.to_string()),
        ),
    );
    if let (Some(before), Some(after)) = (run.load_before, run.load_after) {
        line(
            "load of the machine, one minute",
            format!("{} before, {} after", before.minute_1, after.minute_1),
        );
    }
    text
}

fn build(version: Option<String>, build: Option<String>) -> String {
    match (version, build) {
        (None, None) => "did not say what it is".into(),
        (version, build) => format!(
            "version {}, {} build",
            version.unwrap_or_else(|| "unknown".into()),
            build.unwrap_or_else(|| "unknown".into())
        ),
    }
}

#[cfg(test)]
mod tests;
