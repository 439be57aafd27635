//! What a run says of itself in `result.json`: the scenario, the machine, each point, and how it went.
//!
//! Nothing is measured here. Its invariant: every figure comes from the scenario or from what was measured.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use millpond_press_recorder::{Interference, LoadAverage, Machine, Tally};
use millpond_press_report::{Build, RunResult, SCHEMA, State, rfc3339_utc};
use millpond_press_verdict::{
    Antagonists, Held, LoadKind, Offered, OperationResult, Point, Second, Server, TargetName, judge,
};
use millpond_press_workload::Arrivals;

use crate::RunOptions;
use crate::measure::Measured;
use crate::scenario::{AntagonistKeys, Scenario, TargetPlan};
use crate::scenario_run::At;
use millpond_press_load::{Amount, Offer};

/// The result of a run that has no points yet.
pub(crate) fn run(scenario: &Scenario, options: &RunOptions, machine: Machine, now: SystemTime) -> RunResult {
    RunResult {
        schema: SCHEMA,
        state: State::Running,
        name: scenario.about.name.clone(),
        title: scenario.about.title.clone(),
        layout: scenario.about.layout,
        started_at: rfc3339_utc(now),
        command: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        set: options.set.clone(),
        seed: scenario.about.seed,
        commit: commit_of(&options.scenario),
        press: Build {
            version: Some(env!("CARGO_PKG_VERSION").into()),
            build: Some(if cfg!(debug_assertions) { "dev" } else { "release" }.into()),
        },
        machine,
        load_before: LoadAverage::read(),
        requests: scenario
            .targets
            .iter()
            .map(|target| target.requests.clone())
            .collect(),
        pinning: pinning(scenario),
        ..RunResult::default()
    }
}

/// The commit of the tree that the scenario lies in, as far as git knows one.
fn commit_of(scenario: &Path) -> Option<String> {
    let folder = scenario.parent().filter(|folder| !folder.as_os_str().is_empty());
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(folder.unwrap_or(Path::new(".")))
            .args(words);
        let output = command
            .stdin(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=9", "HEAD"])?;
    let changes = git(&[
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=no",
    ])?;
    Some(if changes.is_empty() {
        commit
    } else {
        format!("{commit}, with changes")
    })
}

fn pinning(scenario: &Scenario) -> Vec<String> {
    let cores = |numbers: &[usize]| match numbers {
        [] => "any core".to_owned(),
        [one] => format!("core {one}"),
        many => format!("cores {many:?}"),
    };
    let load = &scenario.load;
    let most = load
        .keys
        .connections
        .iter()
        .map(|&connections| load.processes(connections))
        .max();
    let processes = match most {
        None | Some(1) => String::new(),
        Some(processes) => format!(" in {processes} processes"),
    };
    let client = format!("load generator{processes}: {}", cores(&load.keys.client_cpus));
    let servers = scenario.targets.iter().filter_map(|target: &TargetPlan| {
        let (server, _) = target.server.as_ref()?;
        Some(format!("{}: {}", target.name, cores(&server.cpus)))
    });
    let own = scenario
        .targets
        .iter()
        .filter(|target| !target.own.client_cpus.is_empty());
    let own = own.map(|target| {
        format!(
            "load generator of {}: {}",
            target.name,
            cores(&target.own.client_cpus)
        )
    });
    let antagonists = scenario.targets.iter().filter_map(|target| {
        let keys = target.antagonists.as_ref()?;
        Some(format!("antagonists of {}: {}", target.name, cores(&keys.cpus)))
    });
    std::iter::once(client)
        .chain(own)
        .chain(servers)
        .chain(antagonists)
        .collect()
}

/// A point for progress lines.
pub(crate) fn name(scenario: &Scenario, at: &At<'_>) -> String {
    let mut name = String::new();
    if scenario.targets.len() > 1 {
        name += &format!("{}, ", scenario.targets[at.target].name);
    }
    for (key, value) in at.combination {
        name += &format!("{key} = {value}, ");
    }
    name += &format!("{} connections", at.connections);
    if let Some(rate) = at.rate {
        name += &format!(", {rate}/s");
    }
    if at.is_disturbed {
        name += ", beside antagonists";
    }
    if scenario.about.repeats > 1 || at.repeat > 1 {
        name += &format!(", repeat {}", at.repeat);
    }
    name
}

/// Who was measured by whom.
pub(crate) struct Seen {
    pub(crate) server: Option<Server>,
    /// Its connections, where it has some.
    pub(crate) held: Option<Held>,
    pub(crate) client_threads: usize,
}

/// One point of the result.
pub(crate) fn point(
    scenario: &Scenario,
    at: &At<'_>,
    offer: &Offer,
    number: usize,
    seen: Seen,
    measured: Measured,
) -> Point {
    let target = &scenario.targets[at.target];
    let tally = measured.handover.tally;
    // Whole microseconds, so that the rate follows from the figures that are kept.
    let seconds = measured.total.as_micros() as f64 / 1e6;
    let rate = |count: u64| {
        if seconds > 0.0 {
            count as f64 / seconds
        } else {
            0.0
        }
    };
    let mut point = Point {
        number,
        repeat: at.repeat,
        grid: at.combination.clone(),
        target: TargetName {
            name: target.name.clone(),
            protocol: target.kind.name().into(),
            address: target.address_text.clone(),
            path: target.words.clone(),
        },
        server: seen.server,
        held: seen.held,
        offered: offered(scenario, at, offer),
        client_threads: seen.client_threads,
        qps: rate(tally.counters.answers()),
        sent_per_s: rate(measured.handover.sent),
        latency: tally.latency.summary(),
        service: tally.service.summary(),
        lateness: tally.lateness.summary(),
        latency_refused: tally.latency_refused.summary(),
        operations: operations(&tally, target),
        series: series(&tally, &measured.outstanding, seconds),
        curve: tally.latency.curve(),
        counters: tally.counters,
        ..measured.point
    };
    point.verdict = judge(&point);
    point.slo = scenario.slo.as_ref().map(|slo| slo.judge(&point, &tally.latency));
    point
}

fn offered(scenario: &Scenario, at: &At<'_>, offer: &Offer) -> Offered {
    let (load, target) = (&scenario.load, &scenario.targets[at.target]);
    let (requests_per_connection, duration_s) = match offer.amount {
        Amount::Requests(requests) => (Some(requests), None),
        Amount::For(span) => (None, Some(span.as_secs_f64())),
    };
    let arrivals = offer.open.as_ref().map(|(arrivals, _)| match arrivals {
        Arrivals::Constant => "constant".to_owned(),
        Arrivals::Poisson => "poisson".to_owned(),
        Arrivals::Pareto { shape } => format!("pareto, shape {shape}"),
        Arrivals::Bursts { size } => format!("bursts of {size}"),
        Arrivals::Recorded { file } => format!("recorded in {}", file.display()),
    });
    Offered {
        kind: if offer.open.is_some() {
            LoadKind::Open
        } else {
            LoadKind::Closed
        },
        connections: at.connections,
        in_flight: load.in_flight(target.kind.takes, &target.own),
        rate: at.rate,
        arrivals,
        think_ms: (!offer.think.is_zero()).then_some(offer.think.as_secs_f64() * 1e3),
        requests_per_connection,
        duration_s,
        requests: at.requests,
        antagonists: target
            .antagonists
            .as_ref()
            .filter(|_| at.is_disturbed)
            .map(|keys| antagonists(scenario, target, keys)),
    }
}

fn antagonists(scenario: &Scenario, target: &TargetPlan, keys: &AntagonistKeys) -> Antagonists {
    let clients = scenario.load.client_cpus(&target.own);
    let beside = match &target.server {
        // The calls are made where the threads of press are.
        None if target.kind.takes.local => clients.to_vec(),
        server => {
            let servers = server.iter().flat_map(|(server, _)| &server.cpus);
            servers.chain(clients).copied().collect()
        }
    };
    let interference = match target.kind.takes.local {
        true => Interference::between(&beside, &keys.cpus),
        // Both ends and the kernel's way between them want the cores of this machine, so that what a cache does cannot be told.
        false => Interference::CpuContention,
    };
    Antagonists {
        command: keys.command.join(" "),
        cores: keys.cpus.clone(),
        beside,
        interference,
    }
}

fn operations(tally: &Tally, target: &TargetPlan) -> Vec<OperationResult> {
    let named = target.operations.iter().zip(&tally.operations);
    named
        .map(|(name, operation)| OperationResult {
            name: name.clone(),
            answers: operation.answers,
            refused: operation.refused,
            failed: operation.failed,
            latency: operation.latency.summary(),
        })
        .collect()
}

fn series(tally: &Tally, outstanding: &[u64], total: f64) -> Vec<Second> {
    let seconds = tally.seconds.iter().enumerate();
    seconds
        .map(|(at, second)| {
            let latency = second.latency.summary();
            Second {
                s: (at as f64 + 1.0).min(total.max(at as f64)),
                answers: second.answers,
                refused: second.refused,
                failed: second.failed,
                outstanding: outstanding.get(at).copied().unwrap_or(0),
                us_mean: latency.us_mean,
                us_p50: latency.us_p50,
                us_p99: latency.us_p99,
                us_max: latency.us_max,
            }
        })
        .collect()
}
