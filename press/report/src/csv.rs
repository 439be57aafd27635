//! A run as flat tables for other programs: one row a point, one row a second, and for report R3 one row a minute.
//!
//! Its invariant: RFC 4180 with `\n` at the ends of lines: every row has as many fields as the header, and a field that
//! holds a comma, a quote or an end of a line is quoted. What does not exist is an empty field.

mod controller;

pub use controller::controller_csv;

use millpond_press_recorder::ResourceSecond;
use serde_json::{Value, json};

use crate::{Point, RunResult, Second};

/// The columns of `points.csv`, each with the key of the point that it shows where that is another: `COLUMN:PART.KEY`.
/// Latencies stand between the two parts: column `X_us_p99` is key `us_p99` of `X`.
const POINT: &str = "point:number repeat target:target.name protocol:target.protocol address:target.address path:target.path \
    grid load:offered.kind connections:offered.connections in_flight:offered.in_flight rate:offered.rate \
    arrivals:offered.arrivals think_ms:offered.think_ms requests_per_connection:offered.requests_per_connection \
    duration_s:offered.duration_s requests:offered.requests interference:offered.antagonists.interference client_threads interrupted warm_up_s:warm_up.seconds warm_up_answers:warm_up.answers \
    warm_up_failed:warm_up.failed warm_up_stationary:warm_up.stationary us_total qps sent_per_s ok:counters.ok \
    unchecked:counters.unchecked wrong:counters.wrong refused errors not_sent:counters.not_sent cut:counters.cut \
    late:counters.late connections_opened:counters.connections_opened connections_refused:counters.connections_refused \
    connections_failed:counters.connections_failed connections_down:counters.connections_down \
    not_sent_lost:counters.not_sent_lost";
const LATENCY: &str =
    "count us_mean us_p50 us_p70 us_p75 us_p80 us_p90 us_p95 us_p97 us_p99 us_p99_9 us_p99_99 us_max";
const POINT_REST: &str = "opening_s:held.opening_s server_connections:held.server_connections server_bytes_held:held.server_bytes \
    kernel_bytes_held:held.kernel_bytes server_call_us_mean:held.server_call_us_mean server_queue_us_mean:held.server_queue_us_mean \
    antagonists_cpu_percent:antagonists_cpu.percent server_cpu_s:server_cpu.seconds server_cpu_percent:server_cpu.percent \
    client_cpu_s:client_cpu.seconds client_cpu_percent:client_cpu.percent server_memory_bytes client_memory_bytes \
    judgement:verdict.judgement bound:verdict.bound sentence:verdict.sentence slo_met:slo.met";

/// The columns of `series.csv`: of a second, of what each side used in it, and of the machine.
const SECOND: &str = "answers refused failed outstanding us_mean us_p50 us_p99 us_max";
const USED: &str =
    "cpu_percent cpu_percent_thread_max wait_percent switches_voluntary switches_involuntary memory_bytes";
const MACHINE: &str = "machine_percent load_minute_1 foreign_percent steal_percent rx_bytes tx_bytes retransmits listen_overflows \
    accept_queue server_receive_queue_bytes send_queue_bytes accelerator_percent accelerator_memory_bytes";

/// How far apart two ends may lie that are taken for one.
const APART_S_MAX: f64 = 0.5;

/// Every point of the run in one row, with a header.
pub fn points_csv(run: &RunResult) -> String {
    let mut columns = POINT.to_owned();
    for which in ["latency", "service", "lateness", "latency_refused"] {
        columns += &of_part(&format!("{which}_"), which, LATENCY);
    }
    columns += &format!(" {POINT_REST}");
    let row = |point: &Point| {
        let mut row = json!(point);
        let grid = point.grid.iter().map(|(key, value)| format!("{key}={value}"));
        row["grid"] = grid.collect::<Vec<_>>().join(";").into();
        row["refused"] = point.counters.refused_total().into();
        row["errors"] = point.counters.errors_total().into();
        row
    };
    table(&columns, run.points.iter().map(row))
}

/// Every second of every point in one row, what was used beside what was answered, with a header. Every second and every
/// interval of resources is in exactly one row; those that end within half a second of each other share it.
pub fn series_csv(run: &RunResult) -> String {
    let columns = [
        "point s".to_owned(),
        of_part("", "second", SECOND),
        of_part("server_", "used.server", USED),
        of_part("client_", "used.client", USED),
        of_part("", "used", MACHINE),
    ];
    let rows = run.points.iter().flat_map(|point| {
        beside(point).into_iter().map(|(second, used)| {
            let s = second.map(|second| second.s).or(used.map(|used| used.s));
            json!({ "point": point.number, "s": s, "second": second, "used": used })
        })
    });
    table(&columns.concat(), rows)
}

/// Seconds and intervals in the order of time.
fn beside(point: &Point) -> Vec<(Option<&Second>, Option<&ResourceSecond>)> {
    let mut rows = Vec::new();
    let mut seconds = point.series.iter().peekable();
    let mut intervals = point.resources.seconds.iter().peekable();
    loop {
        match (seconds.peek(), intervals.peek()) {
            (None, None) => return rows,
            (Some(second), Some(used)) if (second.s - used.s).abs() <= APART_S_MAX => {
                rows.push((seconds.next(), intervals.next()));
            }
            (Some(second), Some(used)) if used.s < second.s => rows.push((None, intervals.next())),
            (Some(_), _) => rows.push((seconds.next(), None)),
            (None, Some(_)) => rows.push((None, intervals.next())),
        }
    }
}

/// Columns of the keys of one part, each behind a space.
fn of_part(prefix: &str, part: &str, keys: &str) -> String {
    let keys = keys.split_ascii_whitespace();
    keys.map(|key| format!(" {prefix}{key}:{part}.{key}")).collect()
}

/// A header of `columns`, and a line for each of the rows.
fn table(columns: &str, rows: impl Iterator<Item = Value>) -> String {
    let columns = columns.split_ascii_whitespace();
    let (names, paths): (Vec<&str>, Vec<&str>) = columns
        .map(|column| column.split_once(':').unwrap_or((column, column)))
        .unzip();
    let mut text = names.join(",") + "\n";
    for row in rows {
        let found = |path: &&str| path.split('.').fold(&row, |part, key| &part[key]).clone();
        text += &line(paths.iter().map(found));
    }
    text
}

/// One row of fields.
fn line(fields: impl IntoIterator<Item = Value>) -> String {
    let fields: Vec<String> = fields.into_iter().map(field).collect();
    fields.join(",") + "\n"
}

/// A figure has three digits behind the point, as far as they are not zero; counts, flags and words stand as they are.
fn field(value: Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Number(number) if number.is_f64() => {
            let text = format!("{:.3}", number.as_f64().unwrap_or_default());
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        other => other.to_string(),
    };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests;
