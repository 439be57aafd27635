//! Groups of bars that are rows of a scenario: the press runs it and holds its bars against its points.
//!
//! Its invariant: bars of a scenario in which an answer was wrong are not measured.

use crate::bar::Group;
use crate::report::Report;
use crate::setup::Setup;
use crate::{child, r1};
use anyhow::{Context as _, ensure};
use millpond_press_lab::run_until;
use rustix::process::{Resource, getrlimit};
use std::path::Path;
use std::process::Command;

/// What a look at the bench itself needs.
const QUICK: [&str; 2] = ["scenario.rounds=1", "scenario.repeats=1"];
/// What it needs beside that, by scenario: a percentile needs ten samples beyond it, and a verdict a few seconds.
const QUICK_OF: [(&str, &[&str]); 7] = [
    (
        "search",
        &["figure.0.command=['python3', 'benches/scenarios/search.py', '{millpond}', '{out}', '1500']"],
    ),
    ("refusal", &["load.requests_per_connection=10"]),
    ("truth", &["load.duration_s=6"]),
    ("verdicts", &["load.duration_s=3", "grid.seed=[1]"]),
    ("starved", &["load.duration_s=3", "grid.seed=[1]"]),
    ("wire", &["load.duration_s=3", "grid.seed=[1]"]),
    (
        "massive",
        &["load.rate=[500]", "load.duration_s=4", "load.warmup_s_max=1"],
    ),
];
/// The code of a call whose deadline passed: a figure of the bars of overload.
const DEADLINE_PASSED: u32 = 30_102;

/// Runs the group's scenario with these overrides.
pub(crate) fn measure(
    group: &Group,
    set: Vec<String>,
    setup: &Setup,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut options = setup.press(group.file().as_ref(), group.name);
    if setup.quick {
        options.set.extend(QUICK.map(str::to_owned));
        if group.about()?.has_length() {
            options.set.push("load.duration_s=1".into());
        }
        let own = QUICK_OF.iter().filter(|(name, _)| *name == group.name);
        let own = own.flat_map(|(_, set)| set.iter().map(|pair| (*pair).to_owned()));
        options.set.extend(own);
    }
    options.set.extend(set);
    let outcome = run_until(options, setup.stop.watch()).with_context(|| format!("press, {}", group.name))?;
    setup.stop.check()?;
    report.say(&outcome.output);
    for point in &outcome.result.points {
        let counters = &point.counters;
        let expired = counters.status_codes.get(&DEADLINE_PASSED).copied().unwrap_or(0);
        ensure!(
            counters.failed_total() == expired && !point.interrupted,
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

/// A scenario that needs nothing to be made.
pub(crate) fn nothing(_: &Setup) -> anyhow::Result<Vec<String>> {
    Ok(Vec::new())
}

/// R1's files.
pub(crate) fn of_r1(setup: &Setup) -> anyhow::Result<Vec<String>> {
    r1::prepare(setup)?;
    Ok(Vec::new())
}

/// As many processes and source addresses as so many connections take.
pub(crate) fn of_massive(setup: &Setup) -> anyhow::Result<Vec<String>> {
    /// Files of a process that are no connections.
    const FILES_BESIDE: u64 = 100;
    /// Connections of one source address. It has 28,000 ports on a kernel as it comes, but that looks at half of them first, and
    /// for each connection at all of that half again once they are taken.
    const PORTS: usize = 13_000;
    let connections: usize = setup.pick(200_000, 2_000);
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20);
    ensure!(
        files > 2 * FILES_BESIDE,
        "a process may open {files} files, which is too few for any number of connections"
    );
    let files = files - FILES_BESIDE;
    // No process is filled to its limit: the kernel spreads connections by a hash, so some get more.
    let processes = (connections as f64 / (files as f64 * 0.9)).ceil() as usize;
    let processes = processes.max(setup.pick(1, 2));
    // Two addresses more than it takes: a port that was just closed is not free at once.
    let addresses: Vec<String> = (2..connections.div_ceil(PORTS) + 4)
        .map(|last| format!("127.0.0.{last}"))
        .collect();
    Ok(vec![
        format!("load.connections=[{connections}]"),
        format!("load.processes={processes}"),
        format!("load.connect_parallel={}", 64 * processes),
        format!("load.source_addresses={}", serde_json::to_string(&addresses)?),
        format!("grid.processes=[{processes}]"),
        format!("grid.connections_max=[{files}]"),
    ])
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

/// The table that is looked up.
pub(crate) fn of_lookup(setup: &Setup) -> anyhow::Result<Vec<String>> {
    let mut random = Command::new(setup.builder());
    random.args(["features", "random", "--name", "items", "--rows", "100000"]);
    random
        .args(["--dim", "10", "--seed", "7", "--out"])
        .arg(setup.out.join("tables"));
    // Groups share it.
    if !setup.out.join("tables/items").exists() {
        child::run(setup, "features-random", random)?;
    }
    Ok(Vec::new())
}

/// A million rows of 40 bytes, and the programs in C beside them.
pub(crate) fn of_features(setup: &Setup) -> anyhow::Result<Vec<String>> {
    let mut compile = Command::new("cc");
    compile.args(["-O3", "-o"]).arg(setup.out.join("features-c"));
    compile.arg("benches/c/features.c");
    child::run(setup, "features-c", compile)?;
    random_features(setup, "items", 1_000_000)?;
    Ok(Vec::new())
}

/// Twenty million more.
pub(crate) fn of_many_features(setup: &Setup) -> anyhow::Result<Vec<String>> {
    let rows = setup.pick(20_000_000, 200_000);
    random_features(setup, "many", rows)?;
    of_features(setup)
}

/// A table of two versions with the same million rows.
pub(crate) fn of_switched_features(setup: &Setup) -> anyhow::Result<Vec<String>> {
    random_features(setup, "switched", 1_000_000)?;
    let second = Path::new(".demo/bench/features-2/switched/00000002");
    if !second.exists() {
        build_random(setup, "switched", 1_000_000, &[])?;
    }
    Ok(Vec::new())
}

/// A table that is kept between runs: its folder says the format of its files.
fn random_features(setup: &Setup, name: &str, rows: u64) -> anyhow::Result<()> {
    build_random(setup, name, rows, &["--keep"])
}

fn build_random(setup: &Setup, name: &str, rows: u64, more: &[&str]) -> anyhow::Result<()> {
    let mut random = Command::new(&setup.millpond);
    random.args(["features", "random", "--out", ".demo/bench/features-2"]);
    random.args(["--name", name, "--rows", &rows.to_string()]);
    random.args(["--dim", "10", "--seed", "7"]).args(more);
    child::run(setup, &format!("features-{name}"), random)
}

/// The build before in the place of the first server, and the table that both look up.
pub(crate) fn of_builds(setup: &Setup) -> anyhow::Result<Vec<String>> {
    of_lookup(setup)?;
    before(setup, &["features.items.path={out}/../tables/items"], 7451)
}

/// The same for R1's server.
pub(crate) fn of_builds_of_r1(setup: &Setup) -> anyhow::Result<Vec<String>> {
    r1::prepare(setup)?;
    let more = [
        "server.cpus=[0]",
        "server.threads=1",
        "server.deadline_ms_default=60000",
    ];
    before(setup, &more, 7461)
}

/// The build before beside this one, and what both are asked for.
pub(crate) fn of_instructions(setup: &Setup) -> anyhow::Result<Vec<String>> {
    r1::prepare(setup)?;
    of_lookup(setup)?;
    let build = setup.before()?.display().to_string();
    let script = "benches/scenarios/instructions.py";
    let requests = ["echo-d1", "echo-d16", "lookup-100", "r1"].iter().enumerate();
    let set = requests.map(|(at, request)| {
        let words = ["python3", script, "{millpond}", &build, "{out}", request];
        command(&format!("figure.{at}.command"), &words)
    });
    set.collect()
}

/// A scenario whose only need is valgrind.
pub(crate) fn of_local_instructions(_: &Setup) -> anyhow::Result<Vec<String>> {
    let found = Command::new("valgrind").arg("--version").output();
    ensure!(
        found.is_ok_and(|output| output.status.success()),
        "valgrind, which counts the instructions, is not installed; apt install valgrind"
    );
    Ok(Vec::new())
}

/// The build before, with the models of `infer.config.toml`.
pub(crate) fn of_models(setup: &Setup) -> anyhow::Result<Vec<String>> {
    before(setup, &[], 7483)
}

/// The command of the build before.
fn before(setup: &Setup, more: &[&str], port: u16) -> anyhow::Result<Vec<String>> {
    let build = setup.before()?.display().to_string();
    let own = [
        format!("server.listen=127.0.0.1:{port}"),
        format!("admin.listen=127.0.0.1:{}", port + 1),
        "log.level=5".to_owned(),
    ];
    let mut words = vec![build.as_str(), "serve", "--config", "{config}"];
    let pairs = own.iter().map(String::as_str).chain(more.iter().copied());
    words.extend(pairs.flat_map(|pair| ["--set", pair]));
    Ok(vec![command("targets.0.server.command", &words)?])
}

/// The override of a command: an array of strings is the same in JSON and in TOML.
fn command(key: &str, words: &[&str]) -> anyhow::Result<String> {
    Ok(format!("{key}={}", serde_json::to_string(words)?))
}

/// The private environment, with numpy.
pub(crate) fn of_demo_environment(setup: &Setup) -> anyhow::Result<Vec<String>> {
    child::python_of_demo(setup)?;
    Ok(Vec::new())
}

/// The models that ONNX Runtime runs under load, made by the private environment.
pub(crate) fn of_ort_load(setup: &Setup) -> anyhow::Result<Vec<String>> {
    let mut make = Command::new(child::python_of_demo(setup)?);
    make.args(["-u", "benches/scenarios/ort_models.py"]);
    child::run(setup, "ort-models", make)?;
    Ok(Vec::new())
}

/// The demo once, so that nothing is left to build or to train.
pub(crate) fn of_demo(setup: &Setup) -> anyhow::Result<Vec<String>> {
    let mut demo = Command::new("benches/scenarios/timed.sh");
    demo.arg(setup.out.join("demo-first-output.log"))
        .args(["make", "demo"]);
    child::run(setup, "demo-first", demo)?;
    Ok(Vec::new())
}
