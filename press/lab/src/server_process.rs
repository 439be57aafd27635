//! The server of a `[server]` section: started on its cores, waited for, stopped; its output kept in the result folder.
//!
//! Its invariant: when a [`ServerProcess`] is gone, so is its process (`millpond_fleet`).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::Error;
use crate::grid::{self, Names};
use crate::namespace::Namespace;
use crate::probe::Ready;
use crate::scenario::{Launch, Server};
use millpond_fleet::Process;
use millpond_press_load::{Cores, ProgramStart};

/// How often the server is asked whether it is ready, or looked at whether it ended.
const POLL: Duration = Duration::from_millis(20);
/// How much of an output an error repeats.
const TAIL_LINES: usize = 12;

pub(crate) struct ServerProcess {
    process: Process,
    log: PathBuf,
}

/// What a server or a program is started with.
pub(crate) struct Start<'a> {
    pub(crate) launch: Launch<'a>,
    pub(crate) combination: &'a BTreeMap<String, String>,
    pub(crate) millpond: &'a Path,
    pub(crate) folder: &'a Path,
    /// The target's name, where there are several: it names the log.
    pub(crate) target: Option<&'a str>,
    /// Where it may run when its `cpus` is empty.
    pub(crate) cores: Cores,
    /// The network namespace that it runs in, where it has one.
    pub(crate) namespace: Option<&'a Namespace>,
}

impl Start<'_> {
    fn fill(&self, text: &str) -> String {
        let names = Names {
            millpond: self.millpond,
            out: self.folder,
            config: self.launch.config,
        };
        grid::fill(text, names, self.combination)
    }

    fn words(&self, words: &[String]) -> Vec<String> {
        words.iter().map(|word| self.fill(word)).collect()
    }

    fn failed(&self, words: &[String]) -> impl Fn(std::io::Error) -> Error {
        let (command, what) = (self.words(words).join(" "), self.launch.section);
        move |source| Error::ServerStart {
            what,
            command: command.clone(),
            source,
        }
    }

    fn command(&self, words: &[String], output: &File) -> std::io::Result<Command> {
        let words = self.words(words);
        let mut command = Command::new(words.first().map_or("", String::as_str));
        command
            .args(words.iter().skip(1))
            .envs(self.env())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?);
        Ok(command)
    }

    fn env(&self) -> Vec<(String, String)> {
        let env = self.launch.env.iter();
        env.map(|(key, value)| (key.clone(), self.fill(value))).collect()
    }

    /// The cores that it is bound to.
    fn cores(&self) -> std::io::Result<Cores> {
        match self.launch.cpus {
            [] => Ok(self.cores),
            cpus => Cores::of(cpus),
        }
    }

    /// Its log, which holds what the commands before it printed.
    fn prepared(&self) -> Result<(PathBuf, File), Error> {
        let log = self.folder.join(format!(
            "{}-{}.log",
            self.launch.section,
            log_name(self.target, self.combination)
        ));
        let output = File::create(&log).map_err(self.failed(self.launch.command))?;
        for words in self.launch.prepare {
            self.prepare(words, &output, &log)?;
        }
        Ok((log, output))
    }

    /// A program, made ready to be started by who speaks with it.
    pub(crate) fn program(&self, ready_timeout_s: f64) -> Result<ProgramStart, Error> {
        let (log, _) = self.prepared()?;
        Ok(ProgramStart {
            words: self.words(self.launch.command),
            env: self.env(),
            cores: self.cores().map_err(self.failed(self.launch.command))?,
            log,
            ready_max: Duration::from_secs_f64(ready_timeout_s),
        })
    }

    /// Runs one command to its end.
    fn prepare(&self, words: &[String], output: &File, log: &Path) -> Result<(), Error> {
        let failed = self.failed(words);
        let mut command = self.command(words, output).map_err(&failed)?;
        let status = command.status().map_err(&failed)?;
        if status.success() {
            return Ok(());
        }
        Err(Error::ServerEnded {
            status: status.to_string(),
            what: self.launch.section,
            doing: "it was prepared (`prepare`)",
            log: log.to_owned(),
            tail: tail(log),
        })
    }
}

impl ServerProcess {
    /// Runs what is to be run before the server, then starts it; it is not ready yet.
    pub(crate) fn start(start: &Start<'_>) -> Result<ServerProcess, Error> {
        let (log, output) = start.prepared()?;
        let failed = start.failed(start.launch.command);
        let prefix = start.namespace.map(Namespace::prefix);
        let words: Vec<String> = prefix
            .into_iter()
            .flatten()
            .chain(start.launch.command.iter().cloned())
            .collect();
        let mut command = start.command(&words, &output).map_err(&failed)?;
        let cores = start.cores().map_err(&failed)?;
        let process = Process::start_bound(&mut command, || cores.bind()).map_err(&failed)?;
        Ok(ServerProcess { process, log })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits until the server says 200 at its `ready` URL.
    pub(crate) async fn ready(&self, url: &Ready, timeout_s: f64) -> Result<(), Error> {
        let deadline = Instant::now() + Duration::from_secs_f64(timeout_s);
        loop {
            self.still_runs("it was getting ready")?;
            let said = match url.check() {
                Ok(()) => return Ok(()),
                Err(reason) => reason,
            };
            if Instant::now() >= deadline {
                let (url, log) = (&url.text, self.log.display());
                return Err(Error::Unprepared(format!(
                    "the server is not ready after {timeout_s} s: {url} says {said}; see {log}, or raise server.ready_timeout_s"
                )));
            }
            sleep(POLL).await;
        }
    }

    /// An error if the process has ended.
    pub(crate) fn still_runs(&self, doing: &'static str) -> Result<(), Error> {
        self.process
            .ended()
            .map_or(Ok(()), |status| Err(self.ended(status, doing)))
    }

    /// Asks it to end and waits; a server that does not is killed, and that is an error.
    pub(crate) async fn stop(self, server: &Server) -> Result<(), Error> {
        self.still_runs("it was still needed")?;
        self.process.terminate();
        let deadline = Instant::now() + Duration::from_secs_f64(server.stop_timeout_s);
        while self.process.ended().is_none() {
            if Instant::now() >= deadline {
                let (seconds, log) = (server.stop_timeout_s, self.log.display());
                return Err(Error::Unprepared(format!(
                    "the server did not end within {seconds} s of SIGTERM and was killed; see {log}, or raise server.stop_timeout_s"
                )));
            }
            sleep(POLL).await;
        }
        self.shorten_output(server.output_bytes_max);
        Ok(())
    }

    /// A request log of millions of lines is not worth keeping; the start of it is. Failing to shorten it does no harm.
    fn shorten_output(&self, bytes_max: u64) {
        if let Ok(file) = File::options().write(true).open(&self.log)
            && file.metadata().is_ok_and(|metadata| metadata.len() > bytes_max)
        {
            let _ = file.set_len(bytes_max);
        }
    }

    fn ended(&self, status: ExitStatus, doing: &'static str) -> Error {
        Error::ServerEnded {
            status: status.to_string(),
            what: "server",
            doing,
            log: self.log.clone(),
            tail: tail(&self.log),
        }
    }
}

/// The last lines of a log.
pub fn tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// A name for the log of one server: `redis-log_level-2`, or `run` where there is one target and no grid.
pub(crate) fn log_name(target: Option<&str>, combination: &BTreeMap<String, String>) -> String {
    let values = combination.iter().map(|(key, value)| format!("{key}-{value}"));
    let parts: Vec<String> = target.map(str::to_owned).into_iter().chain(values).collect();
    if parts.is_empty() {
        return "run".into();
    }
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    parts.join("-").chars().map(plain).collect()
}
