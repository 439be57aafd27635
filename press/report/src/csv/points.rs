//! `points.csv`: one row a point.
//!
//! Its invariant: column `X_us_p99` is key `us_p99` of `X` in `result.json`.

use serde_json::Value;

use super::{Row, header, json};
use crate::RunResult;

/// Each column with the key that it shows where that is another: `COLUMN:PART.KEY`.
const COLUMNS: &str = "point:number repeat target:target.name protocol:target.protocol address:target.address path:target.path \
    grid load:offered.kind connections:offered.connections in_flight:offered.in_flight rate:offered.rate \
    arrivals:offered.arrivals think_ms:offered.think_ms requests_per_connection:offered.requests_per_connection \
    duration_s:offered.duration_s client_threads interrupted warm_up_s:warm_up.seconds warm_up_answers:warm_up.answers \
    warm_up_failed:warm_up.failed warm_up_stationary:warm_up.stationary us_total qps sent_per_s ok:counters.ok \
    unchecked:counters.unchecked wrong:counters.wrong refused errors not_sent:counters.not_sent cut:counters.cut \
    late:counters.late connections_opened:counters.connections_opened connections_refused:counters.connections_refused \
    connections_failed:counters.connections_failed connections_down:counters.connections_down \
    not_sent_lost:counters.not_sent_lost";

const LATENCY: &str = "count us_mean us_p50 us_p75 us_p90 us_p95 us_p99 us_p99_9 us_p99_99 us_max";

const REST: &str = "opening_s:held.opening_s server_connections:held.server_connections server_bytes_held:held.server_bytes \
    kernel_bytes_held:held.kernel_bytes server_cpu_s:server_cpu.seconds server_cpu_percent:server_cpu.percent \
    client_cpu_s:client_cpu.seconds client_cpu_percent:client_cpu.percent server_memory_bytes client_memory_bytes \
    judgement:verdict.judgement bound:verdict.bound sentence:verdict.sentence slo_met:slo.met";

/// Every point of the run in one row, with a header.
pub fn points_csv(run: &RunResult) -> String {
    let mut all = COLUMNS.to_owned();
    for which in ["latency", "service", "lateness", "latency_refused"] {
        for figure in LATENCY.split_ascii_whitespace() {
            all += &format!(" {which}_{figure}:{which}.{figure}");
        }
    }
    all += &format!(" {REST}");
    let columns = all.split_ascii_whitespace();
    let columns: Vec<(&str, &str)> = columns
        .map(|column| column.split_once(':').unwrap_or((column, column)))
        .collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut text = header(&names.join(" "));
    let mut row = Row::default();
    for point in &run.points {
        let mut shown = json(point);
        let grid: Vec<String> = point
            .grid
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        shown["grid"] = grid.join(";").into();
        shown["refused"] = point.counters.refused_total().into();
        shown["errors"] = point.counters.errors_total().into();
        for (_, path) in &columns {
            let found: &Value = path.split('.').fold(&shown, |part, key| &part[key]);
            row.value(found);
        }
        row.end(&mut text);
    }
    text
}
