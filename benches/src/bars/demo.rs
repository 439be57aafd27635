//! How long `make demo` takes when everything is built: the development build, as whoever tries it has it.
//!
//! The first time is not measured here, because it fetches and compiles for minutes. By hand, from an empty target folder and
//! an empty registry cache, in a clone beside the repository (the second line only where cargo has settings):
//!
//!     git clone --quiet . ../cold && cd ../cold && mkdir home
//!     cp ~/.cargo/config.toml home/
//!     time CARGO_HOME=$PWD/home make demo
//!
//! Its invariant: nothing is left to build or to train when the clock starts.

use crate::bar::{Bar, Group, Op};
use crate::child;
use crate::report::Report;
use crate::setup::Setup;
use millpond_press_verdict::Series;
use std::process::Command;

const SECOND_RUN: Bar = Bar::new("demo-second-run-seconds", Op::AtMost, 60.0);

pub(crate) const GROUP: Group = Group {
    name: "demo",
    title: "make demo, the second time",
    bars: &[SECOND_RUN],
    measure,
};

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let first = make_demo(setup, "demo-first")?;
    report.say(&format!("first run, not counted: {first:.1} s"));
    let mut seconds = Series::default();
    for round in 1..=setup.pick(3, 1) {
        let took = make_demo(setup, &format!("demo-{round}"))?;
        report.say(&format!("run {round}: {took:.1} s"));
        seconds.push(took);
    }
    report.say(&format!("\nseconds: {seconds:.1}; from nothing, by hand:"));
    report.say(
        "  git clone --quiet . ../cold && cd ../cold && mkdir home && time CARGO_HOME=$PWD/home make demo\n",
    );
    report.bar(&SECOND_RUN, seconds.median(), seconds);
    Ok(())
}

/// Seconds of one run.
fn make_demo(setup: &Setup, name: &str) -> anyhow::Result<f64> {
    let mut demo = Command::new("make");
    demo.arg("demo");
    let ended = child::run(setup, name, demo)?;
    ended.succeeded()?;
    Ok(ended.took.as_secs_f64())
}
