//! `series.csv`: one row a second of every point, what was used beside what was answered.
//!
//! Its invariant: every second and every interval of resources is in exactly one row; those that end within half a second
//! of each other share it.

use millpond_press_recorder::{ResourceSecond, Used};

use super::{Row, header};
use crate::{Point, RunResult, Second};

const COLUMNS: &str = "point s answers refused failed outstanding us_mean us_p50 us_p99 us_max";

const USED: [&str; 6] = [
    "cpu_percent",
    "cpu_percent_thread_max",
    "wait_percent",
    "switches_voluntary",
    "switches_involuntary",
    "memory_bytes",
];

const MACHINE: &str = "machine_percent load_minute_1 foreign_percent steal_percent rx_bytes tx_bytes retransmits listen_overflows \
    accept_queue server_receive_queue_bytes send_queue_bytes accelerator_percent accelerator_memory_bytes";

/// How far apart two ends may lie that are taken for one.
const APART_S_MAX: f64 = 0.5;

/// Every second of every point in one row, with a header.
pub fn series_csv(run: &RunResult) -> String {
    let mut columns = COLUMNS.to_owned();
    for side in ["server", "client"] {
        for figure in USED {
            columns += &format!(" {side}_{figure}");
        }
    }
    let mut text = header(&format!("{columns} {MACHINE}"));
    let mut row = Row::default();
    for point in &run.points {
        for (second, used) in beside(point) {
            let s = second.map(|second| second.s).or(used.map(|used| used.s));
            row.whole(point.number).figure(s);
            answered(second, &mut row);
            side(used.and_then(|used| used.server), &mut row);
            side(used.and_then(|used| used.client), &mut row);
            machine(used, &mut row);
            row.end(&mut text);
        }
    }
    text
}

/// Seconds and intervals in the order of time.
fn beside(point: &Point) -> Vec<(Option<&Second>, Option<&ResourceSecond>)> {
    let mut rows = Vec::new();
    let mut seconds = point.series.iter().peekable();
    let mut intervals = point.resources.seconds.iter().peekable();
    loop {
        match (seconds.peek(), intervals.peek()) {
            (None, None) => return rows,
            (Some(second), Some(used)) if (second.s - used.s).abs() <= APART_S_MAX => {
                rows.push((seconds.next(), intervals.next()));
            }
            (Some(second), Some(used)) if used.s < second.s => rows.push((None, intervals.next())),
            (Some(_), _) => rows.push((seconds.next(), None)),
            (None, Some(_)) => rows.push((None, intervals.next())),
        }
    }
}

fn answered(second: Option<&Second>, row: &mut Row) {
    row.count(second.map(|second| second.answers))
        .count(second.map(|second| second.refused))
        .count(second.map(|second| second.failed))
        .count(second.map(|second| second.outstanding))
        .figure(second.and_then(|second| second.us_mean))
        .figure(second.and_then(|second| second.us_p50))
        .figure(second.and_then(|second| second.us_p99))
        .figure(second.and_then(|second| second.us_max));
}

fn side(used: Option<Used>, row: &mut Row) {
    row.figure(used.map(|used| used.cpu_percent))
        .figure(used.map(|used| used.cpu_percent_thread_max))
        .figure(used.map(|used| used.wait_percent))
        .figure(used.map(|used| used.switches_voluntary))
        .figure(used.map(|used| used.switches_involuntary))
        .count(used.map(|used| used.memory_bytes));
}

fn machine(used: Option<&ResourceSecond>, row: &mut Row) {
    row.figure(used.and_then(|used| used.machine_percent))
        .figure(used.and_then(|used| used.load_minute_1))
        .figure(used.and_then(|used| used.foreign_percent))
        .figure(used.and_then(|used| used.steal_percent))
        .figure(used.and_then(|used| used.rx_bytes))
        .figure(used.and_then(|used| used.tx_bytes))
        .figure(used.and_then(|used| used.retransmits))
        .figure(used.and_then(|used| used.listen_overflows))
        .count(used.and_then(|used| used.accept_queue))
        .count(used.and_then(|used| used.server_receive_queue_bytes))
        .count(used.and_then(|used| used.send_queue_bytes))
        .figure(used.and_then(|used| used.accelerator_percent))
        .count(used.and_then(|used| used.accelerator_memory_bytes));
}
