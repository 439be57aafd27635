//! `controller.csv`: the columns of report R3's controllers, one row for each minute of a point.
//!
//! A row has a sample for each of its seconds; averages, minima and maxima are over these. Its invariant: names and order of
//! the columns are the original's, and what was not measured is an empty field.

use std::time::{Duration, UNIX_EPOCH};

use millpond_press_recorder::ResourceSecond;

use super::Row;
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
    let mut row = Row::default();
    for point in &run.points {
        let sent = sent(point);
        for (at, seconds) in point.series.chunks(ROW_S).enumerate() {
            let sent = &sent[at * ROW_S..at * ROW_S + seconds.len()];
            minute(run, point, seconds, sent, &mut row);
            row.end(&mut text);
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

fn minute(run: &RunResult, point: &Point, seconds: &[Second], sent: &[f64], row: &mut Row) {
    let (Some(first), Some(last)) = (seconds.first(), seconds.last()) else {
        return;
    };
    let unix_s = point.started_unix_s + last.s;
    let of_point = |count: u64| count as f64 / (point.us_total.max(1) as f64 / 1e6);
    let held = point.held.as_ref();
    when(unix_s, row);
    row.whole(point.offered.connections);
    spread(sent.iter().copied(), row);
    spread(seconds.iter().map(|second| second.answers as f64), row);
    let failed = seconds
        .iter()
        .map(|second| second.refused as f64 + second.failed as f64);
    row.figure(Some(of_point(point.counters.not_sent)))
        .figure(mean(failed));
    time_cost(seconds, row);
    row.figure(held.and_then(|held| held.server_calls).map(of_point))
        .count(held.and_then(|held| held.server_connections));
    let within = |used: &&ResourceSecond| used.s > first.s - 1.0 && used.s <= last.s + 0.5;
    let used: Vec<&ResourceSecond> = point.resources.seconds.iter().filter(within).collect();
    let of = |figure: fn(&ResourceSecond) -> Option<f64>| mean(used.iter().filter_map(|used| figure(used)));
    let load = of(|used| used.load_minute_1);
    let cores = run.machine.cores.filter(|cores| *cores > 0);
    row.figure(load)
        .figure(load.zip(cores).map(|(load, cores)| load / cores as f64))
        // A connect goes to the server and back, as a ping does.
        .figure(held.and_then(|held| held.connect_us_min).map(|us| us / 2_000.0))
        .figure(of(|used| used.rx_bytes))
        .figure(of(|used| used.tx_bytes));
}

/// The moment, its minute and the second in it; nothing where it is no moment of a run.
fn when(unix_s: f64, row: &mut Row) {
    if !(0.0..UNIX_S_MAX).contains(&unix_s) {
        row.text("").text("").text("");
        return;
    }
    let at = rfc3339_utc(UNIX_EPOCH + Duration::from_secs_f64(unix_s));
    let (minute, second) = at.trim_end_matches('Z').rsplit_once(':').unwrap_or((&at, ""));
    row.text(&at).text(minute).text(second);
}

/// Of the answers of all seconds, and of the seconds with the lowest and the highest mean.
fn time_cost(seconds: &[Second], row: &mut Row) {
    let means = || seconds.iter().filter_map(|second| second.us_mean);
    let answers: f64 = seconds.iter().map(|second| second.answers as f64).sum();
    let sum: f64 = seconds
        .iter()
        .filter_map(|second| Some(second.us_mean? * second.answers as f64))
        .sum();
    row.figure((answers > 0.0).then(|| sum / answers))
        .figure(means().reduce(f64::min))
        .figure(means().reduce(f64::max));
}

/// Average, minimum and maximum.
fn spread(figures: impl Iterator<Item = f64> + Clone, row: &mut Row) {
    row.figure(mean(figures.clone()))
        .figure(figures.clone().reduce(f64::min))
        .figure(figures.reduce(f64::max));
}

fn mean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = figures.fold((0.0, 0u32), |(sum, count), figure| (sum + figure, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
