//! `series.csv`: one row a second of every point, what was used beside what was answered.
//!
//! Its invariant: every second and every interval of resources is in exactly one row; those that end within half a second
//! of each other share it.

use millpond_press_recorder::ResourceSecond;

use super::{Row, header, json};
use crate::{Point, RunResult, Second};

const SECOND: &str = "answers refused failed outstanding us_mean us_p50 us_p99 us_max";

const USED: &str =
    "cpu_percent cpu_percent_thread_max wait_percent switches_voluntary switches_involuntary memory_bytes";

const MACHINE: &str = "machine_percent load_minute_1 foreign_percent steal_percent rx_bytes tx_bytes retransmits listen_overflows \
    accept_queue server_receive_queue_bytes send_queue_bytes accelerator_percent accelerator_memory_bytes";

/// How far apart two ends may lie that are taken for one.
const APART_S_MAX: f64 = 0.5;

/// Every second of every point in one row, with a header.
pub fn series_csv(run: &RunResult) -> String {
    let of_side = |side: &str| {
        let figures = USED.split_ascii_whitespace();
        figures
            .map(|figure| format!("{side}_{figure} "))
            .collect::<String>()
    };
    let (server, client) = (of_side("server"), of_side("client"));
    let mut text = header(&format!("point s {SECOND} {server}{client}{MACHINE}"));
    let mut row = Row::default();
    for point in &run.points {
        for (second, used) in beside(point) {
            let s = second.map(|second| second.s).or(used.map(|used| used.s));
            let used = json(&used);
            row.whole(point.number)
                .figure(s)
                .values(&json(&second), SECOND)
                .values(&used["server"], USED)
                .values(&used["client"], USED)
                .values(&used, MACHINE)
                .end(&mut text);
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
