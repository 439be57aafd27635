//! How the figures came about: what was sent, by what, on which machine.
//!
//! Its invariant: what is not known reads `unknown` or is left out, never guessed.

use super::{Block, Fact, Section};
use crate::number::{bytes, fixed, short};
use crate::{Point, RunResult, describe};

fn fact(name: &'static str, value: impl Into<String>) -> Fact {
    Fact {
        name,
        value: value.into(),
        code: false,
    }
}

/// How it was measured.
pub(crate) fn method(run: &RunResult) -> Section {
    let mut facts = vec![Fact {
        name: "Command",
        value: run.command.join(" "),
        code: true,
    }];
    if !run.set.is_empty() {
        facts.push(Fact {
            name: "Overrides",
            value: run.set.join(" "),
            code: true,
        });
    }
    facts.push(fact("Seed", run.seed.to_string()));
    for requests in &run.requests {
        let target = if requests.target.is_empty() {
            String::new()
        } else {
            format!("{}: ", requests.target)
        };
        facts.push(fact(
            "Requests",
            format!(
                "{target}{}; {} bodies, {} of them distinct, {}",
                requests.source,
                requests.count,
                requests.distinct,
                bytes(requests.bytes as f64)
            ),
        ));
        facts.push(fact(
            "Answers checked",
            format!(
                "{target}{} ({} % of them)",
                requests.check,
                short(requests.check_share * 100.0)
            ),
        ));
    }
    facts.extend(warm_up(run));
    facts.push(fact(
        "Latency",
        "from the moment a request was meant to be sent to its whole answer; service time from the moment it was handed to \
         the kernel",
    ));
    facts.push(fact(
        "Lateness",
        "of the load generator: from the moment a request was due and a connection was free to its sending",
    ));
    Section {
        id: "method",
        title: "How it was measured",
        blocks: vec![Block::Facts(facts)],
    }
}

fn warm_up(run: &RunResult) -> Option<Fact> {
    if run.points.is_empty() {
        return None;
    }
    let answers = run
        .points
        .iter()
        .fold(0u64, |sum, point| sum.saturating_add(point.warm_up.answers));
    let seconds: f64 = run.points.iter().map(|point| point.warm_up.seconds).sum();
    let moving = run
        .points
        .iter()
        .filter(|point| !point.warm_up.stationary)
        .count();
    let mut value = format!(
        "{answers} answers in {} s before the clocks started, in no other figure",
        fixed(seconds, 1)
    );
    if moving > 0 && answers > 0 {
        value += &format!(
            "; {moving} of {} points had not settled by then",
            run.points.len()
        );
    }
    Some(fact("Warm-up", value))
}

/// Where it was measured.
pub(crate) fn environment(run: &RunResult) -> Section {
    let unknown = || "unknown".to_owned();
    let mut facts = vec![fact(
        "Started",
        format!("{}, {} s in all", run.started_at, fixed(run.wall_s, 1)),
    )];
    let machine = &run.machine;
    facts.push(fact(
        "Processor",
        machine.cpu_model.clone().unwrap_or_else(unknown),
    ));
    facts.push(fact(
        "Machine",
        format!(
            "{} cores, {}, kernel {}, {} open files",
            machine.cores.map_or_else(unknown, |cores| cores.to_string()),
            machine
                .memory_bytes
                .map_or_else(unknown, |size| bytes(size as f64)),
            machine.kernel.clone().unwrap_or_else(unknown),
            machine
                .open_files_max
                .map_or_else(unknown, |files| files.to_string()),
        ),
    ));
    facts.extend(processor(machine));
    if let Some(commit) = &run.commit {
        facts.push(fact("Commit of the scenario's tree", commit.clone()));
    }
    if !run.pinning.is_empty() {
        facts.push(fact("Pinning", run.pinning.join("; ")));
    }
    if run.load_before.is_some() || run.load_after.is_some() {
        let load = |load: Option<millpond_press_recorder::LoadAverage>| {
            load.map_or_else(unknown, |load| fixed(load.minute_1, 2))
        };
        facts.push(fact(
            "Runnable tasks, mean of one minute",
            format!("{} before, {} after", load(run.load_before), load(run.load_after)),
        ));
    }
    facts.push(fact(
        "Load generator",
        format!(
            "{}{}",
            build(run.press.version.as_deref(), run.press.build.as_deref()),
            threads(run)
        ),
    ));
    facts.extend(targets(run));
    Section {
        id: "environment",
        title: "Environment",
        blocks: vec![Block::Facts(facts)],
    }
}

/// What decides how a core answers: threads on it, its sleep, its clock, and who shares it; nothing that the system does not say.
fn processor(machine: &millpond_press_recorder::Machine) -> Option<Fact> {
    let frequency = match (machine.mhz, machine.mhz_bounds) {
        (_, Some((low, high))) if low == high => Some(format!("pinned at {} MHz", fixed(low, 0))),
        (_, Some((low, high))) => Some(format!("from {} to {} MHz", fixed(low, 0), fixed(high, 0))),
        (Some(mhz), None) => Some(format!("{} MHz at the start", fixed(mhz, 0))),
        (None, None) => None,
    };
    let states = machine.c_states.as_ref().map(|states| match states.is_empty() {
        true => "no cpuidle driver: halt only; the host decides further".to_owned(),
        false => states.join(", "),
    });
    let known = [
        ("SMT", machine.smt.clone()),
        ("C-states", states),
        ("governor", machine.governor.clone()),
        ("frequency", frequency),
        ("virtualisation", machine.virtualisation.clone()),
    ];
    if known.iter().all(|(_, value)| value.is_none()) {
        return None;
    }
    let words = known.map(|(name, value)| format!("{name} {}", value.unwrap_or_else(|| "unknown".into())));
    Some(fact("Cores", words.join("; ")))
}

fn threads(run: &RunResult) -> String {
    let mut counts: Vec<usize> = run.points.iter().map(|point| point.client_threads).collect();
    counts.sort_unstable();
    counts.dedup();
    match counts[..] {
        [] => String::new(),
        [1] => ", 1 thread".into(),
        [one] => format!(", {one} threads"),
        [low, .., high] => format!(", {low} to {high} threads"),
    }
}

/// Every target once, with what answered.
fn targets(run: &RunResult) -> Vec<Fact> {
    let mut seen: Vec<String> = Vec::new();
    for point in &run.points {
        let words = target(point);
        if !seen.contains(&words) {
            seen.push(words);
        }
    }
    seen.into_iter().map(|words| fact("Target", words)).collect()
}

fn target(point: &Point) -> String {
    let target = &point.target;
    let place = if target.address.is_empty() {
        "in process".into()
    } else {
        format!("at {}", target.address)
    };
    let server = point.server.as_ref();
    let version = server.and_then(|server| server.version.as_deref());
    let kind = server.and_then(|server| server.build.as_deref());
    format!(
        "{}: {} {} {place}; {}",
        describe::target_name(point),
        target.protocol,
        target.path,
        build(version, kind)
    )
}

fn build(version: Option<&str>, build: Option<&str>) -> String {
    match (version, build) {
        (None, None) => "did not say what it is".into(),
        (version, build) => format!(
            "version {}, {} build",
            version.unwrap_or("unknown"),
            build.unwrap_or("unknown")
        ),
    }
}
