//! The servers of a run: started and filled, asked what they are, stopped.
//!
//! Its invariant: what was started is stopped, whatever happens between.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millpond_press_verdict::Server;

use super::{PAUSE, Run};
use crate::scenario::{ServerPid, TargetPlan};
use crate::server_process::{ServerProcess, Start};
use crate::session::fill;
use crate::{Error, probe, stages, stopped};

/// How long a server may take to close connections.
const QUIET_MAX: Duration = Duration::from_secs(30);

/// A target that runs: its process where the scenario starts one, and what is known of it.
pub(crate) struct Up {
    pub(super) process: Option<ServerProcess>,
    pub(super) server: Option<Server>,
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
            let server = match target.server_pid {
                ServerPid::Of(place) => all.get(place).and_then(|up: &Up| up.server.clone()),
                _ => self.ask_server(target, process.as_ref()),
            };
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
            return Err(Error::Unprepared(format!(
                "{} answers before the server was started: another process listens there; stop it, or choose another port",
                ready.text
            )));
        }
        let process = ServerProcess::start(&Start {
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

    pub(super) async fn stop_all(&self, all: Vec<Up>) -> Result<(), Error> {
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

/// Opens what is called in this process.
fn open(target: &TargetPlan) -> Result<(), Error> {
    let opened = target.prepared.open();
    opened.map_err(|reason| Error::Files(target.name.clone(), reason))
}
