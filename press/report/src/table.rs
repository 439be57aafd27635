//! Tables in Markdown: the general one and the one of report R1.
//!
//! Its invariant: a figure that does not exist is printed as `n/a`, with the number of samples where those were too few;
//! never as 0.

use millpond_press_recorder::LatencySummary;

use crate::{Cpu, Point};

/// A table under construction: columns are padded, so that it reads well as plain text too.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Table {
        Table {
            rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()],
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // A bar would end the cell.
        self.rows.push(
            cells
                .into_iter()
                .map(|cell| cell.replace('|', "\\|").replace('\n', " "))
                .collect(),
        );
    }

    /// The first column is aligned to the left, figures to the right.
    pub(crate) fn draw(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).max(3)).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            text.push('|');
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width - cell.chars().count());
                text += &if column == 0 {
                    format!(" {cell}{padding} |")
                } else {
                    format!(" {padding}{cell} |")
                };
            }
            text.push('\n');
            if number == 0 {
                text.push('|');
                for (column, &width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width);
                    text += &if column == 0 {
                        format!(" {dashes} |")
                    } else {
                        format!(" {dashes}:|")
                    };
                }
                text.push('\n');
            }
        }
        text
    }
}

/// One line a point, whatever the scenario.
pub(crate) fn general(points: &[&Point]) -> String {
    let mut table = Table::new(&[
        "target",
        "connections",
        "in flight",
        "ok/s",
        "refused",
        "errors",
        "p50 us",
        "p90 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "server CPU %",
        "client CPU %",
    ]);
    for point in points {
        let latency = &point.latency;
        table.row([
            target(point),
            point.connections.to_string(),
            point.in_flight.to_string(),
            format!("{:.1}", point.qps),
            point.counters.refused_total().to_string(),
            point.counters.failed_total().to_string(),
            figure(latency.us_p50, latency),
            figure(latency.us_p90, latency),
            figure(latency.us_p99, latency),
            figure(latency.us_p99_9, latency),
            figure(latency.us_max, latency),
            cpu(point.server_cpu),
            cpu(point.client_cpu),
        ]);
    }
    table.draw()
}

/// The columns of the original (testParams, aveTime, totalTime, qps), then what it left out.
pub(crate) fn r1(points: &[&Point]) -> String {
    let mut table = Table::new(&[
        "testParams",
        "aveTime(us)",
        "totalTime(us)",
        "qps",
        "p50(us)",
        "p99(us)",
        "refused",
        "not sent",
        "errors",
        "server CPU %",
        "client CPU %",
    ]);
    for point in points {
        let latency = &point.latency;
        table.row([
            test_params(point),
            mean(latency),
            point.us_total.to_string(),
            format!("{:.1}", point.qps),
            figure(latency.us_p50, latency),
            figure(latency.us_p99, latency),
            point.counters.refused_total().to_string(),
            point.counters.not_sent.to_string(),
            point.counters.failed_total().to_string(),
            cpu(point.server_cpu),
            cpu(point.client_cpu),
        ]);
    }
    table.draw()
}

/// The summary table of the original: one line for each combination of the grid.
pub(crate) fn r1_summary(groups: &[(String, Vec<&Point>)]) -> String {
    let mut table = Table::new(&[
        "grid",
        "aveTime (ms, 1 thread)",
        "server CPU % at the best point",
        "qps, best point",
        "threads",
    ]);
    for (name, points) in groups {
        let single = points
            .iter()
            .find(|point| point.connections == 1)
            .and_then(|point| point.latency.us_mean);
        let Some(best) = points.iter().max_by(|a, b| a.qps.total_cmp(&b.qps)) else {
            continue;
        };
        table.row([
            name.clone(),
            single.map_or_else(|| "n/a".into(), |us| format!("{:.3}", us / 1_000.0)),
            cpu(best.server_cpu),
            format!("{:.1}", best.qps),
            best.connections.to_string(),
        ]);
    }
    table.draw()
}

/// `json_1_200000_{threads}_{requests}`, as the original names its cases; requests is `{n}s` for a fixed time.
fn test_params(point: &Point) -> String {
    let format = if point.target.protocol == "http" {
        "json"
    } else {
        "msgpack"
    };
    let load = match (point.requests_per_connection, point.duration_s) {
        (Some(requests), _) => requests.to_string(),
        (None, Some(seconds)) => format!("{seconds}s"),
        (None, None) => "n/a".into(),
    };
    format!("{format}_1_200000_{}_{load}", point.connections)
}

fn target(point: &Point) -> String {
    let grid: String = point
        .grid
        .iter()
        .map(|(key, value)| format!(" {key}={value}"))
        .collect();
    format!("{} {}{grid}", point.target.protocol, point.target.path)
}

fn mean(latency: &LatencySummary) -> String {
    latency
        .us_mean
        .map_or_else(|| "n/a (0)".into(), |us| format!("{us:.0}"))
}

pub(crate) fn figure(figure: Option<u64>, latency: &LatencySummary) -> String {
    figure.map_or_else(|| format!("n/a ({})", latency.count), |us| us.to_string())
}

fn cpu(cpu: Option<Cpu>) -> String {
    cpu.map_or_else(|| "n/a".into(), |cpu| format!("{:.0}", cpu.percent))
}
