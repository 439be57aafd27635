//! `points.csv`: one row a point.
//!
//! Its invariant: column `X_us_p99` is key `us_p99` of `X` in `result.json`.

use millpond_press_recorder::LatencySummary;

use super::{Row, header};
use crate::{Cpu, LoadKind, Point, RunResult, describe};

const COLUMNS: &str = "point repeat target protocol address path grid load connections in_flight rate arrivals think_ms \
    requests_per_connection duration_s client_threads interrupted warm_up_s warm_up_answers warm_up_failed warm_up_stationary us_total \
    qps sent_per_s ok unchecked wrong refused errors not_sent cut late connections_opened connections_refused \
    connections_failed connections_down not_sent_lost";

const LATENCY: [&str; 10] = [
    "count",
    "us_mean",
    "us_p50",
    "us_p75",
    "us_p90",
    "us_p95",
    "us_p99",
    "us_p99_9",
    "us_p99_99",
    "us_max",
];

const REST: &str = "opening_s server_connections server_bytes_held kernel_bytes_held server_cpu_s server_cpu_percent \
    client_cpu_s client_cpu_percent server_memory_bytes client_memory_bytes judgement bound sentence slo_met";

/// Every point of the run in one row, with a header.
pub fn points_csv(run: &RunResult) -> String {
    let mut columns = COLUMNS.to_owned();
    for which in ["latency", "service", "lateness", "latency_refused"] {
        for figure in LATENCY {
            columns += &format!(" {which}_{figure}");
        }
    }
    let mut text = header(&format!("{columns} {REST}"));
    let mut row = Row::default();
    for point in &run.points {
        offered(point, &mut row);
        counted(point, &mut row);
        for summary in [
            &point.latency,
            &point.service,
            &point.lateness,
            &point.latency_refused,
        ] {
            latency(summary, &mut row);
        }
        used_and_judged(point, &mut row);
        row.end(&mut text);
    }
    text
}

fn offered(point: &Point, row: &mut Row) {
    let grid: Vec<String> = point
        .grid
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let offered = &point.offered;
    row.whole(point.number)
        .whole(point.repeat)
        .text(&point.target.name)
        .text(&point.target.protocol)
        .text(&point.target.address)
        .text(&point.target.path)
        .text(&grid.join(";"))
        .text(match offered.kind {
            LoadKind::Closed => "closed",
            LoadKind::Open => "open",
        })
        .whole(offered.connections)
        .whole(offered.in_flight)
        .figure(offered.rate)
        .text(offered.arrivals.as_deref().unwrap_or_default())
        .figure(offered.think_ms)
        .count(offered.requests_per_connection)
        .figure(offered.duration_s)
        .whole(point.client_threads)
        .whole(point.interrupted)
        .figure(Some(point.warm_up.seconds))
        .whole(point.warm_up.answers)
        .whole(point.warm_up.failed)
        .whole(point.warm_up.stationary);
}

fn counted(point: &Point, row: &mut Row) {
    let counters = &point.counters;
    row.whole(point.us_total)
        .figure(Some(point.qps))
        .figure(Some(point.sent_per_s))
        .whole(counters.ok)
        .whole(counters.unchecked)
        .whole(counters.wrong)
        .whole(describe::refused(counters))
        .whole(describe::failed(counters).saturating_sub(counters.wrong))
        .whole(counters.not_sent)
        .whole(counters.cut)
        .whole(counters.late)
        .whole(counters.connections_opened)
        .whole(counters.connections_refused)
        .whole(counters.connections_failed)
        .whole(counters.connections_down)
        .whole(counters.not_sent_lost);
}

fn latency(latency: &LatencySummary, row: &mut Row) {
    row.whole(latency.count);
    for figure in [
        latency.us_mean,
        latency.us_p50,
        latency.us_p75,
        latency.us_p90,
        latency.us_p95,
        latency.us_p99,
        latency.us_p99_9,
        latency.us_p99_99,
        latency.us_max,
    ] {
        row.figure(figure);
    }
}

fn used_and_judged(point: &Point, row: &mut Row) {
    let cpu = |row: &mut Row, cpu: Option<Cpu>| {
        row.figure(cpu.map(|cpu| cpu.seconds))
            .figure(cpu.map(|cpu| cpu.percent));
    };
    let held = point.held.as_ref();
    row.figure(held.map(|held| held.opening_s))
        .count(held.and_then(|held| held.server_connections))
        .count(held.and_then(|held| held.server_bytes))
        .count(held.and_then(|held| held.kernel_bytes));
    cpu(row, point.server_cpu);
    cpu(row, point.client_cpu);
    row.count(point.server_memory_bytes)
        .count(point.client_memory_bytes)
        .text(describe::judgement(point.verdict.judgement))
        .text(describe::bound_key(point.verdict.bound))
        .text(&point.verdict.sentence)
        .count(point.slo.as_ref().map(|slo| slo.met));
}
