//! One point in full: its verdict with the evidence, its timeline, its threads and what it used.
//!
//! Its invariant: every point of a run has a card; only the first ones are open.

use std::fmt::Write as _;

use super::escape::escape;
use super::section::{badge, table, wrapped};
use super::{Place, timeline};
use crate::number::{bytes, percent, short, thousands};
use crate::section::point_title;
use crate::table::{Table, cells};
use crate::{Point, RunResult, describe};
use millpond_press_recorder::{ResourceSecond, Side, ThreadUse, Used};

/// How many cards are open from the start.
const OPEN: usize = 3;

/// How many timelines a page draws; the others are in `series.csv`.
const TIMELINES_MAX: usize = 120;

/// How many threads a card names.
const THREADS: usize = 8;

/// A figure of one second, if it could be read.
type Reading = fn(&ResourceSecond) -> Option<f64>;

/// The same of one side.
type SideReading = fn(&Used) -> f64;

/// How a figure is written.
type Words = fn(f64) -> String;

/// The cards of all points.
pub(crate) fn cards(run: &RunResult, place: &Place) -> String {
    if run.points.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    if run.points.len() > TIMELINES_MAX {
        let _ = writeln!(
            text,
            "<p>The first {TIMELINES_MAX} of {} points have their timeline here; series.csv has all.</p>",
            run.points.len()
        );
    }
    for (index, point) in run.points.iter().enumerate() {
        text += &card(run, point, index, place);
    }
    wrapped("points", "Points", &text, place)
}

fn card(run: &RunResult, point: &Point, index: usize, place: &Place) -> String {
    let title = point_title(run, point);
    let open = if index < OPEN { " open=\"open\"" } else { "" };
    let bound = describe::bound(point.verdict.bound)
        .map(|words| format!("<span class=\"bound\">{words}</span>"))
        .unwrap_or_default();
    let mut text = format!(
        "<details class=\"card\"{open}>\n<summary><span class=\"card-title\">{}</span> {}{bound}\
         <span class=\"sentence\">{}</span></summary>\n<div class=\"card-body\">\n<div>\n",
        escape(&title),
        badge(point.verdict.judgement),
        escape(&describe::sentence(point))
    );
    if index < TIMELINES_MAX {
        text += &if timeline::is_worth_drawing(point) {
            timeline::figure(point, index + 1, &title, &place.suffix)
        } else {
            "<p class=\"muted\">It was too short for a timeline.</p>\n".into()
        };
    }
    text += "</div>\n<div>\n";
    text += &evidence(point);
    text += &resources(point);
    text += "</div>\n";
    if let Some(threads) = threads(point).unless_empty() {
        let _ = writeln!(text, "<div class=\"wide\">\n{}</div>", table(&threads));
    }
    text + "</div>\n</details>\n"
}

fn evidence(point: &Point) -> String {
    let mut lines: Vec<String> = point.verdict.evidence.clone();
    if point.interrupted {
        lines.push("it was cut short".into());
    }
    if point.warm_up.answers > 0 && !point.warm_up.stationary {
        lines.push("rate or latency had not settled when its clock started".into());
    }
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{}</li>\n", escape(line)))
        .collect();
    format!("<ul class=\"evidence\">\n{items}</ul>\n")
}

/// What is read of a side in every second, behind the side's name, and how it is written.
const OF_SIDE: [(&str, SideReading, Words); 5] = [
    (" CPU %", |used| used.cpu_percent, percent),
    (", busiest thread %", |used| used.cpu_percent_thread_max, percent),
    (", waiting for a core %", |used| used.wait_percent, percent),
    (" switches/s", switches, thousands),
    (" memory", |used| used.memory_bytes as f64, bytes),
];

/// What is read of the machine.
const OF_MACHINE: [(&str, Reading, Words); 11] = [
    ("other processes %", |s| s.foreign_percent, percent),
    ("taken by the hypervisor %", |s| s.steal_percent, percent),
    ("received/s", |s| s.rx_bytes, bytes),
    ("sent/s", |s| s.tx_bytes, bytes),
    ("TCP segments sent again/s", |s| s.retransmits, thousands),
    ("accept queue overflows/s", |s| s.listen_overflows, thousands),
    ("accept queue", |s| whole(s.accept_queue), thousands),
    (
        "not yet read by the server",
        |s| whole(s.server_receive_queue_bytes),
        bytes,
    ),
    ("not yet sent", |s| whole(s.send_queue_bytes), bytes),
    ("accelerator %", |s| s.accelerator_percent, percent),
    ("accelerator memory", |s| whole(s.accelerator_memory_bytes), bytes),
];

fn whole(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// What was used, and in one line what could be read and stayed zero.
fn resources(point: &Point) -> String {
    let seconds = &point.resources.seconds;
    let mut read: Vec<(String, Vec<f64>, Words)> = Vec::new();
    for (side, of) in [("server", Side::Server), ("client", Side::Client)] {
        let used = |second: &ResourceSecond| match of {
            Side::Server => second.server,
            Side::Client => second.client,
        };
        for (name, figure, words) in OF_SIDE {
            let values = seconds.iter().filter_map(|second| Some(figure(&used(second)?)));
            read.push((format!("{side}{name}"), values.collect(), words));
        }
    }
    for (name, reading, words) in OF_MACHINE {
        read.push((name.into(), seconds.iter().filter_map(reading).collect(), words));
    }
    let mut used = Table::new("What was used meanwhile", "(figure)|mean|highest");
    let mut zero: Vec<String> = Vec::new();
    for (name, mut values, words) in read {
        values.retain(|value| value.is_finite());
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        match values.into_iter().reduce(f64::max) {
            None => {}
            Some(0.0) => zero.push(name),
            Some(highest) => used.row(cells![name, words(mean), words(highest)]),
        }
    }
    let mut text = used.unless_empty().map(|one| table(&one)).unwrap_or_default();
    if !zero.is_empty() {
        let _ = writeln!(
            text,
            "<p class=\"muted small\">Zero throughout: {}.</p>",
            escape(&zero.join("; "))
        );
    }
    text
}

fn switches(used: &Used) -> f64 {
    used.switches_voluntary + used.switches_involuntary
}

fn threads(point: &Point) -> Table {
    let threads = &point.resources.threads;
    let caption = if threads.len() > THREADS {
        format!("The {THREADS} busiest of {} threads", threads.len())
    } else {
        "Threads".into()
    };
    let mut table = Table::new(caption, "(thread)|(side)|CPU %|wait %|switches|forced|(seen)");
    for thread in threads.iter().take(THREADS) {
        table.row(cells![
            thread.name.as_str(),
            match thread.side {
                Side::Server => "server",
                Side::Client => "client",
            },
            percent(thread.cpu_percent),
            percent(thread.wait_percent),
            thread.switches_voluntary.to_string(),
            thread.switches_involuntary.to_string(),
            states(thread),
        ]);
    }
    table
}

/// The states it was seen in most, at most three.
fn states(thread: &ThreadUse) -> String {
    let mut states: Vec<(&String, f64)> = thread
        .states
        .iter()
        .map(|(state, &share)| (state, share))
        .collect();
    states.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<String> = states
        .iter()
        .take(3)
        .filter(|(_, share)| *share >= 0.005)
        .map(|(state, share)| format!("{state} {} %", short((share * 100.0).round())))
        .collect();
    words.join(", ")
}
