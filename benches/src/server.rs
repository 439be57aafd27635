//! A server of a bar's own: started on its core with free ports, watched over the admin port alone, stopped.
//!
//! Servers that a press scenario starts are the press's. Its invariant: nothing here sends anything to the data port.

use crate::cores;
use crate::setup::Setup;
use anyhow::{Context as _, bail};
use millpond_fleet::Process;
use millpond_press_load::{Connection, Request};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const READY_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// Of an exchange over HTTP: its time, and bytes of its answer.
pub(crate) const HTTP_LIMITS: (Duration, usize) = (Duration::from_secs(30), 8 << 20);

/// A running server.
pub(crate) struct Server {
    process: Process,
    log: PathBuf,
    /// Host and port of the data port, and of the admin port.
    pub(crate) address: String,
    admin: String,
}

impl Server {
    /// Starts a server on [`cores::SERVER`] and waits until `/readyz` says 200; `name` names its output's file.
    pub(crate) fn start(setup: &Setup, name: &str, config: &str, set: &[&str]) -> anyhow::Result<Server> {
        let log = setup.out.join(format!("server-{name}.log"));
        let mut command = Command::new(&setup.millpond);
        command.args(["serve", "--config", config]);
        let own = ["server.listen=127.0.0.1:0", "admin.listen=127.0.0.1:0"];
        for pair in own.iter().chain(set) {
            command.args(["--set", pair]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(&log).with_context(|| format!("cannot write {}", log.display()))?);
        // A process inherits the cores of the thread that starts it, as with `taskset -c 0`.
        let process = cores::on(cores::SERVER, || {
            Process::start(&mut command).context("cannot start the server")
        })?;
        let mut server = Server {
            process,
            log,
            address: String::new(),
            admin: String::new(),
        };
        server.read_addresses()?;
        server.ready()?;
        Ok(server)
    }

    fn read_addresses(&mut self) -> anyhow::Result<()> {
        let mut line = String::new();
        if let Some(stdout) = self.process.take_output() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let words = line.trim().strip_prefix("millpond serves on ");
        let Some((address, admin)) = words.and_then(|rest| rest.split_once(", health and metrics on "))
        else {
            bail!(
                "the server did not start, see {}; it said {line:?}",
                self.log.display()
            );
        };
        (self.address, self.admin) = (address.to_owned(), admin.to_owned());
        Ok(())
    }

    fn ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_MAX;
        while self.get("/readyz")?.0 != 200 {
            if Instant::now() >= deadline {
                bail!(
                    "the server is not ready after {} s, see {}",
                    READY_MAX.as_secs(),
                    self.log.display()
                );
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let (verb, body) = ("GET", b"".as_slice());
        let request = Request { verb, path, body };
        let mut admin = Connection::open(self.admin.parse()?, HTTP_LIMITS).map_err(anyhow::Error::msg)?;
        let answer = admin.exchange(&request.written(&self.admin));
        let (status, body) = answer.map_err(anyhow::Error::msg)?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// `/metrics`, now.
    pub(crate) fn metrics(&self) -> anyhow::Result<Exposition> {
        match self.get("/metrics")? {
            (200, page) => Ok(Exposition(page)),
            (status, _) => bail!("/metrics answers with status {status}"),
        }
    }

    /// Ends it with SIGTERM: it finishes what it accepted, writes its log, and must say that all went well.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        let log = self.log.clone();
        let (status, _) = self.end()?;
        anyhow::ensure!(
            status.success(),
            "the server ended with {status}, see {}",
            log.display()
        );
        Ok(())
    }

    /// Ends it with SIGTERM, however that goes: its status, and how long it took.
    pub(crate) fn end(self) -> anyhow::Result<(ExitStatus, Duration)> {
        let started = Instant::now();
        self.process.terminate();
        match self.process.ended_by(started + STOP_MAX) {
            Some(status) => Ok((status, started.elapsed())),
            None => bail!(
                "the server did not end within {} s of SIGTERM",
                STOP_MAX.as_secs()
            ),
        }
    }
}

/// A page of `/metrics` as it was fetched. A sample that is not on it is an error that names it, never a zero.
pub(crate) struct Exposition(String);

impl Exposition {
    /// The value of a sample, named with its labels: `millpond_calls_total{method="infer"}`.
    pub(crate) fn value(&self, sample: &str) -> anyhow::Result<f64> {
        let mut found = self.0.lines().filter_map(|line| line.rsplit_once(' '));
        let (_, value) = found
            .find(|(name, _)| *name == sample)
            .with_context(|| format!("/metrics has no sample {sample}"))?;
        value
            .parse()
            .with_context(|| format!("/metrics: {sample} is {value:?}, no number"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn samples_are_found_whole() {
        let page = Exposition("# HELP a_total About a.\na_total 3\na{m=\"x\"} 1.5\na{m=\"y\"} 2e-3\n".into());
        assert_eq!(page.value("a_total").unwrap(), 3.0);
        assert_eq!(page.value("a{m=\"y\"}").unwrap(), 0.002);
        assert!(page.value("a").is_err());
    }
}
