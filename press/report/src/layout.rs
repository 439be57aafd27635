//! The tables a report opens with: one line a point, those of reports R1 and R3, or targets side by side.
//!
//! Its invariant: a figure that does not exist is printed as `n/a`, with the number of samples where those were too few;
//! never as 0.

mod general;
pub(crate) mod peers;
mod r1;
mod r3;

use crate::table::Table;
use crate::{Layout, Point, RunResult, describe};

/// The tables in the scenario's own layout; none without a point.
pub(crate) fn tables(run: &RunResult) -> Vec<Table> {
    if run.points.is_empty() {
        return Vec::new();
    }
    match run.layout {
        Layout::General => vec![general::table(run)],
        Layout::R1 => r1::tables(&by_grid(&run.points)),
        Layout::R3 => r3::tables(&by_grid(&run.points)),
        Layout::Peers => peers::tables(run),
    }
}

/// What must be known to read them.
pub(crate) fn note(run: &RunResult) -> String {
    let mut text = String::from(match run.layout {
        Layout::General => "Latencies count from the moment a request was meant to be sent. ",
        Layout::R1 => {
            "aveTime is the mean time of an answer; totalTime runs from the first request to the end of the last one, \
             connection set-up excluded; qps counts answers only. "
        }
        Layout::R3 => {
            "QPS counts answers only; mean response is from the moment a request was meant to be sent. Bytes a connection are \
             what memory grew by from before the first connection to the end of the point, divided by the connections; the \
             kernel's are of both ends where server and load generator share a machine, and n/a where other work freed more \
             than they took. controller.csv holds the columns of the original's controllers. "
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
fn by_grid(points: &[Point]) -> Vec<(String, Vec<&Point>)> {
    let mut groups: Vec<(String, Vec<&Point>)> = Vec::new();
    for point in points {
        let name = describe::grid(point);
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, members)) => members.push(point),
            None => groups.push((name, vec![point])),
        }
    }
    groups
}
