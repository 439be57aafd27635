//! The tables of report R2: one for each load, its figures as rows as the report has them, targets as columns, and what the report
//! says of Cube beside them.
//!
//! Its invariants: names, order and units of the rows are the original's, with what it left out below; a column of the report's own
//! figures says so, and stands only where as many keys were offered at the same rate.

use millpond_press_recorder::LatencySummary;

use crate::cases::Case;
use crate::layout::repeats;
use crate::number::{ABSENT, fixed, short, us, us_of};
use crate::table::{Cell, Table};
use crate::{Point, RunResult};

/// The original's rows, the time of the way behind them, then what it does not tell.
const ROWS: [&str; 20] = [
    "qps",
    "kps",
    "avg (us)",
    "p50 (us)",
    "p70 (us)",
    "p80 (us)",
    "p90 (us)",
    "p95 (us)",
    "p97 (us)",
    "p99 (us)",
    "p99.9 (us)",
    "p99.99 (us)",
    "cpu(top) %",
    "ping (us)",
    "client CPU %",
    "not sent",
    "refused",
    "errors",
    "verdict",
    "bounded by",
];

/// One column of the report.
struct Reported {
    /// Servers that a request was fanned out over.
    shards: u64,
    keys: f64,
    qps: f64,
    cpu_percent: Option<f64>,
    us_ping: Option<f64>,
    /// From `avg` to `p99.99`, in the order of [`ROWS`].
    us: [Option<f64>; 10],
}

/// A column of the first two tables, which have no p80.
const fn alone(keys: f64, qps: f64, cpu_percent: f64, us: [f64; 9]) -> Reported {
    let [avg, p50, p70, p90, p95, p97, p99, p99_9, p99_99] = us;
    Reported {
        shards: 1,
        keys,
        qps,
        cpu_percent: Some(cpu_percent),
        us_ping: None,
        us: [
            Some(avg),
            Some(p50),
            Some(p70),
            None,
            Some(p90),
            Some(p95),
            Some(p97),
            Some(p99),
            Some(p99_9),
            Some(p99_99),
        ],
    }
}

/// A column of the third table: ten shards and a client that fans out, 100 requests a second.
const fn sharded(keys: f64, us: [f64; 5]) -> Reported {
    let [avg, p80, p99, p99_9, p99_99] = us;
    Reported {
        shards: 10,
        keys,
        qps: 100.0,
        cpu_percent: None,
        us_ping: Some(60.0),
        us: [
            Some(avg),
            None,
            None,
            Some(p80),
            None,
            None,
            None,
            Some(p99),
            Some(p99_9),
            Some(p99_99),
        ],
    }
}

/// What report R2 says of Cube (Xeon E5-2650 v4, 1 M entries of 8 + 40 bytes).
#[rustfmt::skip]
const REPORT: [Reported; 9] = [
    alone(1.0, 100_000.0, 6.5, [196.0, 160.0, 188.0, 292.0, 419.0, 547.0, 835.0, 1_556.0, 1_779.0]),
    alone(1.0, 500_000.0, 38.3, [563.0, 342.0, 502.0, 1_063.0, 1_703.0, 2_399.0, 4_036.0, 7_195.0, 7_340.0]),
    alone(1.0, 1_000_000.0, 71.4, [4_234.0, 3_120.0, 5_459.0, 10_657.0, 14_074.0, 16_215.0, 19_434.0, 29_398.0, 33_921.0]),
    alone(100.0, 20_000.0, 3.5, [375.0, 346.0, 390.0, 498.0, 582.0, 648.0, 908.0, 1_623.0, 3_312.0]),
    alone(100.0, 100_000.0, 17.8, [1_141.0, 900.0, 1_237.0, 2_028.0, 2_662.0, 3_173.0, 4_614.0, 6_786.0, 6_273.0]),
    alone(100.0, 200_000.0, 37.6, [1_940.0, 1_299.0, 1_876.0, 3_629.0, 5_535.0, 7_365.0, 10_529.0, 14_060.0, 16_028.0]),
    sharded(100.0, [324.0, 346.0, 1_190.0, 3_662.0, 9_392.0]),
    sharded(500.0, [466.0, 488.0, 1_492.0, 4_122.0, 10_612.0]),
    sharded(1_000.0, [675.0, 691.0, 2_101.0, 5_169.0, 14_867.0]),
];

/// Rates and numbers of keys that are as good as the same.
fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.001 * other
}

/// One table for each load; then the report's figures at rates that were not offered here.
pub(super) fn tables(run: &RunResult) -> Vec<Table> {
    let loads = repeats::by_load(run);
    let of_load = |(load, members): &(String, Vec<Case<'_>>)| table(run, load, members);
    let mut tables: Vec<Table> = loads.iter().map(of_load).collect();
    let offered: Vec<(Option<f64>, Option<f64>)> = loads
        .iter()
        .map(|(_, members)| (keys_of_all(run, members), rate_of(members)))
        .collect();
    let is_left = |of: &&Reported| {
        let has_keys = |keys: Option<f64>| keys.is_some_and(|keys| is_near(keys, of.keys));
        let has_rate = |rate: Option<f64>| rate.is_some_and(|rate| is_near(rate, of.qps));
        let mut same_keys = offered.iter().filter(|(keys, _)| has_keys(*keys)).peekable();
        of.shards == 1 && same_keys.peek().is_some() && !same_keys.any(|(_, rate)| has_rate(*rate))
    };
    let left: Vec<&Reported> = REPORT.iter().filter(is_left).collect();
    if !left.is_empty() {
        let mut rest = Table::new(
            "What report R2 says of Cube at rates that were not offered here",
            "()",
        );
        for of in &left {
            rest.figures(&format!("Cube, {}, {}/s (reference)", words(of.keys), of.qps));
        }
        for row in ROWS {
            let cells = left.iter().map(|of| reported(row, of));
            rest.row([Cell::from(row)].into_iter().chain(cells));
        }
        tables.push(rest);
    }
    tables
}

/// One load: a column for the report where it has one, and for each target.
fn table(run: &RunResult, load: &str, members: &[Case<'_>]) -> Table {
    let (keys, rate) = (keys_of_all(run, members), rate_of(members));
    let caption = match keys {
        None => load.to_owned(),
        Some(keys) => format!("{} a request, {load}", words(keys)),
    };
    let mut table = Table::new(caption, "()");
    let is_same = |of: &&Reported| {
        let near = |offered: Option<f64>, reported: f64| offered.is_some_and(|one| is_near(one, reported));
        near(keys, of.keys) && near(rate, of.qps)
    };
    let report: Vec<&Reported> = REPORT.iter().filter(is_same).collect();
    for of in &report {
        table.figures(match of.shards {
            1 => "Cube (reference)",
            _ => "Cube, 10 shards (reference)",
        });
    }
    for case in members {
        table.figures(&repeats::name(case));
    }
    for row in ROWS {
        let of_report = report.iter().map(|of| reported(row, of));
        let of_targets = members.iter().map(|case| measured(row, case, keys_of(run, case)));
        table.row([Cell::from(row)].into_iter().chain(of_report).chain(of_targets));
    }
    table
}

/// `1 key`, `100 keys`.
fn words(keys: f64) -> String {
    let plural = if keys == 1.0 { "" } else { "s" };
    format!("{} key{plural}", short(keys))
}

/// A figure of the report.
fn reported(row: &str, of: &Reported) -> Cell {
    let whole = |figure: Option<f64>| figure.map_or_else(|| ABSENT.into(), |figure| fixed(figure, 0));
    match row {
        "qps" => whole(Some(of.qps)),
        "kps" => whole(Some(of.qps * of.keys)),
        "cpu(top) %" => of.cpu_percent.map_or_else(|| ABSENT.into(), |cpu| fixed(cpu, 1)),
        "ping (us)" => whole(of.us_ping),
        row => {
            let place = ROWS
                .iter()
                .position(|other| *other == row)
                .and_then(|at| at.checked_sub(2));
            whole(place.and_then(|at| of.us.get(at).copied().flatten()))
        }
    }
    .into()
}

/// A figure of a target: the median over the repeats, the sum of a count, the gravest verdict.
fn measured(row: &str, case: &Case<'_>, keys: Option<f64>) -> Cell {
    let whole = |figure: Option<f64>| figure.map_or_else(|| ABSENT.into(), |figure| fixed(figure, 0));
    let latency = |figure: fn(&LatencySummary) -> Option<f64>| repeats::latency(case, us_of, figure);
    let qps = case.median(|point| Some(point.qps));
    match row {
        "qps" => whole(qps),
        "kps" => whole(qps.zip(keys).map(|(qps, keys)| qps * keys)),
        "avg (us)" => latency(|latency| latency.us_mean),
        "p50 (us)" => latency(|latency| latency.us_p50),
        "p70 (us)" => latency(|latency| latency.us_p70),
        "p80 (us)" => latency(|latency| latency.us_p80),
        "p90 (us)" => latency(|latency| latency.us_p90),
        "p95 (us)" => latency(|latency| latency.us_p95),
        "p97 (us)" => latency(|latency| latency.us_p97),
        "p99 (us)" => latency(|latency| latency.us_p99),
        "p99.9 (us)" => latency(|latency| latency.us_p99_9),
        "p99.99 (us)" => latency(|latency| latency.us_p99_99),
        "cpu(top) %" => repeats::share(case, |point| point.server_cpu),
        "ping (us)" => {
            let ping = case.median(|point| point.held.and_then(|held| held.connect_us_min));
            ping.map_or_else(|| ABSENT.into(), us)
        }
        "client CPU %" => repeats::share(case, |point| point.client_cpu),
        "not sent" => repeats::sum(case, |point| point.counters.not_sent),
        "refused" => repeats::sum(case, |point| point.counters.refused_total()),
        "errors" => repeats::sum(case, |point| point.counters.failed_total()),
        "verdict" => return repeats::verdict(case).into(),
        "bounded by" => bounds(case),
        _ => ABSENT.into(),
    }
    .into()
}

/// What bounded the repeats, each once.
fn bounds(case: &Case<'_>) -> String {
    let bounds: Vec<String> = case
        .points()
        .iter()
        .map(|point| point.verdict.bound.to_string().replace('_', " "))
        .collect();
    crate::cases::distinct(bounds.iter().map(String::as_str)).join(", ")
}

/// Keys of a request to one target.
fn keys_of(run: &RunResult, case: &Case<'_>) -> Option<f64> {
    let name = case.points().first().map(|point| point.target.name.as_str())?;
    let mut requests = run.requests.iter().filter(|requests| requests.target == name);
    requests.next().and_then(|requests| requests.keys)
}

/// Keys of a request to the first target that is asked for keys.
fn keys_of_all(run: &RunResult, members: &[Case<'_>]) -> Option<f64> {
    members.iter().find_map(|case| keys_of(run, case))
}

/// The offered rate.
fn rate_of(members: &[Case<'_>]) -> Option<f64> {
    let first: Option<&&Point> = members.first().and_then(|case| case.points().first());
    first.and_then(|point| point.offered.rate)
}

#[cfg(test)]
mod tests;
