//! What a run says of itself in `result.json`: the scenario, the machine, each point, and how it went.
//!
//! Nothing is measured here. Its invariant: every figure comes from the scenario or from what was measured.

use std::time::{SystemTime, UNIX_EPOCH};

use millpond_press_recorder::{Load as MachineLoad, Machine, Tally};
use millpond_press_report::{
    Build, Judgement, LoadKind, Offered, OperationResult, Point, RunResult, SCHEMA, Second, Server, State,
    TargetName, rfc3339_utc,
};
use millpond_press_workload::Arrivals;

use crate::RunOptions;
use crate::engine::{Amount, Offer};
use crate::judge::judge;
use crate::measure::Measured;
use crate::scenario::{Scenario, TargetPlan};
use crate::scenario_run::At;

/// The result of a run that has no points yet.
pub(crate) fn run(scenario: &Scenario, options: &RunOptions, machine: Machine, now: SystemTime) -> RunResult {
    RunResult {
        schema: SCHEMA,
        state: State::Running,
        name: scenario.name.clone(),
        title: scenario.title.clone(),
        layout: scenario.layout,
        started_at: rfc3339_utc(now),
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
        load_before: MachineLoad::read(),
        requests: scenario
            .targets
            .iter()
            .map(|target| target.requests.clone())
            .collect(),
        pinning: pinning(scenario),
        ..RunResult::default()
    }
}

fn pinning(scenario: &Scenario) -> Vec<String> {
    let cores = |numbers: &[usize]| match numbers {
        [] => "any core".to_owned(),
        [one] => format!("core {one}"),
        many => format!("cores {many:?}"),
    };
    let load = &scenario.load;
    let most = load
        .connections
        .iter()
        .map(|&connections| load.processes(connections))
        .max();
    let processes = match most {
        None | Some(1) => String::new(),
        Some(processes) => format!(" in {processes} processes"),
    };
    let client = format!("load generator{processes}: {}", cores(&load.client_cpus));
    let servers = scenario.targets.iter().filter_map(|target: &TargetPlan| {
        let (server, _) = target.server.as_ref()?;
        Some(format!("{}: {}", target.name, cores(&server.cpus)))
    });
    std::iter::once(client).chain(servers).collect()
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
    if scenario.repeats > 1 || at.repeat > 1 {
        name += &format!(", repeat {}", at.repeat);
    }
    name
}

/// One point of the result.
pub(crate) fn point(
    scenario: &Scenario,
    at: &At<'_>,
    offer: &Offer,
    number: usize,
    server: Option<Server>,
    client_threads: usize,
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
            protocol: target.protocol.as_str().into(),
            address: target.address_text.clone(),
            path: target.words.clone(),
        },
        server,
        offered: offered(scenario, at, offer),
        client_threads,
        started_unix_s: measured
            .started_at
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64()),
        interrupted: measured.interrupted,
        warm_up: measured.warm_up,
        us_total: measured.total.as_micros() as u64,
        us_silent_max: measured.silent.as_micros() as u64,
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
        server_cpu: measured.server_cpu,
        client_cpu: measured.client_cpu,
        server_memory_bytes: measured.server_memory_bytes,
        client_memory_bytes: measured.client_memory_bytes,
        resources: measured.resources,
        stages: measured.stages,
        ..Point::default()
    };
    point.verdict = judge(&point);
    point.slo = scenario.slo.as_ref().map(|slo| slo.judge(&point));
    point
}

fn offered(scenario: &Scenario, at: &At<'_>, offer: &Offer) -> Offered {
    let load = &scenario.load;
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
        in_flight: load.in_flight(scenario.targets[at.target].protocol),
        rate: at.rate,
        arrivals,
        think_ms: (!offer.think.is_zero()).then_some(offer.think.as_secs_f64() * 1e3),
        requests_per_connection,
        duration_s,
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

/// What a program that ran this ends with. An SLO decides where there is one; without one, any failure is one too many. With
/// `until_missed` a rate that misses is the end of the rates, and a failure only where none met it.
pub(crate) fn exit_code(result: &RunResult, until_missed: bool) -> u8 {
    if result.state != State::Complete {
        return 3;
    }
    if let Some(search) = &result.search {
        return u8::from(search.rate_met.is_none());
    }
    let met = |point: &Point| point.slo.as_ref().is_some_and(|slo| slo.met);
    let has_risen = until_missed && result.points.iter().any(met);
    let counts = |point: &&Point| !has_risen || met(point);
    let codes = result.points.iter().filter(counts).map(code_of);
    // A failure is told before a doubt: 1 before 3.
    let codes: Vec<u8> = codes.collect();
    [1, 3].into_iter().find(|code| codes.contains(code)).unwrap_or(0)
}

/// A missed SLO of a point that cannot be believed is no missed SLO; one that was met although others took part is met.
fn code_of(point: &Point) -> u8 {
    let counters = &point.counters;
    let met = point.slo.as_ref().map(|slo| slo.met);
    match (met, point.verdict.judgement) {
        _ if counters.answers() == 0 && counters.failed_total() + counters.connections_failed == 0 => 3,
        (Some(false), Judgement::GeneratorBound | Judgement::EnvDrift) => 3,
        (Some(false), _) => 1,
        (Some(true), Judgement::GeneratorBound | Judgement::Unstable) => 3,
        (Some(true), _) => 0,
        (None, _) => u8::from(counters.failed_total() + counters.connections_failed > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_press_report::SloOutcome;

    #[test]
    fn rates_that_rise_end_with_a_miss() {
        let point = |met| {
            let mut point = Point::default();
            point.counters.ok = 10;
            point.slo = Some(SloOutcome {
                met,
                ..SloOutcome::default()
            });
            point
        };
        let result = |met: &[bool]| RunResult {
            state: State::Complete,
            points: met.iter().map(|met| point(*met)).collect(),
            ..RunResult::default()
        };
        assert_eq!(exit_code(&result(&[true, false]), true), 0);
        assert_eq!(exit_code(&result(&[true, false]), false), 1);
        assert_eq!(exit_code(&result(&[false]), true), 1);
    }

    #[test]
    fn a_missed_slo_is_the_servers_only_in_a_point_that_can_be_believed() {
        let code = |met: Option<bool>, judgement, failed: u64| {
            let mut point = Point::default();
            point.counters.ok = 10;
            point.counters.wrong = failed;
            point.verdict.judgement = judgement;
            point.slo = met.map(|met| SloOutcome {
                met,
                ..SloOutcome::default()
            });
            code_of(&point)
        };
        assert_eq!(code(None, Judgement::EnvDrift, 0), 0);
        assert_eq!(code(None, Judgement::Valid, 1), 1);
        assert_eq!(code(Some(true), Judgement::Valid, 1), 0, "the SLO decides");
        assert_eq!(code(Some(true), Judgement::EnvDrift, 0), 0);
        assert_eq!(code(Some(true), Judgement::GeneratorBound, 0), 3);
        assert_eq!(code(Some(false), Judgement::Valid, 0), 1);
        assert_eq!(code(Some(false), Judgement::Unstable, 0), 1);
        assert_eq!(code(Some(false), Judgement::EnvDrift, 0), 3);
        assert_eq!(
            code_of(&Point::default()),
            3,
            "a point without an answer is no result"
        );
    }
}
