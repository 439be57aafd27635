//! A whole scenario: the folder, the servers, the points, and the result after each of them.
//!
//! Its invariant: from the moment the folder exists, `result.json` in it says how far the run came.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use millpond_press_recorder::{Load as MachineLoad, Machine, write_log};
use millpond_press_report::{Folder, Layout, RunResult, State, compact_utc, report, terminal};
use millpond_press_verdict::{Point, Server, comparisons, exit_code};
use tokio::sync::watch;

use crate::measure::{Measured, Watched};
use crate::open_files::check_open_files;
use crate::probe;
use crate::progress::Progress;
use crate::scenario::{self, Scenario, ServerPid, TargetPlan};
use crate::server_process::{ServerProcess, Start};
use crate::session::{Connecting, Opening, Session, Source, fill};
use crate::{Error, Outcome, RunOptions, describe, search, stopped};
use millpond_press_load::Cores;
use millpond_press_load::{Amount, Offer};

/// Between two points, so that what one left behind in the server does not meet the next.
const PAUSE: Duration = Duration::from_millis(100);

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
    pub(crate) result: RunResult,
    started: Instant,
    /// Where this process might run before it was bound to cores.
    cores: Cores,
    pub(crate) stop: watch::Receiver<bool>,
}

/// A target that runs: its process where the scenario starts one, and what is known of it.
pub(crate) struct Up {
    process: Option<ServerProcess>,
    server: Option<Server>,
}

impl Up {
    /// The server's process, or the parent of its processes.
    fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().and_then(|server| server.pid)
    }
}

/// Which point it is.
#[derive(Debug, Clone)]
pub(crate) struct At<'a> {
    pub(crate) combination: &'a BTreeMap<String, String>,
    pub(crate) target: usize,
    pub(crate) connections: usize,
    pub(crate) rate: Option<f64>,
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
    Ok(run.outcome())
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
        let most = scenario.load.connections.iter().copied().max().unwrap_or(0);
        check_open_files(most, scenario.load.processes(most), scenario.targets.len())?;
        check_pids(&scenario).map_err(bad)?;
        // Before this thread is bound, so that all cores are counted.
        let machine = Machine::read();
        let broken = |error: std::io::Error| Error::ClientThread(error.to_string());
        let cores = Cores::current().map_err(broken)?;
        for target in &scenario.targets {
            if let Some((server, _)) = &target.server {
                check_cores("server.cpus", &server.cpus).map_err(bad)?;
            }
        }
        check_cores("load.client_cpus", &scenario.load.client_cpus).map_err(bad)?;
        cores.bind().map_err(broken)?;
        let now = SystemTime::now();
        let out = options
            .out
            .clone()
            .unwrap_or_else(|| format!("press-results/{}-{}", scenario.name, compact_utc(now)).into());
        let folder = Folder::create(&out, options.force)?;
        folder.write("scenario.toml", scenario.text.as_bytes())?;
        let result = describe::run(&scenario, &options, machine, now);
        let started = Instant::now();
        let run = Run {
            options,
            scenario,
            folder,
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
        for combination in self.scenario.grid.clone() {
            let Some(mut up) = self.start(&combination).await? else {
                return Ok(false);
            };
            let whole = match question {
                Question::Run => self.points(&combination, &mut up).await,
                Question::Search => search::walk(self, &combination, &mut up).await,
            };
            // What went wrong first is told, also when stopping goes wrong too.
            let stopped = self.stop_all(up).await;
            let whole = whole?;
            stopped?;
            if !whole {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Starts and fills every target; nothing when someone stopped it meanwhile.
    async fn start(&mut self, combination: &BTreeMap<String, String>) -> Result<Option<Vec<Up>>, Error> {
        let mut all = Vec::new();
        for number in 0..self.scenario.targets.len() {
            let process = self.start_server(combination, number).await?;
            let target = &self.scenario.targets[number];
            if *self.stop.borrow() {
                all.push(Up {
                    process,
                    server: None,
                });
                self.stop_all(all).await?;
                return Ok(None);
            }
            let server = self.ask_server(target, process.as_ref());
            open(target)?;
            fill(target, self.options.progress)?;
            all.push(Up { process, server });
        }
        Ok(Some(all))
    }

    async fn start_server(
        &self,
        combination: &BTreeMap<String, String>,
        number: usize,
    ) -> Result<Option<ServerProcess>, Error> {
        let target = &self.scenario.targets[number];
        let Some((server, ready)) = &target.server else {
            return Ok(None);
        };
        if ready.check().is_ok() {
            let url = ready.text.clone();
            return Err(Error::ServerAlreadyThere { url });
        }
        let mut process = ServerProcess::start(&Start {
            server,
            combination,
            millpond: &self.options.millpond,
            folder: self.folder.path(),
            target: (self.scenario.targets.len() > 1).then_some(target.name.as_str()),
            cores: self.cores,
        })?;
        let mut stop = self.stop.clone();
        tokio::select! {
            up = process.ready(ready, server.ready_timeout_s) => up?,
            () = stopped(&mut stop) => {}
        }
        Ok(Some(process))
    }

    async fn stop_all(&self, all: Vec<Up>) -> Result<(), Error> {
        let mut ended = Ok(());
        for (up, target) in all.into_iter().zip(&self.scenario.targets) {
            if let (Some(process), Some((server, _))) = (up.process, &target.server) {
                ended = ended.and(process.stop(server).await);
            }
        }
        ended
    }

    /// What answers, as far as it says so; a server that does not is measured all the same.
    fn ask_server(&self, target: &TargetPlan, process: Option<&ServerProcess>) -> Option<Server> {
        let started = process.map(|process| Server {
            pid: Some(process.pid()),
            ..Server::default()
        });
        let address = target.address?;
        match target.server_pid {
            ServerPid::Given(pid) => Some(Server {
                pid: Some(pid),
                ..Server::default()
            }),
            ServerPid::Unknown => started,
            ServerPid::Infos => match probe::infos(address, &target.address_text) {
                Ok(server) => Some(Server {
                    pid: server.pid.or(started.and_then(|server| server.pid)),
                    ..server
                }),
                Err(reason) => {
                    if self.options.progress {
                        eprintln!("press: {}: it does not say what it is: {reason}", target.name);
                    }
                    started
                }
            },
        }
    }

    /// Every point of one combination: targets take turns within a load, so that a drift of the machine meets all of them.
    async fn points(&mut self, combination: &BTreeMap<String, String>, up: &mut [Up]) -> Result<bool, Error> {
        for connections in self.scenario.load.connections.clone() {
            let mut sessions = Vec::new();
            for (number, up) in up.iter().enumerate() {
                match self.session(number, connections, up).await? {
                    Some(session) => sessions.push(session),
                    None => return Ok(false),
                }
            }
            for repeat in 1..=self.scenario.repeats {
                for step in self.scenario.load.steps(connections) {
                    let mut order: Vec<usize> = (0..up.len()).collect();
                    if repeat % 2 == 0 {
                        order.reverse();
                    }
                    for target in order {
                        let at = At {
                            combination,
                            target,
                            connections,
                            rate: step.rate,
                            repeat,
                        };
                        let offer = self.offer(&at, step.amount(self.scenario.load.amount));
                        let interrupted = self
                            .point(&at, &offer, &mut sessions[target], &mut up[target])
                            .await?;
                        if interrupted {
                            return Ok(false);
                        }
                    }
                    let slo = self.last().and_then(|point| point.slo.as_ref());
                    if self.scenario.load.until_missed && slo.is_some_and(|slo| !slo.met) {
                        break;
                    }
                }
            }
        }
        Ok(true)
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
                seed: self.scenario.seed,
                connections,
            },
            server_pid: up.server_pid(),
            asks_way: self.scenario.layout == Layout::R3,
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

    fn offer(&self, at: &At<'_>, amount: Amount) -> Offer {
        let load = &self.scenario.load;
        Offer {
            open: load.arrivals.clone().map(|arrivals| (arrivals, at.rate)),
            think: load.think,
            amount,
            warmup_max: load.warmup_max,
            // Repeats play other schedules, all of them derived from the scenario's seed.
            seed: self.scenario.seed.wrapping_add(at.repeat as u64 - 1),
        }
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
        let target = &self.scenario.targets[at.target];
        let watched = Watched {
            server_pid: up.server_pid(),
            port: target.address.map(|address| address.port()),
            metrics: target.metrics.clone(),
        };
        let name = describe::name(&self.scenario, at);
        let mut progress = Progress::new(self.options.progress, name);
        let measured = session.offer(offer, &watched, &mut progress, &self.stop).await?;
        let interrupted = measured.interrupted;
        if interrupted && measured.handover.sent == 0 {
            // It was stopped in its warm-up: there is nothing to tell.
            return Ok(true);
        }
        let number = self.result.points.len() + 1;
        self.write_latencies(number, &measured)?;
        let threads = session.client_threads();
        let held = session.held(&measured);
        let mut point = describe::point(
            &self.scenario,
            at,
            offer,
            number,
            up.server.clone(),
            threads,
            measured,
        );
        point.held = held;
        self.result.points.push(point);
        self.save()?;
        if let Some(process) = &mut up.process {
            process.still_runs("it was under load")?;
        }
        Ok(interrupted)
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
        self.result.load_after = MachineLoad::read();
        Ok(self.folder.save(&self.result)?)
    }

    fn outcome(self) -> Outcome {
        let result = self.result;
        let markdown = report(&result);
        let text = terminal(&result);
        // What was just written can be written again.
        let json = serde_json::to_string_pretty(&result).unwrap_or_default();
        let exit_code = match result.state {
            State::Complete => exit_code(
                &result.points,
                result.search.as_ref(),
                self.scenario.load.until_missed,
            ),
            _ => 3,
        };
        Outcome {
            folder: self.folder.path().to_owned(),
            output: if self.options.json { json.clone() } else { text },
            markdown,
            json,
            exit_code,
            result,
        }
    }
}

/// Opens what is called in this process.
fn open(target: &TargetPlan) -> Result<(), Error> {
    target.prepared.open().map_err(|reason| Error::Fill {
        target: target.name.clone(),
        reason,
    })
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
