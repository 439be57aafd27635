//! The tables a report opens with: one line a point, those of reports R1 to R5, or targets side by side.
//!
//! Its invariant: a figure that does not exist is printed as `n/a`, with the number of samples where those were too few;
//! never as 0.

pub(crate) mod columns;
pub(crate) mod peers;
mod r2;
mod r4;
mod r5;
pub(crate) mod repeats;

use crate::number::{ABSENT, cpu, fixed};
use crate::table::{Table, cells};
use crate::{Judgement, Layout, Point, RunResult, describe};

/// Points that share the grid's values, under their words.
type Group<'p> = (String, Vec<&'p Point>);

/// The tables in the scenario's own layout; none without a point.
pub(crate) fn tables(run: &RunResult) -> Vec<Table> {
    if run.points.is_empty() {
        return Vec::new();
    }
    let groups = by_grid(&run.points);
    let each = |columns| {
        let of_group =
            move |(name, points): &Group<'_>| columns::table(name, columns, points.iter().copied());
        groups.iter().map(of_group)
    };
    match run.layout {
        Layout::General => vec![columns::table("Every point", columns::GENERAL, &run.points)],
        Layout::R1 => each(columns::R1).chain([r1_summary(&groups)]).collect(),
        Layout::R2 => r2::tables(run),
        Layout::R3 => each(columns::R3).collect(),
        Layout::Peers => peers::tables(run),
        Layout::R4 => r4::tables(run),
        Layout::R5 => r5::tables(run),
    }
}

/// The summary of report R1: a line for each combination of the grid. The best point is the fastest whose figures are the
/// server's.
fn r1_summary(groups: &[Group<'_>]) -> Table {
    let mut table = Table::new(
        "Summary",
        "(build)|(grid)|aveTime (ms, 1 thread)|server CPU % at the best point|GPU % at the best point|qps, best point|threads",
    );
    for (name, points) in groups {
        let mut alone = points.iter().filter(|point| point.offered.connections == 1);
        let single = alone.next().and_then(|point| point.latency.us_mean);
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
            columns::build(best),
            name.as_str(),
            single.map_or_else(|| ABSENT.into(), |us| fixed(us / 1_000.0, 3)),
            cpu(best.server_cpu),
            columns::gpu(best),
            fixed(best.qps, 1),
            best.offered.connections.to_string(),
        ]);
    }
    table
}

/// What must be known to read them.
pub(crate) fn note(run: &RunResult) -> String {
    let mut text = String::from(match run.layout {
        Layout::General => "Latencies count from the moment a request was meant to be sent. ",
        Layout::R1 => {
            "aveTime is the mean time of an answer; totalTime runs from the first request to the end of the last one, \
             connection set-up excluded; qps counts answers only; GPU is the use of all NVIDIA devices of this machine in percent of \
             one, and the build what the server says that its models run on. "
        }
        Layout::R2 => {
            "qps counts answers only, and kps their keys; cpu(top) is the server's; ping is the shortest of three connects to the server \
             before the load, a round trip of the kernels; a target of protocol echo is asked for as many bytes at the same rate, which \
             is the way without a store. Figures are medians over the repeats, counts are sums. Columns named as a reference are \
             report R2's own figures of Cube, measured on other hardware: compare their shape, and figures per core. What bounded \
             each point is told in a sentence under Verdicts. "
        }
        Layout::R3 => {
            "QPS counts answers only; mean response is from the moment a request was meant to be sent. Bytes a connection are \
             what memory grew by from before the first connection to the end of the point, divided by the connections; the \
             kernel's are of both ends where server and load generator share a machine, and n/a where other work freed more \
             than they took. controller.csv holds the columns of the original's controllers. "
        }
        Layout::R4 => {
            "Clients call in a closed loop; TP50 is the median of a call. Figures are medians over the repeats; a ratio is against the \
             first target with as many clients, the mean over repeats run in pairs with its 95 % interval. Of a target without a \
             server the client's CPU is that of the whole program, callers and what they call. "
        }
        Layout::R5 => {
            "Each cell has the figures of the repeats in the order they ran. CPU is the server's, in process that of press with the engine in \
             it; rx and tx are of all interfaces where the server is, 1 KB is 1,024 bytes. Service is the mean time of the work on a \
             request (in process of the call; else from the read to the answer, as the server counts it), and queue the rest of the \
             mean latency: waiting, and over a network the way. Columns named report are report R5's own figures, of an i7-6700 and of an \
             i9-7960X, on their hardware. What bounded each point is told in a sentence under Verdicts. "
        }
        Layout::Peers => {
            "Figures are medians over the repeats; a ratio is the mean over repeats run in pairs with its 95 % interval, \
             and stands without one where no pairs were run. "
        }
    });
    text += "Latencies are of the answers alone; an SLO counts every request that was offered. A percentile is n/a where fewer than ten samples lie beyond it (samples in parentheses). CPU is in percent of \
             one core.";
    text
}

/// Points that share the grid's values, in the order they ran.
fn by_grid(points: &[Point]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for point in points {
        let name = describe::grid(point);
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, members)) => members.push(point),
            None => groups.push((name, vec![point])),
        }
    }
    groups
}
