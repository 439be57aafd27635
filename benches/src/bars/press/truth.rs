//! Printed percentiles against a server whose latencies are known.
//!
//! The server draws a delay for every request and tells at its end what it drew, and what it kept to, from the end of the read
//! to the start of the write: the truth. A bare echo at the same rate, in the same run, shows what the machine and its network
//! add. Each percentile's figure is the median over the rounds, because the machine is taken away now and then. Its invariant:
//! the requests of the truth are the requests of the point, no more, no less.

use crate::bar::{Bar, Group, Measure, Op};
use crate::practice::{On, Practice, point};
use crate::report::Report;
use crate::setup::Setup;
use crate::steal::undisturbed;
use anyhow::{Context as _, ensure};
use millpond_press_recorder::LatencySummary;
use millpond_press_report::Point;
use millpond_press_verdict::{Conditions, Series};
use std::collections::BTreeMap;

const OFF: Bar = Bar::new("press-percentiles-off-truth", Op::AtMost, 0.01);

pub(crate) const GROUP: Group = Group {
    name: "truth",
    title: "percentiles up to p99.9 against injected latencies, beyond what a bare echo shows; as a share of the truth",
    bars: &[OFF],
    measure: Measure::Code(measure),
};

const NAMES: [&str; 5] = ["p50", "p90", "p95", "p99", "p99.9"];
/// Long beside what waking a sleeping core takes here, some tens of microseconds, so that 1 % is more than that.
const DELAYS: [&str; 3] = ["constant:10ms", "bimodal:5ms:50ms:0.07", "exponential:5ms"];
const RATE: f64 = 2_000.0;
/// Every four seconds a second of nothing, the first after four.
const STALL_EVERY_S: f64 = 4.0;

/// How far off each percentile of a server is, round by round.
type Offs = BTreeMap<(String, &'static str), Series>;

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let seconds = setup.pick(10.0, 6.0);
    let mut offs = Offs::new();
    report.say(
        "| round | server | percentile | truth, us | bare echo, us | printed, us | off, beyond the echo |",
    );
    report.say("|---:|---|---:|---:|---:|---:|---:|");
    for round in 1..=setup.pick(5, 1) {
        let plain = practise(setup, report, &format!("echo-{round}"), &[], "", seconds)?;
        let echo = Shown::of(&plain, Conditions::of(&plain))?;
        for delay in DELAYS {
            let kind = delay.split(':').next().unwrap_or(delay);
            let truth = setup.out.join(format!("truth-{round}-{kind}.json"));
            let words = [
                "--delay",
                delay,
                "--truth",
                truth.to_str().context("a path that is no text")?,
            ];
            let name = format!("delay-{round}-{kind}");
            let point = practise(setup, report, &name, &words, "", seconds)?;
            let printed = Shown::of(&point, Conditions::of(&point))?;
            let achieved = read_truth(&truth, (RATE * seconds) as u64)?;
            compare(report, &mut offs, (round, delay), &achieved, &echo, &printed);
        }
        stalls(setup, report, &mut offs, round, seconds, &echo)?;
    }
    report.say("\n| server | percentile | off, median over the rounds |\n|---|---:|---:|");
    for ((name, percentile), series) in &offs {
        report.say(&format!(
            "| {name} | {percentile} | {:.2} % ({:.2}..{:.2}) |",
            100.0 * series.median(),
            100.0 * series.min(),
            100.0 * series.max()
        ));
    }
    let mut medians = Series::default();
    for series in offs.values() {
        let of_each = series.figures().iter().filter_map(|figure| figure.conditions);
        let worst = of_each.reduce(Conditions::and).context("nothing was measured")?;
        medians.under(series.median(), worst);
    }
    report.bar(&OFF, medians.max(), medians);
    Ok(())
}

/// Stalls of a second, in an open loop; the closed loop beside it shows what it hides.
fn stalls(
    setup: &Setup,
    report: &mut Report,
    offs: &mut Offs,
    round: usize,
    seconds: f64,
    echo: &Shown,
) -> anyhow::Result<()> {
    let words = ["--stall", "every:4s:1s"];
    let open = practise(
        setup,
        report,
        &format!("stall-{round}"),
        &words,
        "arrivals = \"constant\"\n",
        seconds,
    )?;
    // Nothing settles while the server stands still.
    let printed = Shown::of(&open, Conditions::of_press_itself(&open))?;
    // A request that is due inside a stall waits for its end; the k-th stall begins k periods after the first byte.
    let stalled = ((seconds / STALL_EVERY_S).ceil() - 1.0) / seconds;
    let truth = [0.5, 0.9, 0.95, 0.99, 0.999].map(|p: f64| ((p - (1.0 - stalled)) / stalled).max(0.0) * 1e6);
    compare(report, offs, (round, "stalls, open loop"), &truth, echo, &printed);
    let server = Practice::start(setup, On::ServerCore, &[], &words)?;
    let load =
        format!("[load]\nconnections = [1]\nduration_s = {seconds}\nwarmup_s_max = 0\nclient_cpus = [1]\n");
    let closed = point(
        setup,
        &format!("stall-closed-{round}"),
        &(server.scenario("closed") + &load),
    )?;
    server.stop()?;
    let shown = figures(&closed.latency)?.map(|us| format!("{us:.0}")).join(" | ");
    report.say(&format!(
        "| {round} | stalls, CLOSED loop, {} requests: {} | | | | {shown} | hidden |",
        closed.latency.count,
        NAMES.join(" | ")
    ));
    Ok(())
}

fn practise(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    words: &[&str],
    more: &str,
    seconds: f64,
) -> anyhow::Result<Point> {
    let load = format!(
        "[load]\nconnections = [64]\nin_flight = {}\nrate = [{RATE}]\nduration_s = {seconds}\nwarmup_s_max = 0\nclient_cpus = [1]\n{more}",
        if words.contains(&"--stall") { 256 } else { 1 }
    );
    let point = undisturbed(setup, report, name, |name| {
        let server = Practice::start(setup, On::ServerCore, &[], words)?;
        let point = point(setup, name, &(server.scenario("truth") + &load))?;
        server.stop()?;
        Ok(point)
    })?;
    ensure!(point.counters.failed_total() == 0, "{name}: {:?}", point.counters);
    Ok(point)
}

/// The percentiles of a point, and its conditions.
struct Shown {
    us: [f64; 5],
    conditions: Conditions,
}

impl Shown {
    fn of(point: &Point, conditions: Conditions) -> anyhow::Result<Shown> {
        Ok(Shown {
            us: figures(&point.latency)?,
            conditions,
        })
    }
}

fn figures(latency: &LatencySummary) -> anyhow::Result<[f64; 5]> {
    let named = [
        latency.us_p50,
        latency.us_p90,
        latency.us_p95,
        latency.us_p99,
        latency.us_p99_9,
    ];
    let mut figures = [0.0; 5];
    for (figure, named) in figures.iter_mut().zip(named) {
        *figure = named.context("a percentile has too few samples")?;
    }
    Ok(figures)
}

/// The percentiles of the delays that the server kept to.
fn read_truth(file: &std::path::Path, least: u64) -> anyhow::Result<[f64; 5]> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let truth: serde_json::Value = serde_json::from_str(&text)?;
    let achieved = &truth["achieved"];
    let count = achieved["count"].as_u64().unwrap_or(0);
    ensure!(count * 10 > least * 9, "{}: {count} draws", file.display());
    let mut figures = [0.0; 5];
    let keys = ["us_p50", "us_p90", "us_p95", "us_p99", "us_p99_9"];
    for (figure, key) in figures.iter_mut().zip(keys) {
        *figure = achieved[key]
            .as_f64()
            .with_context(|| format!("{key} is not there"))?;
    }
    Ok(figures)
}

/// How far each percentile is off, beyond what the echo shows, as a share of the truth; where the truth is nothing, the echo is
/// all there is to compare with, and it is left out.
fn compare(
    report: &mut Report,
    offs: &mut Offs,
    at: (usize, &str),
    truth: &[f64; 5],
    echo: &Shown,
    printed: &Shown,
) {
    let (round, name) = at;
    for at in 0..NAMES.len() {
        let conditions = echo.conditions.and(printed.conditions);
        let (truth, echo, printed) = (truth[at], echo.us[at], printed.us[at]);
        if truth == 0.0 {
            continue;
        }
        let off = ((printed - truth).abs() - echo).max(0.0) / truth;
        offs.entry((name.to_owned(), NAMES[at]))
            .or_default()
            .under(off, conditions);
        report.say(&format!(
            "| {round} | {name} | {} | {truth:.1} | {echo:.1} | {printed:.1} | {:.2} % |",
            NAMES[at],
            off * 100.0
        ));
    }
}
