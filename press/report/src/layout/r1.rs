//! The tables of report R1: the columns of the original, then what it left out.
//!
//! Its invariant: names, order and units of the original's columns are the original's.

use crate::number::{ABSENT, cpu, fixed, us_of};
use crate::table::{Table, cells};
use crate::{Judgement, Point};

/// One table for each combination of the grid, and the original's summary behind them.
pub(crate) fn tables(groups: &[(String, Vec<&Point>)]) -> Vec<Table> {
    let mut tables: Vec<Table> = groups.iter().map(|(name, points)| grid(name, points)).collect();
    tables.push(summary(groups));
    tables
}

fn grid(name: &str, points: &[&Point]) -> Table {
    let mut table = Table::new(
        name,
        "(testParams)|aveTime(us)|totalTime(us)|qps|p50(us)|p99(us)|refused|not sent|errors|server CPU %|client CPU %|\
         (verdict)",
    );
    for point in points {
        let latency = &point.latency;
        table.row(cells![
            test_params(point),
            latency
                .us_mean
                .map_or_else(|| format!("{ABSENT} (0)"), |us| fixed(us, 0)),
            point.us_total.to_string(),
            fixed(point.qps, 1),
            us_of(latency.us_p50, latency),
            us_of(latency.us_p99, latency),
            point.counters.refused_total().to_string(),
            point.counters.not_sent.to_string(),
            point.counters.failed_total().to_string(),
            cpu(point.server_cpu),
            cpu(point.client_cpu),
            point.verdict.judgement,
        ]);
    }
    table
}

/// One line for each combination of the grid. The best point is the fastest one whose figures are the server's.
fn summary(groups: &[(String, Vec<&Point>)]) -> Table {
    let mut table = Table::new(
        "Summary",
        "(grid)|aveTime (ms, 1 thread)|server CPU % at the best point|qps, best point|threads",
    );
    for (name, points) in groups {
        let single = points
            .iter()
            .find(|point| point.offered.connections == 1)
            .and_then(|point| point.latency.us_mean);
        let rank = |point: &Point| match point.verdict.judgement {
            Judgement::Valid => 2,
            Judgement::Failing => 0,
            _ => 1,
        };
        let best = points
            .iter()
            .max_by(|a, b| rank(a).cmp(&rank(b)).then(a.qps.total_cmp(&b.qps)));
        let Some(best) = best else {
            continue;
        };
        table.row(cells![
            name.as_str(),
            single.map_or_else(|| ABSENT.into(), |us| fixed(us / 1_000.0, 3)),
            cpu(best.server_cpu),
            fixed(best.qps, 1),
            best.offered.connections.to_string(),
        ]);
    }
    table
}

/// `json_1_200000_{threads}_{requests}`, as the original names its cases; requests is `{n}s` for a fixed time.
fn test_params(point: &Point) -> String {
    let format = if point.target.protocol == "http" {
        "json"
    } else {
        "msgpack"
    };
    let offered = &point.offered;
    let load = match (offered.requests_per_connection, offered.duration_s) {
        (Some(requests), _) => requests.to_string(),
        (None, Some(seconds)) => format!("{seconds}s"),
        (None, None) => ABSENT.into(),
    };
    format!("{format}_1_200000_{}_{load}", offered.connections)
}
