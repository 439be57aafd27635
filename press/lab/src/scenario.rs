//! A scenario: what to send, where, how much, and what a right answer is.
//!
//! Nothing is bound or started here, except that the request files are read. Its invariant: a scenario that loads can be
//! run; everything impossible is refused with the file, the line or key, and a hint.

mod checks;
mod keys;
mod program;
mod requests;
mod steps;
mod targets;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use keys::{
    AntagonistKeys, BarKeys, Conditioned, FigureKeys, Launch, NamespaceKeys, OwnLoad, Search, Server,
};
use millpond_press_verdict::Slo;
use millpond_press_workload::Arrivals;
use steps::{Rates, Step};
pub(crate) use targets::{ServerPid, TargetPlan};

use crate::bars::{self, BarPlan};
use crate::{Error, grid};
use millpond_press_load::{Amount, Takes};

/// What is offered, point by point.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) keys: keys::Load,
    /// One point each.
    pub(crate) rates: Rates,
    /// Whether rates behind the first one that misses the SLO are left out.
    pub(crate) until_missed: bool,
    /// How requests arrive; nothing in a closed loop.
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) think: Duration,
    pub(crate) amount: Amount,
    pub(crate) warmup_max: Duration,
    /// The longest warm-up, where the scenario says it.
    pub(crate) warmup_said: Option<Duration>,
}

pub(crate) struct Scenario {
    /// The file, byte for byte, for the result folder.
    pub(crate) text: String,
    pub(crate) about: keys::About,
    pub(crate) targets: Vec<TargetPlan>,
    pub(crate) load: Load,
    pub(crate) slo: Option<Slo>,
    pub(crate) bars: Vec<BarPlan>,
    pub(crate) figures: Vec<FigureKeys>,
    pub(crate) search: Search,
    /// Every combination of the grid's values; one empty one when there is no grid.
    pub(crate) grid: Vec<BTreeMap<String, String>>,
}

/// The longest warm-up where the scenario does not say; a fixed number of requests has none.
const WARMUP_MAX: Duration = Duration::from_secs(10);

/// Reads and checks a scenario and its overrides.
pub(crate) fn load(path: &Path, overrides: &[String]) -> Result<Scenario, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::ReadScenario {
        path: path.to_owned(),
        source,
    })?;
    let name = path.display().to_string();
    let file = text::parse(&name, &text, overrides)?;
    let needs = file.scenario.needs.clone();
    build(file, text).map_err(|message| Error::Scenario {
        place: name,
        message: with_command(message, &needs),
    })
}

/// Says how the first file that is missing is made, where the scenario knows.
fn with_command(message: String, needs: &BTreeMap<PathBuf, String>) -> String {
    match needs.iter().find(|(path, _)| !path.exists()) {
        Some((path, command)) => {
            format!("{message}; {} is missing: make it by `{command}`", path.display())
        }
        None => message,
    }
}

/// What a process of the load generator needs of a scenario that was read and found to be right.
pub(crate) struct Excerpt {
    pub(crate) target: TargetPlan,
    pub(crate) load: Load,
    pub(crate) seed: u64,
}

/// The target of this number, made from the same text by the same steps.
pub(crate) fn excerpt(
    path: &Path,
    text: &str,
    overrides: &[String],
    target: usize,
) -> Result<Excerpt, Error> {
    let name = path.display().to_string();
    let file = text::parse(&name, text, overrides)?;
    let plan = || {
        checks::check(&file)?;
        let Some(target) = file.target.iter().chain(&file.targets).nth(target) else {
            return Err(format!("there is no target {target}"));
        };
        TargetPlan::new(&file, target, None)
    };
    let target = plan().map_err(|message| Error::Scenario { place: name, message })?;
    Ok(Excerpt {
        target,
        load: Load::of(&file),
        seed: file.scenario.seed,
    })
}

fn build(file: keys::File, text: String) -> Result<Scenario, String> {
    checks::check(&file)?;
    let targets: Vec<&keys::Target> = file.target.iter().chain(&file.targets).collect();
    let mut planned = Vec::new();
    for target in targets {
        let server = target.server.as_ref().or(file.server.as_ref());
        planned.push(TargetPlan::new(&file, target, server)?);
    }
    let launches: Vec<Launch<'_>> = planned.iter().flat_map(TargetPlan::launches).collect();
    grid::check(&file.grid, &launches)?;
    let slo = file.slo.as_deref().map(Slo::parse).transpose()?;
    let load = Load::of(&file);
    let names: Vec<&str> = planned.iter().map(|target| target.name.as_str()).collect();
    let external: Vec<&str> = file.figure.iter().map(|figure| figure.name.as_str()).collect();
    let bars = bars::plan(file.bar, &names, &external)?;
    Ok(Scenario {
        about: file.scenario,
        bars,
        figures: file.figure,
        targets: planned,
        load,
        slo,
        search: file.search,
        grid: grid::combinations(&file.grid),
        text,
    })
}

impl Load {
    fn of(file: &keys::File) -> Load {
        let load = &file.load;
        let rates = Rates::of(file);
        let amount = match (load.requests_per_connection, load.seconds()) {
            (Some(requests), _) => Amount::Requests(requests),
            (None, seconds) => Amount::For(Duration::from_secs_f64(seconds.unwrap_or_default())),
        };
        let is_open = rates != Rates::None || load.arrivals.is_some();
        let warmup_said = load.warmup_s_max.map(Duration::from_secs_f64);
        Load {
            keys: load.clone(),
            rates,
            until_missed: file.boost.auto || file.boost.until_missed,
            arrivals: is_open.then(|| load.arrivals.clone().unwrap_or_default()),
            think: Duration::from_secs_f64(load.think_ms / 1_000.0),
            warmup_said,
            warmup_max: match (warmup_said, amount) {
                (Some(span), _) => span,
                (None, Amount::Requests(_)) => Duration::ZERO,
                // A short look is not worth a longer warm-up.
                (None, Amount::For(span)) => WARMUP_MAX.min(span),
            },
            amount,
        }
    }

    /// The loads on so many connections, in their order. Those of "auto boost" end where a schedule would be too long to make.
    pub(crate) fn steps(&self, connections: usize) -> Vec<Step> {
        let mut steps = self.rates.steps(connections);
        let can_be_made = |step: &Step| match (&self.arrivals, step.amount(self.amount)) {
            (Some(arrivals), Amount::For(length)) => arrivals.check(step.rate, length).is_ok(),
            _ => true,
        };
        if matches!(self.rates, Rates::Pauses(..)) {
            let count = steps.iter().take_while(|step| can_be_made(step)).count();
            steps.truncate(count.max(1));
        }
        steps
    }

    /// The cores of the threads that send to a target; any where there is none.
    pub(crate) fn client_cpus<'a>(&'a self, own: &'a OwnLoad) -> &'a [usize] {
        match own.client_cpus.as_slice() {
            [] => &self.keys.client_cpus,
            own => own,
        }
    }

    /// Processes that this many connections are spread over: none has nothing to hold.
    pub(crate) fn processes(&self, connections: usize) -> usize {
        self.keys.processes.min(connections).max(1)
    }

    /// Threads that share this many connections, those of all processes.
    pub(crate) fn threads(&self, connections: usize) -> usize {
        let threads = self
            .keys
            .client_threads
            .saturating_mul(self.processes(connections));
        threads.min(connections)
    }

    /// Requests a connection keeps outstanding at most: one where it waits for answers, and as many as the protocol carries
    /// where a schedule decides.
    pub(crate) fn in_flight(&self, takes: Takes, own: &OwnLoad) -> usize {
        match own.in_flight.or(self.keys.in_flight) {
            // A thread in this process and a caller of a program make one call at a time.
            _ if takes.local || takes.program => 1,
            Some(in_flight) => in_flight,
            None if takes.pipelined && (self.arrivals.is_some() || own.is_open()) => 256,
            None => 1,
        }
    }
}

#[cfg(test)]
mod tests;
