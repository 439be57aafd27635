//! A whole scenario: the folder, the servers, the points, and the result after each of them.
//!
//! Its invariant: from the moment the folder exists, `result.json` in it says how far the run came.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use millpond_press_recorder::{Load, Machine};
use millpond_press_report::{Folder, RunResult, Server, State, compact_utc, report};
use tokio::sync::watch;

use crate::check::Checker;
use crate::client_thread::Plan;
use crate::closed_loop::{Measured, measure};
use crate::probe;
use crate::scenario::{self, Protocol, Scenario, ServerPid};
use crate::server_process::{ServerProcess, Start};
use crate::system::{Cores, raise_open_files};
use crate::target::Target;
use crate::target::binary::Binary;
use crate::target::http::Http;
use crate::{Error, Outcome, RunOptions, describe, stopped};

/// Open files this process needs beside its connections.
const FILES_BESIDE: u64 = 64;

/// The protocol with its prepared requests.
enum Prepared {
    Http(Arc<Http>),
    Binary(Arc<Binary>),
}

struct Run {
    options: RunOptions,
    scenario: Scenario,
    prepared: Prepared,
    checker: Arc<Checker>,
    folder: Folder,
    result: RunResult,
    started: Instant,
    /// Where this process might run before it was bound to `load.client_cpus`.
    cores: Cores,
    stop: watch::Receiver<bool>,
}

pub(crate) async fn run(options: RunOptions, stop: watch::Receiver<bool>) -> Result<Outcome, Error> {
    let mut run = Run::prepare(options, stop)?;
    let walked = run.walk().await;
    run.result.state = match &walked {
        Ok(true) => State::Complete,
        Ok(false) => State::Interrupted,
        Err(error) => {
            run.result.failure = Some(error.to_string());
            State::Failed
        }
    };
    run.save()?;
    walked?;
    Ok(run.outcome())
}

impl Run {
    /// Everything that can be checked before anything is started or sent.
    fn prepare(options: RunOptions, stop: watch::Receiver<bool>) -> Result<Run, Error> {
        let scenario = scenario::load(&options.scenario, &options.set)?;
        let place = options.scenario.display().to_string();
        let bad = |message| Error::Scenario {
            place: place.clone(),
            message,
        };
        check_open_files(&scenario)?;
        let checker =
            Checker::new(&scenario.check, &scenario.requests, scenario.expected.as_ref()).map_err(bad)?;
        let prepared = prepare_requests(&scenario).map_err(bad)?;
        // Before this thread is bound, so that all cores are counted.
        let machine = Machine::read();
        let broken = |error: std::io::Error| Error::ClientThread(error.to_string());
        let cores = Cores::current().map_err(broken)?;
        if let Some((server, _)) = &scenario.server
            && !server.cpus.is_empty()
        {
            check_cores("server.cpus", &server.cpus).map_err(bad)?;
            cores.bind().map_err(broken)?;
        }
        if !scenario.client_cpus.is_empty() {
            check_cores("load.client_cpus", &scenario.client_cpus).map_err(bad)?;
        }
        let now = SystemTime::now();
        let out = options
            .out
            .clone()
            .unwrap_or_else(|| format!("press-results/{}-{}", scenario.name, compact_utc(now)).into());
        let folder = Folder::create(&out, options.force)?;
        folder.write("scenario.toml", scenario.text.as_bytes())?;
        let result = describe::run(&scenario, &checker, &options, machine, now);
        let checker = Arc::new(checker);
        let started = Instant::now();
        let run = Run {
            options,
            scenario,
            prepared,
            checker,
            folder,
            result,
            started,
            cores,
            stop,
        };
        run.folder.save(&run.result)?;
        Ok(run)
    }

    /// Runs every point of every combination; false if it was interrupted.
    async fn walk(&mut self) -> Result<bool, Error> {
        for combination in self.scenario.grid.clone() {
            let mut process = self.start_server(&combination).await?;
            if *self.stop.borrow() {
                self.stop_server(process).await?;
                return Ok(false);
            }
            let server = self.ask_server(process.as_ref());
            for connections in self.scenario.connections.clone() {
                let interrupted = self.point(&combination, connections, server.clone()).await?;
                if let Some(process) = &mut process {
                    process.still_runs("it was under load")?;
                }
                if interrupted {
                    self.stop_server(process).await?;
                    return Ok(false);
                }
            }
            self.stop_server(process).await?;
        }
        Ok(true)
    }

    async fn start_server(
        &mut self,
        combination: &BTreeMap<String, String>,
    ) -> Result<Option<ServerProcess>, Error> {
        let Some((server, ready)) = &self.scenario.server else {
            return Ok(None);
        };
        let mut process = ServerProcess::start(&Start {
            server,
            combination,
            millpond: &self.options.millpond,
            folder: self.folder.path(),
            cores: self.cores,
        })?;
        let mut stop = self.stop.clone();
        tokio::select! {
            up = process.ready(ready, server.ready_timeout_s) => up?,
            () = stopped(&mut stop) => {}
        }
        Ok(Some(process))
    }

    async fn stop_server(&self, process: Option<ServerProcess>) -> Result<(), Error> {
        match (process, &self.scenario.server) {
            (Some(process), Some((server, _))) => process.stop(server).await,
            _ => Ok(()),
        }
    }

    /// What answers, as far as it says so; a server that does not is measured all the same.
    fn ask_server(&self, process: Option<&ServerProcess>) -> Option<Server> {
        let scenario = &self.scenario;
        let started = process.map(|process| Server {
            pid: Some(process.pid()),
            ..Server::default()
        });
        match scenario.server_pid {
            ServerPid::Given(pid) => Some(Server {
                pid: Some(pid),
                ..Server::default()
            }),
            ServerPid::Unknown => started,
            ServerPid::Infos => match probe::infos(scenario.address, &scenario.address_text) {
                Ok(server) => Some(Server {
                    pid: server.pid.or(started.and_then(|server| server.pid)),
                    ..server
                }),
                Err(reason) => {
                    if self.options.progress {
                        eprintln!("press: the server does not say what it is: {reason}");
                    }
                    started
                }
            },
        }
    }

    /// Runs one point and saves the result with it; true if it was interrupted.
    async fn point(
        &mut self,
        combination: &BTreeMap<String, String>,
        connections: usize,
        server: Option<Server>,
    ) -> Result<bool, Error> {
        let pid = server.as_ref().and_then(|server| server.pid);
        let measured = match &self.prepared {
            Prepared::Http(target) => {
                self.measure(target.clone(), combination, connections, pid)
                    .await?
            }
            Prepared::Binary(target) => {
                self.measure(target.clone(), combination, connections, pid)
                    .await?
            }
        };
        let interrupted = measured.interrupted;
        let number = self.result.points.len() + 1;
        let tally = &measured.tally;
        self.folder.write(
            &format!("latency-{number:04}.csv"),
            tally.latency.to_csv().as_bytes(),
        )?;
        if tally.latency_refused.count() > 0 {
            self.folder.write(
                &format!("refused-{number:04}.csv"),
                tally.latency_refused.to_csv().as_bytes(),
            )?;
        }
        let point = describe::point(&self.scenario, number, combination, connections, server, measured);
        self.result.points.push(point);
        self.save()?;
        Ok(interrupted)
    }

    async fn measure<T: Target>(
        &self,
        target: Arc<T>,
        combination: &BTreeMap<String, String>,
        connections: usize,
        server_pid: Option<u32>,
    ) -> Result<Measured, Error> {
        let scenario = &self.scenario;
        let plan = Arc::new(Plan {
            target,
            checker: self.checker.clone(),
            seed: scenario.seed,
            set_len: scenario.requests.len(),
            connections,
            in_flight: scenario.in_flight,
            client_threads: scenario.client_threads.min(connections),
            client_cpus: scenario.client_cpus.clone(),
            amount: scenario.amount,
            warmup_requests: scenario.warmup_requests,
            connect_parallel: scenario.connect_parallel,
        });
        let grid: String = combination
            .iter()
            .map(|(key, value)| format!("{key} = {value}, "))
            .collect();
        let name = format!("{grid}{connections} connections");
        let mut stop = self.stop.clone();
        measure(
            plan,
            (name, &scenario.address_text),
            server_pid,
            &mut stop,
            self.options.progress,
        )
        .await
    }

    fn save(&mut self) -> Result<(), Error> {
        self.result.wall_s = self.started.elapsed().as_secs_f64();
        self.result.load_after = Load::read();
        Ok(self.folder.save(&self.result)?)
    }

    fn outcome(self) -> Outcome {
        let markdown = report(&self.result);
        // What was just written can be written again.
        let json = serde_json::to_string_pretty(&self.result).unwrap_or_default();
        Outcome {
            folder: self.folder.path().to_owned(),
            output: if self.options.json {
                json.clone()
            } else {
                markdown.clone()
            },
            markdown,
            json,
            exit_code: describe::exit_code(&self.result),
            result: self.result,
        }
    }
}

fn prepare_requests(scenario: &Scenario) -> Result<Prepared, String> {
    let (requests, timeout, max) = (&scenario.requests, scenario.timeout, scenario.answer_bytes_max);
    Ok(match scenario.protocol {
        Protocol::Http => {
            let (host, path) = (&scenario.address_text, &scenario.path);
            Prepared::Http(Arc::new(Http::new(
                scenario.address,
                host,
                path,
                requests,
                timeout,
                max,
            )))
        }
        Protocol::Binary => {
            let binary = Binary::new(&scenario.address_text, &scenario.method, requests, timeout, max)?;
            Prepared::Binary(Arc::new(binary))
        }
    })
}

fn check_open_files(scenario: &Scenario) -> Result<(), Error> {
    let connections = scenario.connections.iter().copied().max().unwrap_or(0);
    let needed = connections as u64 + FILES_BESIDE;
    let allowed = raise_open_files(needed).map_err(|error| Error::ClientThread(error.to_string()))?;
    if allowed < needed {
        Err(Error::OpenFiles {
            connections,
            needed,
            allowed,
        })
    } else {
        Ok(())
    }
}

/// Whether this process may run on each of these cores. Binds the calling thread to them.
fn check_cores(key: &str, numbers: &[usize]) -> Result<(), String> {
    for &number in numbers {
        Cores::of(&[number])
            .and_then(|cores| cores.bind())
            .map_err(|error| format!("{key} names core {number}, which cannot be used here ({error})"))?;
    }
    Cores::of(numbers)
        .and_then(|cores| cores.bind())
        .map_err(|error| format!("{key}: {error}"))
}
