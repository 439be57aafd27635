//! What R1's log levels cost: 2 writes a line a request with its scores, 3 what happens to the process, 5 errors alone.
//!
//! Server and its log on core 0, press on core 1, a new server and a new log file each time; the levels take turns, and
//! rounds are compared with themselves. Its invariant: a line that is not in the file is counted as missing, whether the server
//! knows of it or not.

use crate::bar::{Bar, Group, Op};
use crate::press::{self, Amount, Load};
use crate::r1;
use crate::report::Report;
use crate::server::Server;
use crate::setup::Setup;
use anyhow::Context as _;
use millpond_press_verdict::PAIRS_MIN;
use millpond_press_verdict::Series;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

const LEVEL_2: Bar = Bar::new("r1-level2-over-level5", Op::AtLeast, 0.85);
const LEVEL_3: Bar = Bar::new("r1-level3-over-level5", Op::AtLeast, 0.97);
const DROPPED: Bar = Bar::new("r1-level2-lines-dropped", Op::Equal, 0.0);
const LINES: Bar = Bar::new("r1-level2-lines-over-requests", Op::Equal, 1.0);

pub(crate) const GROUP: Group = Group {
    name: "levels",
    title: "log levels 2, 3 and 5, to a file",
    bars: &[LEVEL_2, DROPPED, LINES, LEVEL_3],
    measure,
};

/// Each round begins with another one.
const TURNS: [[u8; 3]; 3] = [[5, 2, 3], [2, 3, 5], [3, 5, 2]];
const CONNECTIONS: usize = 32;
const WARM_UP: f64 = 0.5;

/// One level's runs.
#[derive(Default)]
struct Level {
    qps: Series,
    /// Lines that the server says it dropped.
    dropped: Series,
    /// Lines in the file for each request that was answered.
    lines: Series,
}

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    r1::prepare(setup)?;
    let mut levels: [Level; 6] = Default::default();
    report.say("| round | level | qps | requests | lines | dropped | MB | server, CPU us a request |");
    report.say("|---:|---:|---:|---:|---:|---:|---:|---:|");
    for round in 0..setup.pick(PAIRS_MIN, 1) {
        for level in TURNS[round % TURNS.len()] {
            run(setup, report, round + 1, level, &mut levels[usize::from(level)])?;
        }
    }
    let [_, _, two, three, _, five] = levels;
    let (two_kept, three_kept) = (two.qps.over(&five.qps), three.qps.over(&five.qps));
    report.say(&format!(
        "\nqps at level 5 {:.0}, at 3 {:.0}, at 2 {:.0}; round by round: 3 over 5 {three_kept:.3}, 2 over 5 {two_kept:.3}\n",
        five.qps, three.qps, two.qps
    ));
    report.bar(&LEVEL_2, two_kept.median(), two_kept);
    report.bar(&DROPPED, two.dropped.max(), two.dropped);
    report.bar(&LINES, two.lines.farthest_from(1.0), two.lines);
    report.bar(&LEVEL_3, three_kept.median(), three_kept);
    Ok(())
}

fn run(setup: &Setup, report: &mut Report, round: usize, level: u8, runs: &mut Level) -> anyhow::Result<()> {
    let name = format!("level-{level}-{round}");
    let log = setup.out.join(format!("{name}.requests.log"));
    let set = [
        format!("log.level={level}"),
        format!("log.file={}", log.display()),
    ];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let server = Server::start_r1(setup, &name, &set)?;
    let load = Load {
        connections: CONNECTIONS,
        amount: Amount::Seconds(setup.pick(5.0, 1.0)),
        warm_up: WARM_UP,
    };
    let point = press::point(setup, &name, &server, &load)?;
    let dropped = server.metrics()?.value("millpond_log_lines_dropped_total")?;
    // Only then is everything written that was queued.
    server.stop()?;
    let (lines, bytes) = count(&log)?;
    std::fs::remove_file(&log).with_context(|| format!("cannot remove {}", log.display()))?;
    let requests = point.counters.answers() + point.warm_up.answers;
    let cpu_us = point.server_cpu.map_or(f64::NAN, |cpu| cpu.seconds * 1e6);
    report.say(&format!(
        "| {round} | {level} | {:.0} | {requests} | {lines} | {dropped} | {:.1} | {:.1} |",
        point.qps,
        bytes as f64 / 1e6,
        cpu_us / point.counters.answers() as f64
    ));
    runs.qps.measured(point.qps, &point);
    // Counts, which no noise changes.
    runs.dropped.push(dropped);
    runs.lines.push(lines as f64 / requests as f64);
    Ok(())
}

/// The file's lines that stand for an answered request with its scores, and its size.
fn count(log: &Path) -> anyhow::Result<(u64, u64)> {
    let file = File::open(log).with_context(|| format!("cannot read {}", log.display()))?;
    let bytes = file.metadata()?.len();
    let mut lines = 0;
    for line in BufReader::new(file).lines() {
        let line = line?;
        lines += u64::from(line.contains(" answered ") && line.contains("scores=["));
    }
    Ok((lines, bytes))
}
