//! The servers of a run: started and filled, asked what they are, stopped.
//!
//! Its invariant: what was started is stopped, whatever happens between.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millpond_press_report::{BESIDE_ANTAGONISTS, LeftOut};
use millpond_press_verdict::Server;

use super::{PAUSE, Run};
use crate::namespace::Namespace;
use crate::scenario::{Launch, ServerPid, TargetPlan};
use crate::server_process::{ServerProcess, Start};
use crate::session::fill;
use crate::{Error, antagonists, probe, stages, stopped};

/// How long a server may take to close connections.
const QUIET_MAX: Duration = Duration::from_secs(30);

/// A target that runs: its process where the scenario starts one, and what is known of it.
#[derive(Default)]
pub(crate) struct Up {
    pub(super) process: Option<ServerProcess>,
    /// The network that it is reached over; it goes when the process has gone.
    pub(super) namespace: Option<Namespace>,
    pub(super) server: Option<Server>,
    /// Whether it could not be started, and the run goes on without it.
    pub(super) left_out: bool,
    /// Whether its loads are offered beside antagonists too.
    pub(super) has_antagonists: bool,
}

impl Up {
    /// The server's process, or the parent of its processes.
    pub(super) fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().and_then(|server| server.pid)
    }
}

impl Run {
    /// Starts and fills every target; nothing when someone stopped it meanwhile.
    pub(super) async fn start(
        &mut self,
        combination: &BTreeMap<String, String>,
    ) -> Result<Option<Vec<Up>>, Error> {
        let mut all = Vec::new();
        for number in 0..self.scenario.targets.len() {
            let up = match self.start_target(combination, number, &all).await {
                Err(error) if self.scenario.targets[number].optional => {
                    self.leave_out(number, combination, &error);
                    Up {
                        left_out: true,
                        ..Up::default()
                    }
                }
                up => Up {
                    has_antagonists: self.has_antagonists(number, combination),
                    ..up?
                },
            };
            all.push(up);
            if *self.stop.borrow() {
                self.stop_all(all).await?;
                return Ok(None);
            }
        }
        if !all.is_empty() && all.iter().all(|up| up.left_out) {
            return Err(Error::Unprepared(
                "no target is left: all of them are optional, and none could be started".into(),
            ));
        }
        Ok(Some(all))
    }

    async fn start_target(
        &self,
        combination: &BTreeMap<String, String>,
        number: usize,
        before: &[Up],
    ) -> Result<Up, Error> {
        let target = &self.scenario.targets[number];
        let keys = target
            .server
            .as_ref()
            .and_then(|(server, _)| server.namespace.as_ref());
        let namespace = keys.map(Namespace::make).transpose()?;
        let process = self.start_server(combination, number, namespace.as_ref()).await?;
        let mut up = Up {
            process,
            namespace,
            ..Up::default()
        };
        if *self.stop.borrow() {
            return Ok(up);
        }
        let target = &self.scenario.targets[number];
        up.server = match target.server_pid {
            ServerPid::Of(place) => {
                let of = before.get(place).filter(|up| !up.left_out);
                let absent = || Error::Unprepared("the target whose server it has was left out".into());
                of.ok_or_else(absent)?.server.clone()
            }
            _ => self.ask_server(target, up.process.as_ref()),
        };
        self.open(combination, number)?;
        fill(target, self.options.progress)?;
        Ok(up)
    }

    /// Whether a target's antagonists can be run here; if not, that is noted, and its loads are offered without.
    fn has_antagonists(&mut self, number: usize, combination: &BTreeMap<String, String>) -> bool {
        let target = &self.scenario.targets[number];
        let Some(keys) = &target.antagonists else {
            return false;
        };
        match antagonists::absent(keys) {
            None => true,
            Some(reason) => {
                let what = format!("{}{BESIDE_ANTAGONISTS}", target.name);
                self.note_left_out(what, combination, reason);
                false
            }
        }
    }

    /// Notes that the run goes on without a target.
    pub(super) fn leave_out(&mut self, number: usize, combination: &BTreeMap<String, String>, error: &Error) {
        let target = self.scenario.targets[number].name.clone();
        self.note_left_out(target, combination, error.in_a_line());
    }

    fn note_left_out(&mut self, target: String, combination: &BTreeMap<String, String>, reason: String) {
        if self.options.progress {
            eprintln!("press: {target} is left out: {reason}");
        }
        self.result.left_out.push(LeftOut {
            target,
            grid: combination.clone(),
            reason,
        });
    }

    /// What a server or a program of a target is started with.
    fn starting<'a>(
        &'a self,
        launch: Launch<'a>,
        combination: &'a BTreeMap<String, String>,
        number: usize,
    ) -> Start<'a> {
        let name = self.scenario.targets[number].name.as_str();
        Start {
            launch,
            combination,
            millpond: &self.options.millpond,
            folder: self.folder.path(),
            target: (self.scenario.targets.len() > 1).then_some(name),
            cores: self.cores,
            namespace: None,
        }
    }

    /// Opens what is called in this process, and makes a program ready to be started.
    fn open(&self, combination: &BTreeMap<String, String>, number: usize) -> Result<(), Error> {
        let target = &self.scenario.targets[number];
        let program = target.program.as_ref().map(|program| {
            self.starting(program.launch(), combination, number)
                .program(program.ready_timeout_s)
        });
        let opened = target.prepared.open(program.transpose()?.as_ref());
        opened.map_err(|reason| Error::Files(target.name.clone(), reason))
    }

    async fn start_server(
        &self,
        combination: &BTreeMap<String, String>,
        number: usize,
        namespace: Option<&Namespace>,
    ) -> Result<Option<ServerProcess>, Error> {
        let target = &self.scenario.targets[number];
        let Some((server, ready)) = &target.server else {
            return Ok(None);
        };
        if ready.check().is_ok() {
            return Err(Error::Unprepared(format!(
                "{} answers before the server was started: another process listens there; stop it, or choose another port",
                ready.text
            )));
        }
        let start = Start {
            namespace,
            ..self.starting(server.launch(), combination, number)
        };
        let process = ServerProcess::start(&start)?;
        let mut stop = self.stop.clone();
        tokio::select! {
            up = process.ready(ready, server.ready_timeout_s) => up?,
            () = stopped(&mut stop) => {}
        }
        Ok(Some(process))
    }

    pub(super) async fn stop_all(&self, all: Vec<Up>) -> Result<(), Error> {
        let mut ended = Ok(());
        for (up, target) in all.into_iter().zip(&self.scenario.targets) {
            if let (Some(process), Some((server, _))) = (up.process, &target.server) {
                ended = ended.and(process.stop(server).await);
            }
            drop(up.namespace);
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
            ServerPid::Unknown | ServerPid::Of(_) => started,
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

    /// Waits until the server has closed the connections of the point before, as far as its metrics tell.
    pub(super) async fn wait_quiet(&self, target: usize) {
        tokio::time::sleep(PAUSE).await;
        let Some(metrics) = &self.scenario.targets[target].metrics else {
            return;
        };
        let deadline = Instant::now() + QUIET_MAX;
        while stages::Totals::read(metrics).connections().unwrap_or(0) > 0 && Instant::now() < deadline {
            tokio::time::sleep(PAUSE).await;
        }
    }
}
