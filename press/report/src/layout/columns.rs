//! What a column of points shows, by its name.
//!
//! Its invariant: names, order and units of the columns of reports R1 and R3 are the originals'; a figure that does not exist
//! is printed as `n/a`, with the number of samples where those were too few, never as 0.

use crate::number::{ABSENT, cpu, fixed, percent, rate, us_of};
use crate::table::{Cell, Table};
use crate::{Held, Point, describe};

/// One line a point, whatever the scenario.
pub(super) const GENERAL: &str = "(point)|(target)|(load)|ok/s|refused|errors|p50 us|p99 us|p99.9 us|max us|\
    client late, p99 us|server CPU %|client CPU %|(verdict)";

/// The columns of report R1, then what it left out.
pub(super) const R1: &str = "(testParams)|aveTime(us)|totalTime(us)|qps|p50(us)|p99(us)|refused|not sent|errors|server CPU %|\
    client CPU %|GPU %|(build)|(verdict)";

/// The columns of report R3, then the tails and the cost of a connection, which it left out.
pub(super) const R3: &str = "connections|QPS|mean response (usec)|offered QPS|p50 usec|p99 usec|p99.9 usec|max usec|refused|\
    not sent|errors|opened a second|server bytes a connection|kernel bytes a connection|server CPU %|client CPU %|(verdict)";

/// What became of the SLO.
pub(crate) const SLO: &str = "(point)|(target)|(load)|(SLO)|(met)|(what failed)";

/// With fewer connections the server's own buffers weigh more than theirs.
const CONNECTIONS_MIN: u64 = 1_000;

/// A table with a row for each of the points.
pub(crate) fn table<'p>(caption: &str, columns: &str, points: impl IntoIterator<Item = &'p Point>) -> Table {
    let mut table = Table::new(caption, columns);
    for point in points {
        let cells = table.columns.iter().map(|column| cell(&column.name, point));
        let cells: Vec<Cell> = cells.collect();
        table.row(cells);
    }
    table
}

fn cell(column: &str, point: &Point) -> Cell {
    let (latency, counters) = (&point.latency, &point.counters);
    let whole = |figure: Option<f64>| figure.map_or_else(|| ABSENT.into(), |figure| fixed(figure, 0));
    let text = match column {
        "verdict" => return point.verdict.judgement.into(),
        "point" => point.number.to_string(),
        "target" => describe::target(point),
        "load" => describe::load(&point.offered),
        "testParams" => test_params(point),
        "connections" => point.offered.connections.to_string(),
        "ok/s" => rate(point.qps),
        "qps" => fixed(point.qps, 1),
        "QPS" => fixed(point.qps, 0),
        "offered QPS" => whole(point.offered.rate),
        "refused" => counters.refused_total().to_string(),
        "not sent" => counters.not_sent.to_string(),
        "errors" => counters.failed_total().to_string(),
        "aveTime(us)" | "mean response (usec)" => match latency.us_mean {
            None => format!("{ABSENT} (0)"),
            mean => whole(mean),
        },
        "totalTime(us)" => point.us_total.to_string(),
        "p50 us" | "p50(us)" | "p50 usec" => us_of(latency.us_p50, latency),
        "p99 us" | "p99(us)" | "p99 usec" => us_of(latency.us_p99, latency),
        "p99.9 us" | "p99.9 usec" => us_of(latency.us_p99_9, latency),
        "max us" | "max usec" => us_of(latency.us_max, latency),
        "client late, p99 us" => us_of(point.lateness.us_p99, &point.lateness),
        "opened a second" => {
            let held = point.held.filter(|held| held.opening_s > 0.0);
            whole(held.map(|held| held.opened as f64 / held.opening_s))
        }
        "server bytes a connection" => whole(each(point, |held| held.server_bytes)),
        "kernel bytes a connection" => whole(each(point, |held| held.kernel_bytes)),
        "server CPU %" => cpu(point.server_cpu),
        "client CPU %" => cpu(point.client_cpu),
        "GPU %" => gpu(point),
        "build" => build(point),
        "SLO" => point.slo.iter().map(|slo| slo.slo.as_str()).collect(),
        "met" => point.slo.iter().map(|slo| yes(slo.met)).collect(),
        "what failed" => point.slo.iter().map(|slo| slo.failures.join("; ")).collect(),
        _ => {
            debug_assert!(false, "no column is called {column}");
            ABSENT.into()
        }
    };
    text.into()
}

/// Mean use of the machine's accelerators, all together in percent of one.
pub(super) fn gpu(point: &Point) -> String {
    let seconds = point.resources.seconds.iter();
    let used: Vec<f64> = seconds.filter_map(|second| second.accelerator_percent).collect();
    match used.is_empty() {
        true => ABSENT.into(),
        false => percent(used.iter().sum::<f64>() / used.len() as f64),
    }
}

/// What the server's models run on, as report R1 calls its builds: CPU, CUDA.
pub(super) fn build(point: &Point) -> String {
    match &point.server {
        Some(server) if !server.providers.is_empty() => server.providers.join(", ").to_uppercase(),
        _ => ABSENT.into(),
    }
}

pub(crate) fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// Bytes of one connection.
fn each(point: &Point, bytes: fn(&Held) -> Option<u64>) -> Option<f64> {
    let held = point.held.filter(|held| held.opened >= CONNECTIONS_MIN)?;
    Some(bytes(&held)? as f64 / held.opened as f64)
}

/// `json_1_200000_{threads}_{requests}`, as the original names its cases; requests is `{n}s` for a fixed time.
fn test_params(point: &Point) -> String {
    let format = match point.target.protocol == "http" {
        true => "json",
        false => "msgpack",
    };
    let offered = &point.offered;
    let load = match (offered.requests_per_connection, offered.duration_s) {
        (Some(requests), _) => requests.to_string(),
        (None, Some(seconds)) => format!("{seconds}s"),
        (None, None) => ABSENT.into(),
    };
    format!("{format}_1_200000_{}_{load}", offered.connections)
}
