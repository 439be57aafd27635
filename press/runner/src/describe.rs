//! What a run says of itself in `result.json`: the scenario, the machine, each point, and how it went.
//!
//! Nothing is measured here. Its invariant: every figure comes from the scenario or from what was measured.

use std::collections::BTreeMap;
use std::time::SystemTime;

use millpond_press_recorder::{Load, Machine};
use millpond_press_report::{
    Build, Point, Requests, RunResult, SCHEMA, Server, State, TargetName, rfc3339_utc,
};

use crate::RunOptions;
use crate::check::Checker;
use crate::closed_loop::Measured;
use crate::scenario::{Amount, Protocol, Scenario};

/// The result of a run that has no points yet.
pub(crate) fn run(
    scenario: &Scenario,
    checker: &Checker,
    options: &RunOptions,
    machine: Machine,
    now: SystemTime,
) -> RunResult {
    RunResult {
        schema: SCHEMA,
        state: State::Running,
        failure: None,
        name: scenario.name.clone(),
        title: scenario.title.clone(),
        layout: scenario.layout,
        started_at: rfc3339_utc(now),
        wall_s: 0.0,
        command: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        set: options.set.clone(),
        seed: scenario.seed,
        press: Build {
            version: Some(env!("CARGO_PKG_VERSION").into()),
            build: Some(if cfg!(debug_assertions) { "dev" } else { "release" }.into()),
        },
        machine,
        load_before: Load::read(),
        load_after: None,
        requests: Requests {
            source: scenario.requests_source.clone(),
            count: scenario.requests.len(),
            distinct: scenario.requests.distinct(),
            bytes: scenario.requests.bytes(),
            check: checker.in_words(),
            check_share: checker.share(),
        },
        points: Vec::new(),
    }
}

/// One point of the result.
pub(crate) fn point(
    scenario: &Scenario,
    number: usize,
    combination: &BTreeMap<String, String>,
    connections: usize,
    server: Option<Server>,
    measured: Measured,
) -> Point {
    let (protocol, path) = match scenario.protocol {
        Protocol::Http => ("http", &scenario.path),
        Protocol::Binary => ("binary", &scenario.method),
    };
    let (requests_per_connection, duration_s) = match scenario.amount {
        Amount::Requests(requests) => (Some(requests), None),
        Amount::For(span) => (None, Some(span.as_secs_f64())),
    };
    let answers = measured.tally.counters.answers() as f64;
    let seconds = measured.us_total as f64 / 1e6;
    Point {
        number,
        grid: combination.clone(),
        target: TargetName {
            protocol: protocol.into(),
            address: scenario.address_text.clone(),
            path: path.clone(),
        },
        server,
        connections,
        in_flight: scenario.in_flight,
        client_threads: measured.client_threads,
        requests_per_connection,
        duration_s,
        interrupted: measured.interrupted,
        us_total: measured.us_total,
        qps: if seconds > 0.0 { answers / seconds } else { 0.0 },
        latency: measured.tally.latency.summary(),
        latency_refused: measured.tally.latency_refused.summary(),
        counters: measured.tally.counters,
        server_cpu: measured.server_cpu,
        client_cpu: measured.client_cpu,
        server_memory_bytes: measured.server_memory_bytes,
        client_memory_bytes: measured.client_memory_bytes,
        series: measured.series,
    }
}

/// What a program that ran this ends with.
pub(crate) fn exit_code(result: &RunResult) -> u8 {
    let mut counters = result.points.iter().map(|point| &point.counters);
    if result.state != State::Complete {
        3
    } else if counters
        .clone()
        .any(|counters| counters.failed_total() + counters.connections_failed > 0)
    {
        1
    } else if counters.any(|counters| counters.answers() == 0) {
        3
    } else {
        0
    }
}
