//! The figures of a point that formulas can name.
//!
//! Its invariant: a figure that was not measured is absent, and never a zero.

use millpond_press_recorder::Side;

use crate::Point;

type Figure = (&'static str, fn(&Point) -> Option<f64>);

/// Those without an argument.
const FIGURES: &[Figure] = &[
    ("qps", |point| Some(point.qps)),
    ("sent_per_s", |point| Some(point.sent_per_s)),
    ("us_mean", |point| point.latency.us_mean),
    ("us_p50", |point| point.latency.us_p50),
    ("us_p90", |point| point.latency.us_p90),
    ("us_p95", |point| point.latency.us_p95),
    ("us_p99", |point| point.latency.us_p99),
    ("us_p99_9", |point| point.latency.us_p99_9),
    ("us_max", |point| point.latency.us_max),
    // Where nothing was refused, nothing was late.
    ("refused_us_p99", |point| match point.counters.refused_total() {
        0 => Some(0.0),
        _ => point.latency_refused.us_p99,
    }),
    ("refused_per_s", |point| {
        Some(point.counters.refused_total() as f64 * 1e6 / point.us_total as f64)
    }),
    ("lateness_us_p99", |point| point.lateness.us_p99),
    ("answers", |point| Some(point.counters.answers() as f64)),
    ("warm_up_answers", |point| Some(point.warm_up.answers as f64)),
    ("failed", |point| Some(point.counters.failed_total() as f64)),
    ("not_sent", |point| Some(point.counters.not_sent as f64)),
    ("lost", |point| Some(lost(point) as f64)),
    ("server_cpu_us", |point| each(point, point.server_cpu?.seconds)),
    ("client_cpu_us", |point| each(point, point.client_cpu?.seconds)),
    ("server_memory_bytes", |point| {
        point.server_memory_bytes.map(|bytes| bytes as f64)
    }),
    ("server_memory_bytes_max", |point| {
        let seconds = point.resources.seconds.iter();
        let bytes = seconds.filter_map(|second| Some(second.server?.memory_bytes));
        bytes.max().map(|bytes| bytes as f64)
    }),
    ("held_connections", |point| {
        point.held?.server_connections.map(|count| count as f64)
    }),
    ("bytes_per_connection", |point| {
        let held = point.held?;
        Some(held.server_bytes? as f64 / held.opened as f64)
    }),
];

/// Those that take an argument, and what that is.
const WITH_ARGUMENT: &[(&str, &str)] = &[
    (
        "metric",
        "a sample of the target's metrics, at the end of the point",
    ),
    (
        "grown",
        "a sample of the target's metrics, which counts what it grew by",
    ),
    ("refused", "a code of refusals"),
    ("status", "a code of errors"),
    ("thread_cpu_s", "the name of a thread of the server"),
    (
        "verdict",
        "a judgement and a bound, such as VALID server_cpu; 1 where the point has both",
    ),
];

/// Microseconds an answer.
fn each(point: &Point, seconds: f64) -> Option<f64> {
    let answers = point.counters.answers();
    (answers > 0).then(|| seconds * 1e6 / answers as f64)
}

/// Requests without an answer, and connections that were not there when they were needed. One that was made again had been lost.
fn lost(point: &Point) -> u64 {
    let counters = &point.counters;
    let opened = point.held.map_or(counters.connections_opened, |held| held.opened);
    counters.failed_total()
        + counters.refused_total()
        + counters.not_sent
        + counters.cut
        + counters.connections_opened.saturating_sub(opened)
        + counters.connections_refused
        + counters.connections_failed
}

/// Processor time of the server's threads of that name.
fn thread_cpu_s(point: &Point, name: &str) -> Option<f64> {
    let threads = point.resources.threads.iter();
    let named = threads.filter(|thread| thread.side == Side::Server && thread.name == name);
    let percents: Vec<f64> = named.map(|thread| thread.cpu_percent).collect();
    let sum: f64 = percents.iter().sum();
    (!percents.is_empty()).then_some(sum / 100.0 * point.us_total as f64 / 1e6)
}

/// Whether formulas can name it.
fn is_figure(name: &str) -> bool {
    FIGURES.iter().any(|(known, _)| *known == name) || WITH_ARGUMENT.iter().any(|(known, _)| *known == name)
}

/// Whether it is read from a server's own metrics.
pub(super) fn is_metric(name: &str) -> bool {
    matches!(name, "metric" | "grown")
}

/// Whether the figure exists and has the argument that it needs.
pub(super) fn check(name: &str, argument: Option<&str>) -> Result<(), String> {
    let needed = WITH_ARGUMENT.iter().find(|(known, _)| *known == name);
    match (needed, argument) {
        (Some((_, what)), None) => Err(format!("{name} needs {what}: {name}(\"…\")")),
        (None, Some(_)) if is_figure(name) => Err(format!("{name} takes nothing in parentheses")),
        (None, _) if !is_figure(name) => {
            let known: Vec<&str> = FIGURES.iter().map(|(known, _)| *known).collect();
            Err(format!(
                "{name:?} is no figure of a point; there are {}",
                known.join(", ")
            ))
        }
        _ => Ok(()),
    }
}

/// The figure of a point, but for those of metrics.
pub(super) fn figure(point: &Point, name: &str, argument: Option<&str>) -> Option<f64> {
    let code = || argument?.parse::<u32>().ok();
    let counters = &point.counters;
    match name {
        "refused" => Some(counters.refused.get(&code()?).copied().unwrap_or(0) as f64),
        "status" => Some(counters.status_codes.get(&code()?).copied().unwrap_or(0) as f64),
        "thread_cpu_s" => thread_cpu_s(point, argument?),
        "verdict" => {
            let verdict = &point.verdict;
            let found = format!("{} {}", verdict.judgement, verdict.bound);
            Some(f64::from(u8::from(found == argument?)))
        }
        _ => {
            let (_, of) = FIGURES.iter().find(|(known, _)| *known == name)?;
            of(point)
        }
    }
}
