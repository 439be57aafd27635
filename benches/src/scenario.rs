//! Groups of bars that are rows of a scenario: the press runs it and holds its bars against its points.
//!
//! Its invariant: bars of a scenario in which an answer was wrong are not measured.

use crate::bar::Group;
use crate::report::Report;
use crate::setup::Setup;
use crate::{child, r1};
use anyhow::{Context as _, ensure};
use millpond_press_lab::{RunOptions, run_until};
use std::process::Command;

/// What a look at the bench itself needs.
const QUICK: [&str; 2] = ["scenario.rounds=1", "scenario.repeats=1"];

/// Runs the group's scenario with these overrides.
pub(crate) fn measure(
    group: &Group,
    set: Vec<String>,
    setup: &Setup,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut options = RunOptions::new(group.file());
    options.set = set;
    if setup.quick {
        options.set.extend(QUICK.map(str::to_owned));
        if group.has_length()? {
            options.set.push("load.duration_s=1".into());
        }
    }
    options.out = Some(setup.out.join(format!("press-{}", group.name)));
    options.millpond = setup.millpond.clone();
    options.progress = false;
    let outcome = run_until(options, setup.stop.watch()).with_context(|| format!("press, {}", group.name))?;
    setup.stop.check()?;
    report.say(&outcome.output);
    for point in &outcome.result.points {
        let counters = &point.counters;
        ensure!(
            counters.failed_total() == 0 && !point.interrupted,
            "{}, point {}: {} wrong, errors {:?}, {:?}",
            group.name,
            point.number,
            counters.wrong,
            counters.errors,
            counters.first
        );
    }
    outcome.bars.into_iter().for_each(|bar| report.outcome(bar));
    Ok(())
}

/// R1's files.
pub(crate) fn of_r1(setup: &Setup) -> anyhow::Result<Vec<String>> {
    r1::prepare(setup)?;
    Ok(Vec::new())
}

/// A load of a fixed number of requests has no length that a quick look could shorten.
pub(crate) fn of_refusals(setup: &Setup) -> anyhow::Result<Vec<String>> {
    r1::prepare(setup)?;
    let each = setup.pick(100, 10);
    Ok(vec![format!("load.requests_per_connection={each}")])
}

/// A certificate for the TLS port, and whom the press trusts.
pub(crate) fn of_tls(setup: &Setup) -> anyhow::Result<Vec<String>> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let write = |name: &str, text: &str| {
        let path = setup.out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        anyhow::Ok(path)
    };
    let authority = write("tls.pem", &made.cert.pem())?;
    write("tls.key", &made.signing_key.serialize_pem())?;
    Ok(vec![format!("targets.1.tls_ca={}", authority.display())])
}

/// The build before in the place of the first server, and the table that both look up.
pub(crate) fn of_builds(setup: &Setup) -> anyhow::Result<Vec<String>> {
    let set = before(
        setup,
        ["--set", "features.items.path={out}/../tables/items"].as_slice(),
        (7451, "{config}"),
    )?;
    let mut random = Command::new(&setup.millpond);
    random.args(["features", "random", "--name", "items", "--rows", "100000"]);
    random
        .args(["--dim", "10", "--seed", "7", "--out"])
        .arg(setup.out.join("tables"));
    child::run(setup, "features-random", random)?.succeeded()?;
    Ok(set)
}

/// The same for R1's server.
pub(crate) fn of_builds_of_r1(setup: &Setup) -> anyhow::Result<Vec<String>> {
    r1::prepare(setup)?;
    let more = [
        "server.cpus=[0]",
        "server.threads=1",
        "server.deadline_ms_default=60000",
    ];
    let more: Vec<&str> = more.iter().flat_map(|pair| ["--set", pair]).collect();
    before(setup, &more, (7461, "{config}"))
}

/// The command of the build before.
fn before(setup: &Setup, more: &[&str], (port, config): (u16, &str)) -> anyhow::Result<Vec<String>> {
    let build = setup.before()?.display().to_string();
    let own = [
        format!("server.listen=127.0.0.1:{port}"),
        format!("admin.listen=127.0.0.1:{}", port + 1),
        "log.level=5".to_owned(),
    ];
    let mut words = vec![build.as_str(), "serve", "--config", config];
    words.extend(own.iter().flat_map(|pair| ["--set", pair]));
    words.extend(more);
    // An array of strings is the same in JSON and in TOML.
    let words = serde_json::to_string(&words)?;
    Ok(vec![format!("targets.0.server.command={words}")])
}

/// The demo once, so that nothing is left to build or to train.
pub(crate) fn of_demo(setup: &Setup) -> anyhow::Result<Vec<String>> {
    let mut demo = Command::new("make");
    demo.arg("demo");
    child::run(setup, "demo-first", demo)?.succeeded()?;
    Ok(Vec::new())
}
