//! Whether a search finds the capacity of a server whose capacity is known.

use crate::bar::{Bar, Group, Measure, Op};
use crate::practice::{On, Practice, search};
use crate::report::Report;
use crate::setup::Setup;
use anyhow::Context as _;
use millpond_press_verdict::Series;
use std::time::Instant;

const OFF: Bar = Bar::new("press-search-off-capacity", Op::AtMost, 0.05);
const TOOK: Bar = Bar::new("press-search-s", Op::AtMost, 180.0);

pub(crate) const GROUP: Group = Group {
    name: "search",
    title: "ten searches against rate-limited servers: how far off the worst is, and how long the longest takes",
    bars: &[OFF, TOOK],
    measure: Measure::Code(measure),
};

/// Requests a second the servers serve, one search each.
const CAPACITIES: [u32; 10] = [
    1_500, 20_000, 3_700, 8_000, 2_300, 30_000, 5_000, 12_000, 700, 15_500,
];

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let (mut off, mut took) = (Series::default(), Series::default());
    report.say("| capacity /s | met /s | missed /s | off | rates tried | s |");
    report.say("|---:|---:|---:|---:|---:|---:|");
    for capacity in CAPACITIES.iter().take(setup.pick(10, 1)) {
        setup.stop.check()?;
        let rate = capacity.to_string();
        let server = Practice::start(setup, On::ServerCore, &[], &["--rate", &rate])?;
        let text = format!(
            "slo = \"p99 < 50ms, errors < 0.1%\"\n{}[load]\nconnections = [32]\nduration_s = 2\nclient_cpus = [1]\n\
             [search]\nrate_start = 1000\npoint_s = 2.0\n",
            server.scenario("search")
        );
        let started = Instant::now();
        let outcome = search(setup, &format!("search-{rate}"), &text)?;
        let seconds = started.elapsed().as_secs_f64();
        server.stop()?;
        let found = outcome.result.search.context("the result holds no search")?;
        let (met, missed) = (
            found.rate_met.unwrap_or(f64::NAN),
            found.rate_missed.unwrap_or(f64::NAN),
        );
        // The answer is an interval; its worse end counts.
        let worse = ((met - f64::from(*capacity)).abs()).max((missed - f64::from(*capacity)).abs())
            / f64::from(*capacity);
        report.say(&format!(
            "| {capacity} | {met:.0} | {missed:.0} | {:.1} % | {} | {seconds:.0} |",
            worse * 100.0,
            found.tried.len()
        ));
        off.push(worse);
        took.push(seconds);
    }
    report.bar(&OFF, off.max(), off);
    report.bar(&TOOK, took.max(), took);
    Ok(())
}
