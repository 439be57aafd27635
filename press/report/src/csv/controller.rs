//! `controller.csv`: the columns of report R3's controllers, one row for each minute of a point.
//!
//! A row has a sample for each of its seconds; averages, minima and maxima are over these. Its invariant: names and order of
//! the columns are the original's, and what was not measured is an empty field.

use std::time::{Duration, UNIX_EPOCH};

use millpond_press_recorder::ResourceSecond;

use serde_json::Value;

use super::line;
use crate::{Point, RunResult, Second, rfc3339_utc};

const COLUMNS: [&str; 22] = [
    "Record time (UTC)",
    "UTC Minute",
    "Second",
    "Stress Connection Count",
    "Average Send QPS",
    "Min Send QPS",
    "Max Send QPS",
    "Average Recv QPS",
    "Min Recv QPS",
    "Max Recv QPS",
    "Average Send Error Count",
    "Average Recv Error Count",
    "Average Time Cost (usec)",
    "Min Time Cost (usec)",
    "Max Time Cost (usec)",
    "Interface QPS",
    "Server Connection Count",
    "load",
    "load/cpu",
    "ping/2 (msec)",
    "Recv Bytes/s",
    "Send Bytes/s",
];

/// Seconds of a row.
const ROW_S: usize = 60;
/// Later moments are none that a run had.
const UNIX_S_MAX: f64 = 4e9;

/// Every minute of every point in one row, with a header.
pub fn controller_csv(run: &RunResult) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for point in &run.points {
        let sent = sent(point);
        for (seconds, sent) in point.series.chunks(ROW_S).zip(sent.chunks(ROW_S)) {
            text += &line(minute(run, point, seconds, sent));
        }
    }
    text
}

/// Requests sent within each second: those that ended in it, and those more that were on their way at its end.
fn sent(point: &Point) -> Vec<f64> {
    let mut before = 0.0;
    let each = |second: &Second| {
        let outstanding = second.outstanding as f64;
        let ended = second.answers as f64 + second.refused as f64 + second.failed as f64;
        let sent = ended + outstanding - before;
        before = outstanding;
        sent.max(0.0)
    };
    point.series.iter().map(each).collect()
}

fn minute(run: &RunResult, point: &Point, seconds: &[Second], sent: &[f64]) -> Vec<Value> {
    let (Some(first), Some(last)) = (seconds.first(), seconds.last()) else {
        return Vec::new();
    };
    let of_point = |count: u64| count as f64 / (point.us_total.max(1) as f64 / 1e6);
    let held = point.held.as_ref();
    let mut row = when(point.started_unix_s + last.s).map(Value::from).to_vec();
    row.push(point.offered.connections.into());
    row.extend(spread(sent.iter().copied()));
    row.extend(spread(seconds.iter().map(|second| second.answers as f64)));
    let failed = seconds
        .iter()
        .map(|second| second.refused as f64 + second.failed as f64);
    row.extend([of_point(point.counters.not_sent).into(), mean(failed).into()]);
    row.extend(time_cost(seconds));
    row.push(held.and_then(|held| held.server_calls).map(of_point).into());
    row.push(held.and_then(|held| held.server_connections).into());
    let within = |used: &&ResourceSecond| used.s > first.s - 1.0 && used.s <= last.s + 0.5;
    let used: Vec<&ResourceSecond> = point.resources.seconds.iter().filter(within).collect();
    let of = |figure: fn(&ResourceSecond) -> Option<f64>| mean(used.iter().filter_map(|used| figure(used)));
    let load = of(|used| used.load_minute_1);
    let cores = run.machine.cores.filter(|cores| *cores > 0);
    let figures = [
        load,
        load.zip(cores).map(|(load, cores)| load / cores as f64),
        // A connect goes to the server and back, as a ping does.
        held.and_then(|held| held.connect_us_min).map(|us| us / 2_000.0),
        of(|used| used.rx_bytes),
        of(|used| used.tx_bytes),
    ];
    row.extend(figures.map(Value::from));
    row
}

/// The moment, its minute and the second in it; nothing where it is no moment of a run.
fn when(unix_s: f64) -> [String; 3] {
    if !(0.0..UNIX_S_MAX).contains(&unix_s) {
        return Default::default();
    }
    let at = rfc3339_utc(UNIX_EPOCH + Duration::from_secs_f64(unix_s));
    let (minute, second) = at.trim_end_matches('Z').rsplit_once(':').unwrap_or((&at, ""));
    [at.clone(), minute.to_owned(), second.to_owned()]
}

/// Of the answers of all seconds, and of the seconds with the lowest and the highest mean.
fn time_cost(seconds: &[Second]) -> [Value; 3] {
    let means = || seconds.iter().filter_map(|second| second.us_mean);
    let answers: f64 = seconds.iter().map(|second| second.answers as f64).sum();
    let sum: f64 = seconds
        .iter()
        .filter_map(|second| Some(second.us_mean? * second.answers as f64))
        .sum();
    let mean = (answers > 0.0).then(|| sum / answers);
    [mean, means().reduce(f64::min), means().reduce(f64::max)].map(Value::from)
}

/// Average, minimum and maximum.
fn spread(figures: impl Iterator<Item = f64> + Clone) -> [Value; 3] {
    let (low, high) = (figures.clone().reduce(f64::min), figures.clone().reduce(f64::max));
    [mean(figures), low, high].map(Value::from)
}

fn mean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = figures.fold((0.0, 0u32), |(sum, count), figure| (sum + figure, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
