//! What the log costs at saturation: levels that write no line a call, and one that writes more lines than the disk takes.
//!
//! An echo at depth 16, server and its log on core 0, press on core 1; the levels take turns, a new server each, and rounds are
//! compared with themselves. Its invariant: every call's line is in the file or in the count of dropped ones.

use crate::bar::{Bar, Group, Op};
use crate::report::Report;
use crate::rpc::{Load, PAYLOAD, call, start_with};
use crate::setup::Setup;
use anyhow::Context as _;
use millpond_press_report::Point;
use millpond_press_verdict::PAIRS_MIN;
use millpond_press_verdict::Series;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

const INFO: Bar = Bar::new("rpc-info-over-error", Op::AtLeast, 0.97);
const WARN: Bar = Bar::new("rpc-warn-over-error", Op::AtLeast, 0.97);
const ACCOUNTED: Bar = Bar::new("rpc-debug-lines-written-and-dropped-over-calls", Op::Equal, 1.0);

pub(crate) const GROUP: Group = Group {
    name: "log-levels",
    title: "an echo at saturation: levels info, warn and error, and debug, which sheds lines",
    bars: &[INFO, WARN, ACCOUNTED],
    measure,
};

/// Each round begins with another one.
const TURNS: [[&str; 4]; 4] = [
    ["error", "info", "warn", "debug"],
    ["info", "warn", "debug", "error"],
    ["warn", "debug", "error", "info"],
    ["debug", "error", "info", "warn"],
];

/// What one server did.
struct Run {
    point: Point,
    /// Calls that the server answered, their lines in the file, and lines that it says it dropped.
    calls: f64,
    lines: f64,
    dropped: f64,
}

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let mut qps: [Series; 4] = Default::default();
    let mut accounted = Series::default();
    report.say("| round | level | calls/s | lines a call | dropped a call |");
    report.say("|---:|---|---:|---:|---:|");
    for round in 0..setup.pick(PAIRS_MIN, 1) {
        for level in TURNS[round % TURNS.len()] {
            setup.stop.check()?;
            let run = run(setup, report, round + 1, level)?;
            report.say(&format!(
                "| {} | {level} | {:.0} | {:.4} | {:.4} |",
                round + 1,
                run.point.qps,
                run.lines / run.calls,
                run.dropped / run.calls
            ));
            let at = TURNS[0].iter().position(|known| *known == level).unwrap_or(0);
            qps[at].measured(run.point.qps, &run.point);
            if level == "debug" {
                // A count, which no noise changes.
                accounted.push((run.lines + run.dropped) / run.calls);
            }
        }
    }
    let [error, info, warn, debug] = qps;
    report.say(&format!(
        "\ncalls/s at error {error:.0}, warn {warn:.0}, info {info:.0}, debug {debug:.0}; debug over error, round by round, {:.3}\n",
        debug.over(&error)
    ));
    for (bar, level) in [(&INFO, info), (&WARN, warn)] {
        let ratio = level.over(&error);
        report.bar(bar, ratio.median(), ratio);
    }
    report.bar(&ACCOUNTED, accounted.farthest_from(1.0), accounted);
    Ok(())
}

fn run(setup: &Setup, report: &mut Report, round: usize, level: &str) -> anyhow::Result<Run> {
    let name = format!("log-{level}-{round}");
    let log = setup.out.join(format!("{name}.lines"));
    let set = [
        format!("log.level={level}"),
        format!("log.file={}", log.display()),
    ];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let server = start_with(setup, &name, &set)?;
    let load = Load {
        connections: 100,
        in_flight: 16,
        seconds: setup.pick(4, 1),
    };
    let point = call(setup, report, &name, &server, ("echo", PAYLOAD), load)?;
    // The server's own count: the press leaves out the warm-up, and what it had measured before it measured again.
    let page = server.metrics()?;
    let calls = page.value("millpond_calls_total{method=\"echo\"}")?;
    let dropped = page.value("millpond_log_lines_dropped_total")?;
    // Only then is everything written that was queued.
    server.stop()?;
    let lines = count(&log)?;
    std::fs::remove_file(&log).with_context(|| format!("cannot remove {}", log.display()))?;
    Ok(Run {
        point,
        calls,
        lines: lines as f64,
        dropped,
    })
}

/// The file's lines that stand for a call.
fn count(log: &Path) -> anyhow::Result<u64> {
    let file = File::open(log).with_context(|| format!("cannot read {}", log.display()))?;
    let mut lines = 0;
    for line in BufReader::new(file).lines() {
        lines += u64::from(line?.contains(" answered method=\"echo\""));
    }
    Ok(lines)
}
