//! This build beside the one before, named with `--beside`: requests a second, in turns.
//!
//! What a machine like this can show in nine pairs is that a build is slower by far, not that it is equal: so the bar is that the
//! interval of the ratio does not lie wholly below its limit. What a request costs to the instruction is the group beside
//! it. Its invariant: every pair is two fresh processes, and the builds take turns in being the first.

use super::kinds::{self, Kind};
use crate::bar::{Bar, Group, Op};
use crate::practice;
use crate::report::Report;
use crate::setup::Setup;
use crate::steal::undisturbed;
use anyhow::{Context as _, ensure};
use millpond_press_verdict::PAIRS_MIN;
use millpond_press_verdict::Series;
use std::path::Path;

const BARS: [Bar; 4] = [
    Bar::new("hardening-echo-d1-over-before-upper", Op::AtLeast, 0.95),
    Bar::new("hardening-echo-d16-over-before-upper", Op::AtLeast, 0.95),
    Bar::new("hardening-lookup-100-over-before-upper", Op::AtLeast, 0.95),
    Bar::new("hardening-r1-over-before-upper", Op::AtLeast, 0.95),
];

pub(crate) const GROUP: Group = Group {
    name: "builds",
    title: "requests a second over those of the build before (--beside FILE): the upper end of the ratio's interval",
    bars: &BARS,
    measure,
};

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let before = before(setup)?;
    let config = kinds::prepare(setup)?;
    let kinds = kinds::all();
    let (mut new, mut old): ([Series; 4], [Series; 4]) = Default::default();
    report.say("| pair | request | before, req/s | now, req/s | ratio |\n|---:|---|---:|---:|---:|");
    // Two more than it takes, since a pair whose sides lost unlike shares to the hypervisor does not count.
    for pair in 1..=setup.pick(PAIRS_MIN + 2, 1) {
        for (at, kind) in kinds.iter().enumerate() {
            setup.stop.check()?;
            let mut run = |build: &Path, who: &str| {
                let name = format!("{}-{who}-{pair}", kind.name);
                turn(setup, report, (build, &config), &name, kind)
            };
            let (earlier, now) = match pair % 2 {
                1 => {
                    let earlier = run(before, "before")?;
                    (earlier, run(&setup.millpond, "now")?)
                }
                _ => {
                    let now = run(&setup.millpond, "now")?;
                    (run(before, "before")?, now)
                }
            };
            report.say(&format!(
                "| {pair} | {} | {:.0} | {:.0} | {:.3} |",
                kind.name,
                earlier.qps,
                now.qps,
                now.qps / earlier.qps
            ));
            old[at].measured(earlier.qps, &earlier);
            new[at].measured(now.qps, &now);
        }
    }
    for (at, bar) in BARS.iter().enumerate() {
        report.bar_of_upper_end(bar, new[at].over(&old[at]));
    }
    Ok(())
}

/// The build before.
pub(super) fn before(setup: &Setup) -> anyhow::Result<&Path> {
    let missing = "name the build before with --beside FILE: its millpond, built in release as this one is";
    Ok(setup.beside.first().context(missing)?)
}

fn turn(
    setup: &Setup,
    report: &mut Report,
    build: (&Path, &str),
    name: &str,
    kind: &Kind,
) -> anyhow::Result<millpond_press_report::Point> {
    let server = kinds::start(setup, build, name, kind.of_r1, &[])?;
    let load = format!(
        "connections = [{}]\nduration_s = {}\nwarmup_s_max = 1\n",
        kind.connections,
        setup.pick(4, 1)
    );
    let text = kind.scenario(setup, &server, name, &load)?;
    let point = undisturbed(setup, report, name, |name| practice::point(setup, name, &text))?;
    let counters = &point.counters;
    ensure!(
        counters.failed_total() == 0 && counters.answers() > 0,
        "{name}: {counters:?}"
    );
    server.stop()?;
    Ok(point)
}
