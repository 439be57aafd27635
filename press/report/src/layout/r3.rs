//! The tables of report R3: its columns, then the tails and the cost of a connection, which it left out.
//!
//! Its invariant: names, order and units of the original's columns are the original's; what a connection costs is shown
//! where there are enough of them to carry what the server needs anyway.

use crate::number::{ABSENT, cpu, fixed, us_of};
use crate::table::{Table, cells};
use crate::{Held, Point};

/// With fewer connections the server's own buffers weigh more than theirs.
const CONNECTIONS_MIN: u64 = 1_000;

/// One table for each combination of the grid.
pub(crate) fn tables(groups: &[(String, Vec<&Point>)]) -> Vec<Table> {
    groups.iter().map(|(name, points)| table(name, points)).collect()
}

fn table(name: &str, points: &[&Point]) -> Table {
    let mut table = Table::new(
        name,
        "connections|QPS|mean response (usec)|offered QPS|p50 usec|p99 usec|p99.9 usec|max usec|refused|not sent|errors|\
         opened a second|server bytes a connection|kernel bytes a connection|server CPU %|client CPU %|(verdict)",
    );
    for point in points {
        let latency = &point.latency;
        let offered = point
            .offered
            .rate
            .map_or_else(|| ABSENT.into(), |rate| fixed(rate, 0));
        table.row(cells![
            point.offered.connections.to_string(),
            fixed(point.qps, 0),
            latency
                .us_mean
                .map_or_else(|| format!("{ABSENT} (0)"), |us| fixed(us, 0)),
            offered,
            us_of(latency.us_p50, latency),
            us_of(latency.us_p99, latency),
            us_of(latency.us_p99_9, latency),
            us_of(latency.us_max, latency),
            point.counters.refused_total().to_string(),
            point.counters.not_sent.to_string(),
            point.counters.failed_total().to_string(),
            opened_per_s(point.held.as_ref()),
            share(point.held.as_ref(), |held| held.server_bytes),
            share(point.held.as_ref(), |held| held.kernel_bytes),
            cpu(point.server_cpu),
            cpu(point.client_cpu),
            point.verdict.judgement,
        ]);
    }
    table
}

fn opened_per_s(held: Option<&Held>) -> String {
    let rate = held
        .filter(|held| held.opening_s > 0.0)
        .map(|held| held.opened as f64 / held.opening_s);
    rate.map_or_else(|| ABSENT.into(), |rate| fixed(rate, 0))
}

/// Bytes of one connection.
fn share(held: Option<&Held>, bytes: impl Fn(&Held) -> Option<u64>) -> String {
    let held = held.filter(|held| held.opened >= CONNECTIONS_MIN);
    let each = held.and_then(|held| Some(bytes(held)? as f64 / held.opened as f64));
    each.map_or_else(|| ABSENT.into(), |each| fixed(each, 0))
}
