//! Measures the bars of `make bench`: what the issues promise of the whole, on this machine, in this build.
//!
//!     make bench AREA=spine                                        all of it, about twenty minutes
//!     make bench AREA="spine --only first-request-over-median"     one bar, or one group of them
//!     cargo run -p millpond-benches -- spine --quick --millpond target/debug/millpond
//!
//! It is no regression tracker and keeps no history: every run leaves a folder `bench-results/AREA-TIMESTAMP`, and prints
//! one line a bar, `bar NAME VALUE OP LIMIT pass|fail|noisy`. What the machine was too noisy for is measured again, five times
//! over an hour at most. Its invariant: every bar that was asked for gets its line, `missing` and `fail` where it could
//! not be measured in its last try, and the exit status is 0 only when none of them fails.
#![allow(clippy::print_stdout, reason = "printing figures is what it is for")]

mod awake;
mod bar;
mod bars;
mod child;
mod cores;
mod idle;
mod provenance;
mod r1;
mod report;
mod rpc;
mod scenario;
mod server;
mod setup;
mod stop;

use anyhow::{Context as _, bail};
use awake::Awake;
use bar::{Group, Measure, Row};
use clap::{Parser, ValueEnum};
use report::Report;
use setup::Setup;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Measures the bars of an area; fails when one of them does.
#[derive(Parser)]
pub(crate) struct Arguments {
    /// What to measure.
    area: Area,
    /// Short and few runs, without waiting for an idle machine: tries the bench itself, its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Measure at once, without waiting until the machine is idle; every result is marked with that.
    #[arg(long)]
    anyway: bool,
    /// How often a bar is measured at most that the machine is too noisy to tell, a quarter of an hour apart.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    tries: u8,
    /// Keep the two cores from sleeping by a loop of idle priority on each: steadier on a virtual machine. The verdicts of
    /// points then speak of other processes that use the machine.
    #[arg(long)]
    keep_awake: bool,
    /// Measure one bar, or one group of bars, by its name; or groups by the first word of theirs.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Keys of the area `ordered`, whose bars are about 10 million.
    #[arg(long, value_name = "COUNT")]
    keys: Option<usize>,
    /// The server's binary; `millpond` beside this program when left out.
    #[arg(long, value_name = "FILE")]
    millpond: Option<PathBuf>,
    /// The build before, which the areas `hardening`, `structure` and `infer` compare with that one.
    #[arg(long, value_name = "FILE")]
    beside: Option<PathBuf>,
    /// The result folder; bench-results/AREA-TIMESTAMP when left out.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// A set of bars.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Area {
    /// The first whole path: demo, R1 grid, logging, first request, one core.
    Spine,
    /// The load lab: truth, schedule, cost, verdicts, search.
    Press,
    /// The network front: a call beside a bare echo and beside FPNN; 200,000 connections; overload; log levels.
    Rpc,
    /// Hostile callers and stops: how soon it ends, what 10,000 connections hold, and what the defences cost a request.
    Hardening,
    /// The shape of the server: beside the build before, a bare echo, a bare lookup and a bare loop; overload.
    Structure,
    /// Models: callers that come back, calls at random times, queues that stand, bursts; beside the build before.
    Infer,
    /// Feature tables: lookups in one process over a loop in C, and over the wire beside Redis and memcached.
    Features,
    /// The ordered store: in one process beside the crates ferntree and masstree, starts, RESP beside Redis, batches beside a bare loop, syncs, checkpoints.
    Ordered,
}

/// From the beginning of a try to that of the next: five lie over an hour.
const BETWEEN_TRIES: Duration = Duration::from_secs(15 * 60);

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("millpond-benches: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Measures what was asked for; whether all of it passed.
fn measure(arguments: &Arguments) -> anyhow::Result<bool> {
    let groups = match arguments.area {
        Area::Spine => bars::SPINE,
        Area::Press => bars::PRESS,
        Area::Rpc => bars::RPC,
        Area::Hardening => bars::HARDENING,
        Area::Structure => bars::STRUCTURE,
        Area::Infer => bars::INFER,
        Area::Features => bars::FEATURES,
        Area::Ordered => bars::ORDERED,
    };
    let mut pending = choose(groups, arguments.only.as_deref())?;
    let mut setup = Setup::find(arguments)?;
    let mut report = Report::create(&setup)?;
    for number in 1..=setup.tries {
        let began = Instant::now();
        if let Err(error) = measure_groups(&pending, &setup, &mut report) {
            setup.stop.check()?;
            if number == 1 {
                return Err(error);
            }
            // What the tries before found stands.
            report.say(&format!("not measured again: {error:#}"));
            break;
        }
        let mut noisy = Vec::new();
        for group in pending {
            if report.is_noisy(&group.about()?.bar) {
                noisy.push(group);
            }
        }
        pending = noisy;
        if pending.is_empty() || number == setup.tries {
            break;
        }
        let names: Vec<&str> = pending.iter().map(|group| group.name).collect();
        report.say(&format!(
            "\n# Too noisy to tell: {}; try {} of {} follows",
            names.join(", "),
            number + 1,
            setup.tries
        ));
        setup.pause(BETWEEN_TRIES.saturating_sub(began.elapsed()))?;
        setup.next_try(&report.folder(), number + 1)?;
    }
    report
        .finish()
        .with_context(|| format!("cannot write to {}", setup.out.display()))
}

/// One try of some groups, on an idle machine.
fn measure_groups(groups: &[&Group], setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    if setup.quick {
        report.mark("--quick: the figures only show that the bench runs");
    } else {
        idle::wait(setup, report)?;
    }
    // From here on: the loops are no idle machine to look at.
    let _awake = setup.keep_awake.then(Awake::keep).transpose()?;
    if setup.keep_awake {
        report.mark("both cores are kept awake by loops of idle priority");
    }
    for group in groups {
        setup.stop.check()?;
        let about = group.about()?;
        report.say(&format!("\n## {}: {}\n", group.name, about.scenario.title));
        let measured = match group.measure {
            Measure::Code { run, .. } => run(setup, report),
            Measure::Scenario(prepare) => {
                prepare(setup).and_then(|set| scenario::measure(group, set, setup, report))
            }
        };
        if let Err(error) = &measured {
            setup.stop.check()?;
            report.say(&format!("not measured: {error:#}"));
        }
        report.close(&about.bar, measured.is_ok())?;
    }
    Ok(())
}

fn choose<'g>(groups: &'g [Group], only: Option<&str>) -> anyhow::Result<Vec<&'g Group>> {
    let Some(only) = only else {
        return Ok(groups.iter().collect());
    };
    let begins = |group: &Group| group.name.starts_with(&format!("{only}-"));
    let mut chosen = Vec::new();
    for group in groups {
        let is_asked = |bar: &Row| bar.name == only;
        if group.name == only || begins(group) || group.about()?.bar.iter().any(is_asked) {
            chosen.push(group);
        }
    }
    if chosen.is_empty() {
        let names: Vec<&str> = groups.iter().map(|group| group.name).collect();
        bail!(
            "no bar and no group is called {only:?}; the groups are {}",
            names.join(", ")
        );
    }
    Ok(chosen)
}
