//! What a load must not be: amounts that exclude each other, schedules that cannot be made.
//!
//! Its invariant: a load that passes has a length or a number of requests, and a schedule for every rate.

use std::time::Duration;

use millpond_press_workload::Arrivals;

use super::{RATE_MAX, between, positive, targets};
use crate::antagonists::SECONDS;
use crate::scenario::keys::{File, Load};
use crate::scenario::steps::Rates;

/// What one target's load may be, and how often everything is run.
pub(super) fn check_own_loads(file: &File) -> Result<(), String> {
    between("scenario.rounds", Some(file.scenario.rounds), 1..=1_000)?;
    for target in targets(file) {
        let own = &target.load;
        between("target.load.connections", own.connections, 1..=1_000_000)?;
        between("target.load.in_flight", own.in_flight, 1..=65_536)?;
        positive("target.load.rate", own.rate, RATE_MAX)?;
        positive("target.load.times", own.times, RATE_MAX)?;
        for &rate in &own.rates {
            positive("target.load.rates", rate, RATE_MAX)?;
        }
        let ways = [own.times.is_some(), own.rate.is_some(), !own.rates.is_empty()];
        if own.times.is_some() != own.over.is_some() || ways.into_iter().filter(|way| *way).count() > 1 {
            return Err(
                "target.load takes a `rate`, `rates`, or `times` and `over`, the target whose rate it multiplies"
                    .into(),
            );
        }
        if !own.rates.is_empty() && (file.boost.auto || file.boost.until_missed) {
            return Err("target.load.rates and [boost] exclude each other: [boost] raises load.rate".into());
        }
        let mut before = targets(file).take_while(|other| other.name() != target.name());
        if let Some(over) = &own.over
            && !before.any(|other| other.name() == over)
        {
            return Err(format!(
                "target.load.over is {over:?}, but no target before it is called so"
            ));
        }
        if own.is_open() && file.load.seconds().is_none() {
            return Err(
                "target.load.rate needs load.duration_s or load.requests_times_rate: a schedule has a length"
                    .into(),
            );
        }
    }
    Ok(())
}

/// What disturbs a target's loads.
pub(super) fn check_antagonists(file: &File) -> Result<(), String> {
    for target in targets(file) {
        let Some(antagonists) = &target.antagonists else {
            continue;
        };
        if antagonists.command.is_empty() || antagonists.cpus.is_empty() {
            return Err(
                "target.antagonists needs `command`, as [\"stress-ng\", \"--cache\", \"1\"], and `cpus`, a core for each".into(),
            );
        }
        if antagonists.command.iter().any(|word| word.contains(SECONDS)) && file.load.seconds().is_none() {
            return Err(
                "target.antagonists.command has `{seconds}`, which follows from load.duration_s or load.requests_times_rate: set one of them".into(),
            );
        }
        if !file.bar.is_empty() {
            return Err(
                "[[bar]] and target.antagonists exclude each other: a bar would mix loads with antagonists and without".into(),
            );
        }
        if file.boost.auto || file.boost.until_missed {
            return Err(
                "[boost] and target.antagonists exclude each other: a disturbed load would end its steps"
                    .into(),
            );
        }
    }
    Ok(())
}

/// How much is sent: one of the keys that say so.
pub(super) fn check_amount(load: &Load) -> Result<(), String> {
    let amounts = [
        load.requests_per_connection.is_some(),
        load.duration_s.is_some(),
        load.requests_times_rate.is_some(),
    ];
    if amounts.into_iter().filter(|amount| *amount).count() != 1 {
        return Err(
            "[load] needs one of `requests_per_connection`, `duration_s` and `requests_times_rate`, and only one".into(),
        );
    }
    Ok(())
}

/// Whether a number of requests follows from the rate of every target.
pub(super) fn check_number(file: &File, is_open: bool) -> Result<(), String> {
    if file.load.requests_times_rate.is_none() {
        return Ok(());
    }
    let arrivals = file.load.arrivals.as_ref();
    let is_independent = matches!(arrivals, None | Some(Arrivals::Poisson | Arrivals::Constant));
    if !is_independent {
        return Err("load.requests_times_rate takes load.arrivals \"poisson\" or \"constant\": the others follow from load.duration_s".into());
    }
    if file.boost.auto {
        return Err(
            "load.requests_times_rate and boost.auto exclude each other: its steps last load.duration_s"
                .into(),
        );
    }
    match is_open || targets(file).all(|target| target.load.is_open()) {
        true => Ok(()),
        false => Err("load.requests_times_rate needs load.rate: it is multiplied by the rate".into()),
    }
}

/// Whether a schedule can be made of every rate.
pub(super) fn check_arrivals(file: &File, recorded: bool) -> Result<(), String> {
    let load = &file.load;
    let Some(seconds) = load.seconds() else {
        return Ok(());
    };
    let default = Arrivals::default();
    let arrivals = load.arrivals.as_ref().unwrap_or(&default);
    let length = Duration::from_secs_f64(seconds.max(file.boost.first_s.unwrap_or(0.0)));
    let rates = Rates::of(file);
    let most = load.connections.iter().copied().max().unwrap_or(0);
    let mut of_schedule: Vec<f64> = rates.steps(most).iter().filter_map(|step| step.rate).collect();
    if file.boost.auto {
        // The others are offered as far as schedules can be made of them.
        of_schedule.truncate(1);
    }
    of_schedule.extend(targets(file).flat_map(|target| target.load.rates.iter().chain(&target.load.rate)));
    for rate in of_schedule.into_iter().map(Some).chain(recorded.then_some(None)) {
        if let Some(rate) = rate.filter(|rate| *rate > RATE_MAX) {
            return Err(format!(
                "load.rate_per_connection comes to {rate} requests a second on {most} connections, expected at most {RATE_MAX}"
            ));
        }
        arrivals
            .check(rate, length)
            .map_err(|error| format!("load.rate, load.arrivals: {error}"))?;
    }
    Ok(())
}
