//! A whole scenario: the folder, the servers, the points, and the result after each of them.
//!
//! Its invariant: from the moment the folder exists, `result.json` in it says how far the run came.

mod outcome;
mod points;
mod servers;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use millpond_press_load::{Amount, Cores, Offer};
use millpond_press_recorder::{LoadAverage, Machine, write_log};
use millpond_press_report::{Folder, Layout, RunResult, State, compact_utc};
use millpond_press_verdict::{Conditions, Point, comparisons};
use millpond_press_workload::Schedule;
use tokio::sync::watch;

use crate::antagonists::{self, Antagonists};
use crate::bars::{self, Beside};
use crate::grid::{self, Names};
use crate::measure::{Measured, Watched};
use crate::open_files::check_open_files;
use crate::progress::Progress;
use crate::scenario::{self, Scenario, ServerPid};
use crate::server_process::log_name;
use crate::session::{Connecting, Opening, Session, Source};
use crate::{Error, Outcome, RunOptions, describe, external, search};
pub(crate) use servers::Up;

/// Between two points, so that what one left behind in the server does not meet the next.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a point is offered in which the hypervisor took too much.
const STEAL_TRIES: usize = 8;

/// What is asked of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Every point it lists.
    Run,
    /// The highest rate that meets its SLO.
    Search,
}

pub(crate) struct Run {
    pub(crate) options: RunOptions,
    pub(crate) scenario: Scenario,
    folder: Folder,
    /// What bars read beside points.
    beside: Beside,
    pub(crate) result: RunResult,
    started: Instant,
    /// Where this process might run before it was bound to cores.
    cores: Cores,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Which point it is.
#[derive(Debug, Clone)]
pub(crate) struct At<'a> {
    pub(crate) combination: &'a BTreeMap<String, String>,
    pub(crate) target: usize,
    pub(crate) connections: usize,
    pub(crate) rate: Option<f64>,
    /// How many requests, where that is fixed in an open loop.
    pub(crate) requests: Option<u64>,
    /// Whether the target's antagonists run beside it.
    pub(crate) is_disturbed: bool,
    pub(crate) repeat: usize,
}

pub(crate) async fn run(
    options: RunOptions,
    question: Question,
    stop: watch::Receiver<bool>,
) -> Result<Outcome, Error> {
    let mut run = Run::prepare(options, question, stop)?;
    let walked = run.walk(question).await;
    run.result.state = match &walked {
        Ok(true) => State::Complete,
        Ok(false) => State::Interrupted,
        Err(error) => {
            run.result.failure = Some(error.to_string());
            State::Failed
        }
    };
    run.result.comparisons = comparisons(&run.result.points);
    run.save()?;
    run.folder.draw(&run.result)?;
    walked?;
    run.outcome()
}

impl Run {
    /// Everything that can be checked before anything is started or sent.
    fn prepare(options: RunOptions, question: Question, stop: watch::Receiver<bool>) -> Result<Run, Error> {
        let scenario = scenario::load(&options.scenario, &options.set)?;
        let place = options.scenario.display().to_string();
        let bad = |message| Error::Scenario {
            place: place.clone(),
            message,
        };
        if question == Question::Search {
            search::check(&scenario).map_err(bad)?;
        }
        let own = scenario
            .targets
            .iter()
            .filter_map(|target| target.own.connections);
        let most = scenario.load.keys.connections.iter().copied().chain(own).max();
        let most = most.unwrap_or(0);
        check_open_files(most, scenario.load.processes(most), scenario.targets.len())?;
        check_pids(&scenario).map_err(bad)?;
        // Before this thread is bound, so that all cores are counted.
        let machine = Machine::read();
        let broken = |error: std::io::Error| Error::ClientThread(error.to_string());
        let cores = Cores::current().map_err(broken)?;
        for target in &scenario.targets {
            for launch in target.launches() {
                check_cores(&format!("{}.cpus", launch.section), launch.cpus).map_err(bad)?;
            }
        }
        check_cores("load.client_cpus", &scenario.load.keys.client_cpus).map_err(bad)?;
        for target in &scenario.targets {
            check_cores("target.load.client_cpus", &target.own.client_cpus).map_err(bad)?;
            let antagonists = target.antagonists.iter().flat_map(|keys| &keys.cpus).copied();
            check_cores("target.antagonists.cpus", &antagonists.collect::<Vec<_>>()).map_err(bad)?;
        }
        cores.bind().map_err(broken)?;
        let now = SystemTime::now();
        let out = options
            .out
            .clone()
            .unwrap_or_else(|| format!("press-results/{}-{}", scenario.about.name, compact_utc(now)).into());
        let folder = Folder::create(&out, options.force)?;
        folder.write("scenario.toml", scenario.text.as_bytes())?;
        let result = describe::run(&scenario, &options, machine, now);
        let started = Instant::now();
        let run = Run {
            options,
            scenario,
            folder,
            beside: Beside::default(),
            result,
            started,
            cores,
            stop,
        };
        run.folder.save(&run.result)?;
        Ok(run)
    }

    /// Answers the question for every combination of the grid; false if it was interrupted.
    async fn walk(&mut self, question: Question) -> Result<bool, Error> {
        let rounds = match question {
            Question::Run => self.scenario.about.rounds,
            Question::Search => 1,
        };
        for round in 0..rounds {
            for combination in self.scenario.grid.clone() {
                let Some(mut up) = self.start(&combination).await? else {
                    return Ok(false);
                };
                let whole = match question {
                    Question::Run => self.points(&combination, &mut up, round).await,
                    Question::Search => search::walk(self, &combination, &mut up).await,
                };
                let measured = self.figures(true, round).await;
                // What went wrong first is told, also when stopping goes wrong too.
                let stopped = self.stop_all(up).await;
                let whole = whole?;
                stopped?;
                measured?;
                if !whole {
                    return Ok(false);
                }
            }
            self.figures(false, round).await?;
        }
        Ok(true)
    }

    /// Runs the commands that give figures, those that need the servers or those that need them stopped.
    async fn figures(&mut self, serving: bool, round: usize) -> Result<(), Error> {
        let names = Names {
            millpond: &self.options.millpond,
            out: self.folder.path(),
            config: None,
        };
        let none = BTreeMap::new();
        let fill = |word: &str| grid::fill(word, names, &none);
        for figure in self
            .scenario
            .figures
            .iter()
            .filter(|figure| figure.serving == serving)
        {
            let value = external::value(figure, fill, external::TIME_MAX, &mut self.stop).await?;
            let values = self.beside.external.entry(figure.name.clone());
            values
                .or_default()
                .push(((round + 1) * self.scenario.about.repeats, value));
        }
        Ok(())
    }

    /// Opens a target's connections; nothing when someone stopped it meanwhile.
    pub(crate) async fn session(
        &self,
        number: usize,
        connections: usize,
        up: &Up,
    ) -> Result<Option<Session>, Error> {
        let opening = Opening {
            connecting: Connecting {
                target: &self.scenario.targets[number],
                load: &self.scenario.load,
                seed: self.scenario.about.seed,
                connections,
            },
            server_pid: up.server_pid(),
            asks_way: matches!(self.scenario.about.layout, Layout::R2 | Layout::R3),
            source: Source {
                millpond: &self.options.millpond,
                scenario: &self.options.scenario,
                text: &self.scenario.text,
                set: &self.options.set,
                target: number,
            },
            shown: self.options.progress,
        };
        Session::open(&opening, &mut self.stop.clone()).await
    }

    fn offer(&self, at: &At<'_>, amount: Amount) -> Result<Offer, Error> {
        let own = &self.scenario.targets[at.target].own;
        let is_open = self.scenario.load.arrivals.is_some() || own.is_open();
        let load = &self.scenario.load;
        let arrivals = load.arrivals.clone().unwrap_or_default();
        // Repeats play other schedules, all of them derived from the scenario's seed.
        let seed = self.scenario.about.seed.wrapping_add(at.repeat as u64 - 1);
        let amount = match (at.requests, at.rate) {
            (Some(requests), Some(rate)) => {
                Amount::For(Schedule::length_of(&arrivals, rate, requests, seed)?)
            }
            _ => amount,
        };
        Ok(Offer {
            open: is_open.then_some((arrivals, at.rate)),
            think: load.think,
            amount,
            warmup_max: load.warmup_max,
            // A fixed number is sent whole: what waited longest is not left out.
            late_max: at
                .requests
                .map_or(Duration::ZERO, |_| self.scenario.targets[at.target].timeout),
            seed,
        })
    }

    /// Runs one point and saves the result with it; true if it was interrupted.
    pub(crate) async fn point(
        &mut self,
        at: &At<'_>,
        offer: &Offer,
        session: &mut Session,
        up: &mut Up,
    ) -> Result<bool, Error> {
        if !self.result.points.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
        let mut tries = 1;
        let (point, interrupted) = loop {
            let Some((point, interrupted)) = self.offered(at, offer, session, up).await? else {
                // It was stopped in its warm-up: there is nothing to tell.
                return Ok(true);
            };
            let taken = Conditions::steal_percent(&point);
            let is_quiet = self
                .scenario
                .about
                .steal_percent_max
                .is_none_or(|max| taken <= max);
            if is_quiet || interrupted || tries == STEAL_TRIES {
                break (point, interrupted);
            }
            tries += 1;
            if self.options.progress {
                eprintln!("press: the hypervisor took {taken:.0} % of a core; the point is offered again");
            }
        };
        self.result.points.push(point);
        self.save()?;
        if let Some(process) = &up.process {
            process.still_runs("it was under load")?;
        }
        Ok(interrupted)
    }

    /// Offers one load: its point, and whether it was interrupted; nothing when that was before the measurement.
    async fn offered(
        &mut self,
        at: &At<'_>,
        offer: &Offer,
        session: &mut Session,
        up: &Up,
    ) -> Result<Option<(Point, bool)>, Error> {
        let target = &self.scenario.targets[at.target];
        let antagonists = self.disturb(at, offer).await?;
        let watched = Watched {
            server_pid: up.server_pid(),
            port: target.address.map(|address| address.port()),
            metrics: target.metrics.clone(),
            antagonists: antagonists.as_ref().map(Antagonists::pids).unwrap_or_default(),
        };
        let name = describe::name(&self.scenario, at);
        let mut progress = Progress::new(self.options.progress, name);
        let measured = session.offer(offer, &watched, &mut progress, &self.stop).await?;
        if let Some(antagonists) = antagonists {
            antagonists.still_run()?;
        }
        let interrupted = measured.point.interrupted;
        if interrupted && measured.handover.sent == 0 {
            return Ok(None);
        }
        let number = self.result.points.len() + 1;
        self.write_latencies(number, &measured)?;
        for (_, sample) in bars::metrics(&self.scenario.bars)
            .into_iter()
            .filter(|(named, _)| *named == target.name)
        {
            let (before, after) = &measured.pages;
            if let Some(found) = before.sample_until(after, &sample) {
                self.beside.metrics.insert((number, sample), found);
            }
        }
        let (threads, held) = (session.client_threads(), session.held(&measured));
        let server = up.server.clone();
        let seen = describe::Seen {
            server,
            held,
            client_threads: threads,
        };
        let point = describe::point(&self.scenario, at, offer, number, seen, measured);
        Ok(Some((point, interrupted)))
    }

    /// Starts what is to run beside a load, and gives it time to be where it will be.
    async fn disturb(&self, at: &At<'_>, offer: &Offer) -> Result<Option<Antagonists>, Error> {
        let target = &self.scenario.targets[at.target];
        let Some(keys) = target.antagonists.as_ref().filter(|_| at.is_disturbed) else {
            return Ok(None);
        };
        let name = log_name(Some(&target.name), at.combination);
        let log = self.folder.path().join(format!("antagonists-{name}.log"));
        let length = match offer.amount {
            Amount::For(length) => length,
            // The scenario's check has refused a command that needs it.
            Amount::Requests(_) => Duration::ZERO,
        };
        // A request may be sent at the end of its time, and then have as much for its answer.
        let longest = offer.warmup_max + length + target.timeout * 2;
        let antagonists = Antagonists::start(keys, longest, &log)?;
        tokio::time::sleep(antagonists::SETTLE).await;
        Ok(Some(antagonists))
    }

    /// The point that was run last.
    pub(crate) fn last(&self) -> Option<&Point> {
        self.result.points.last()
    }

    fn write_latencies(&self, number: usize, measured: &Measured) -> Result<(), Error> {
        let tally = &measured.handover.tally;
        let tagged: Vec<(String, &_)> = measured
            .handover
            .threads
            .iter()
            .enumerate()
            .map(|(at, tally)| (format!("thread-{at}"), tally))
            .collect();
        let mut log = Vec::new();
        // Writing to memory fails for no reason that would not be one of the disk's a line below.
        let _ = write_log(&mut log, measured.started_at, &tagged);
        self.folder.write(&format!("latency-{number:04}.hlog"), &log)?;
        let csv = tally.latency.to_csv();
        self.folder
            .write(&format!("latency-{number:04}.csv"), csv.as_bytes())?;
        if tally.latency_refused.count() > 0 {
            let csv = tally.latency_refused.to_csv();
            self.folder
                .write(&format!("refused-{number:04}.csv"), csv.as_bytes())?;
        }
        Ok(())
    }

    fn save(&mut self) -> Result<(), Error> {
        self.result.wall_s = self.started.elapsed().as_secs_f64();
        self.result.load_after = LoadAverage::read();
        Ok(self.folder.save(&self.result)?)
    }
}

fn check_pids(scenario: &Scenario) -> Result<(), String> {
    for target in &scenario.targets {
        if let ServerPid::Given(pid) = target.server_pid
            && !std::path::Path::new(&format!("/proc/{pid}")).exists()
        {
            return Err(format!(
                "target.server_pid is {pid}, but there is no such process here; leave it out for a server on another machine"
            ));
        }
    }
    Ok(())
}

/// Whether this process may run on each of these cores. Binds the calling thread to them.
fn check_cores(key: &str, numbers: &[usize]) -> Result<(), String> {
    for &number in numbers {
        Cores::of(&[number])
            .and_then(|cores| cores.bind())
            .map_err(|error| format!("{key} names core {number}, which cannot be used here ({error})"))?;
    }
    Ok(())
}
