//! Load through the press, as a library: single points on a server that runs, and whole scenarios.
//!
//! Its invariant: a point that comes back was not cut short, and no answer in it was wrong.

use crate::server::Server;
use crate::setup::Setup;
use crate::{cores, r1};
use anyhow::{Context as _, ensure};
use millpond_press_lab::{Outcome, RunOptions, run_until};
use millpond_press_report::Point;

/// The scenario of single points: R1's requests, every answer compared.
const QUICK: &str = "press/scenarios/r1-quick.toml";

/// How much each connection sends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Amount {
    Requests(u64),
    Seconds(f64),
}

/// The load of one point.
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) amount: Amount,
    /// The longest warm-up before the clock starts, in seconds.
    pub(crate) warm_up: f64,
}

/// Offers one load to a server that runs; `name` is the result folder's.
pub(crate) fn point(setup: &Setup, name: &str, server: &Server, load: &Load) -> anyhow::Result<Point> {
    let amount = match load.amount {
        Amount::Requests(each) => format!("requests_per_connection = {each}"),
        Amount::Seconds(seconds) => format!("duration_s = {seconds:?}"),
    };
    let (address, pid) = (&server.address, server.pid());
    let (connections, warm_up, core) = (load.connections, load.warm_up, cores::PRESS);
    let set = vec![
        format!(
            "target={{ protocol = \"http\", address = \"{address}\", method = \"infer\", timeout_ms = 60000, server_pid = {pid} }}"
        ),
        format!(
            "load={{ connections = [{connections}], {amount}, warmup_s_max = {warm_up:?}, client_cpus = [{core}] }}"
        ),
    ];
    let outcome = scenario(setup, QUICK, name, set)?;
    let point = outcome.result.points.into_iter().next();
    point.with_context(|| format!("{QUICK} gave no point"))
}

/// Runs a scenario with some keys set; the result folder is `press-NAME`.
pub(crate) fn scenario(setup: &Setup, file: &str, name: &str, set: Vec<String>) -> anyhow::Result<Outcome> {
    let mut options = RunOptions::new(file);
    options.set = set;
    options.set.push(format!("requests.file={}", r1::REQUESTS));
    options.set.push(format!("requests.expected={}", r1::EXPECTED));
    options.out = Some(setup.out.join(format!("press-{name}")));
    options.millpond = setup.millpond.clone();
    let outcome = run_until(options, setup.stop.watch()).with_context(|| format!("press, {name}"))?;
    setup.stop.check()?;
    for point in &outcome.result.points {
        let counters = &point.counters;
        ensure!(
            counters.failed_total() == 0 && !point.interrupted,
            "press, {name}: {} connections, {} answers, but {} wrong, errors {:?}, {:?}",
            point.offered.connections,
            counters.answers(),
            counters.wrong,
            counters.errors,
            counters.first
        );
    }
    Ok(outcome)
}
