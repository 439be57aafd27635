//! The tables of report R5: one a target, with the report's columns and figures, and what the report could not explain.
//!
//! Its invariants: repeats stand beside each other as the report has them, never joined; a figure of the report says so; whether
//! something is reproduced follows from this run's figures alone.

mod reported;
mod unexplained;

use millpond_press_recorder::LatencySummary;

use crate::cases::{self, Case};
use crate::layout::repeats;
use crate::number::{ABSENT, cpu, fixed, ms_of};
use crate::table::{Table, cells};
use crate::{Point, RunResult, describe};
use millpond_press_verdict::Split;

/// The report's columns with the tails that it left out, then its own figures.
const COLUMNS: &str = "QPS|(beside)|CPU %|rxKB/s|txKB/s|mean ms|p50 ms|p95 ms|p99 ms|p99.9 ms|p99.99 ms|max ms|service ms|queue ms|rest ms|\
    p95 worse by|errors|(verdict)|(bounded by)|report: CPU %|report: p95 ms|report: max ms|report: p95 worse by";

/// Where the store is for who asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// In the load generator's own process.
    Integrated,
    Loopback,
    Network,
}

impl Mode {
    fn of(point: &Point) -> Mode {
        let host = point.target.address.rsplit_once(':').map_or("", |(host, _)| host);
        match host {
            "" => Mode::Integrated,
            "localhost" | "[::1]" => Mode::Loopback,
            host if host.starts_with("127.") => Mode::Loopback,
            _ => Mode::Network,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Mode::Integrated => "in process",
            Mode::Loopback => "loopback",
            Mode::Network => "network",
        }
    }
}

/// One table a target, then what the report could not explain.
pub(super) fn tables(run: &RunResult) -> Vec<Table> {
    let names: Vec<String> = run.points.iter().map(describe::target).collect();
    let of_target = |name: &str| {
        let points = run.points.iter().filter(|point| describe::target(point) == name);
        table(run, name, points)
    };
    let names = cases::distinct(names.iter().map(String::as_str));
    names
        .into_iter()
        .map(of_target)
        .chain([unexplained::table(run)])
        .collect()
}

fn table<'r>(run: &RunResult, name: &str, points: impl Iterator<Item = &'r Point>) -> Table {
    let mut cases = cases::join(points, describe::target);
    // By rate, each without antagonists and then with them.
    cases.sort_by(|one, other| {
        one.by_weight(other)
            .then(is_disturbed(one).cmp(&is_disturbed(other)))
    });
    let mode = cases.first().and_then(first).map_or(Mode::Integrated, Mode::of);
    let target = cases
        .first()
        .and_then(first)
        .map(|point| point.target.name.as_str());
    let mut requests = run
        .requests
        .iter()
        .filter(|requests| Some(requests.target.as_str()) == target);
    let keys = requests.next().and_then(|requests| requests.keys);
    let keys = keys.map_or_else(String::new, |keys| format!(", {} keys a request", fixed(keys, 0)));
    // A target is often called by its mode.
    let words = match mode.in_words() {
        words if words == name => String::new(),
        words => format!(", {words}"),
    };
    // In process its own threads are not told from those that record and watch.
    let columns = match mode {
        Mode::Integrated => COLUMNS.replacen("|CPU %|", "|CPU % of press|", 1),
        Mode::Loopback | Mode::Network => COLUMNS.to_owned(),
    };
    let mut table = Table::new(format!("{name}{words}{keys}"), &columns);
    for case in &cases {
        let undisturbed = cases
            .iter()
            .find(|other| is_same_load(other, case) && !is_disturbed(other));
        row(&mut table, mode, case, undisturbed.filter(|_| is_disturbed(case)));
    }
    table
}

fn first<'a>(case: &Case<'a>) -> Option<&'a Point> {
    case.points().first().copied()
}

fn rate(case: &Case<'_>) -> Option<f64> {
    first(case).and_then(|point| point.offered.rate)
}

/// Whether two cases have the same rate on as many connections.
fn is_same_load(one: &Case<'_>, other: &Case<'_>) -> bool {
    let load = |case: &Case<'_>| first(case).map(|point| (point.offered.rate, point.offered.connections));
    load(one) == load(other)
}

fn is_disturbed(case: &Case<'_>) -> bool {
    first(case).is_some_and(|point| point.offered.antagonists.is_some())
}

fn row(table: &mut Table, mode: Mode, case: &Case<'_>, undisturbed: Option<&Case<'_>>) {
    let ms = |figure: fn(&LatencySummary) -> Option<f64>| {
        each(case, |point| ms_of(figure(&point.latency), &point.latency))
    };
    let antagonists = first(case).and_then(|point| point.offered.antagonists.as_ref());
    let beside = antagonists.map_or_else(
        || "nothing".to_owned(),
        |beside| {
            let plural = if beside.cores.len() == 1 { "" } else { "s" };
            format!(
                "{} antagonist{plural}: {}",
                beside.cores.len(),
                beside.interference.in_words()
            )
        },
    );
    let of_report = rate(case).and_then(|rate| reported::find(mode, rate, antagonists.is_some()));
    let report = |figure: fn(&reported::Reported) -> Option<String>| {
        of_report
            .as_ref()
            .and_then(figure)
            .unwrap_or_else(|| ABSENT.into())
    };
    let worse = undisturbed.and_then(|undisturbed| worse_by(undisturbed, case));
    table.row(cells![
        rate(case).map_or_else(|| ABSENT.into(), |rate| fixed(rate, 0)),
        beside,
        each(case, |point| cpu(used(mode, point))),
        each(case, |point| kilobytes(mode, point, |second| second.rx_bytes)),
        each(case, |point| kilobytes(mode, point, |second| second.tx_bytes)),
        ms(|latency| latency.us_mean),
        ms(|latency| latency.us_p50),
        ms(|latency| latency.us_p95),
        ms(|latency| latency.us_p99),
        ms(|latency| latency.us_p99_9),
        ms(|latency| latency.us_p99_99),
        ms(|latency| latency.us_max),
        each(case, |point| part(point, |split| Some(split.service))),
        each(case, |point| part(point, |split| split.queue)),
        each(case, |point| part(point, |split| Some(split.rest))),
        worse.map_or_else(|| ABSENT.into(), |worse| format!("{worse:.1} %")),
        repeats::sum(case, |point| point.counters.failed_total()),
        repeats::verdict(case),
        bounds(case),
        report(|of| of.cpu.clone()),
        report(|of| of.p95.clone()),
        report(|of| of.max.clone()),
        report(|of| of.worse.clone()),
    ]);
}

/// A figure of each repeat, as the report writes two runs.
fn each(case: &Case<'_>, figure: impl Fn(&Point) -> String) -> String {
    case.points()
        .iter()
        .map(|point| figure(point))
        .collect::<Vec<_>>()
        .join(", ")
}

fn used(mode: Mode, point: &Point) -> Option<crate::Cpu> {
    match mode {
        Mode::Integrated => point.client_cpu,
        Mode::Loopback | Mode::Network => point.server_cpu,
    }
}

/// Bytes of the server's interfaces; in process they would be somebody else's.
fn kilobytes(
    mode: Mode,
    point: &Point,
    bytes: impl Fn(&millpond_press_recorder::ResourceSecond) -> Option<f64>,
) -> String {
    let mean = mean_a_second(point, bytes).filter(|_| mode != Mode::Integrated);
    mean.map_or_else(|| ABSENT.into(), |mean| fixed(mean / 1_024.0, 1))
}

/// Bytes a second on average, where any second tells.
fn mean_a_second(
    point: &Point,
    bytes: impl Fn(&millpond_press_recorder::ResourceSecond) -> Option<f64>,
) -> Option<f64> {
    let seconds: Vec<f64> = point.resources.seconds.iter().filter_map(bytes).collect();
    (!seconds.is_empty()).then(|| seconds.iter().sum::<f64>() / seconds.len() as f64)
}

/// A part of the mean latency.
fn part(point: &Point, figure: impl Fn(&Split) -> Option<f64>) -> String {
    ms_of(point.split().as_ref().and_then(figure), &point.latency)
}

/// By how much antagonists make the 95th percentile worse, in percent, by the medians of the repeats.
fn worse_by(without: &Case<'_>, with: &Case<'_>) -> Option<f64> {
    let p95 = |case: &Case<'_>| case.median(|point| point.latency.us_p95);
    let (without, with) = (p95(without)?, p95(with)?);
    (without > 0.0).then(|| 100.0 * (with / without - 1.0))
}

/// What bounded the repeats, each once.
fn bounds(case: &Case<'_>) -> String {
    let bounds: Vec<String> = case
        .points()
        .iter()
        .map(|point| point.verdict.bound.to_string().replace('_', " "))
        .collect();
    cases::distinct(bounds.iter().map(String::as_str)).join(", ")
}

#[cfg(test)]
mod tests;
