//! Everything that keeps a run from giving a result, and the exit code each case stands for.
//!
//! Trouble of single requests is never here: it is counted and the run goes on.

use std::path::PathBuf;

/// Why there is no result, or no whole one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario file cannot be read.
    #[error("cannot read the scenario {}: {source}; give the path of a scenario file, such as press/scenarios/r1-quick.toml", path.display())]
    ReadScenario {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The scenario, or a `--set` override, says something impossible.
    #[error("{place}: {message}")]
    Scenario {
        /// The file and line, or `--set`.
        place: String,
        /// What is wrong, and the mend.
        message: String,
    },
    /// The requests cannot be made.
    #[error("[requests]: {0}")]
    Requests(#[from] millpond_press_workload::Error),
    /// More connections than files this process may open.
    #[error(
        "{need} need {needed} open files, but the limit here is {allowed}; raise it (`ulimit -n {needed}`, or nofile in \
         limits.conf){}",
        open_files_mend(*enough)
    )]
    OpenFiles {
        /// What needs them: the connections of one process, or the pipes to all of them.
        need: String,
        /// Files that takes in one process.
        needed: u64,
        /// Files this process may have, its hard limit.
        allowed: u64,
        /// The fewest processes with which it would go; nothing where none would do.
        enough: Option<usize>,
    },
    /// Nothing answers at the target's address.
    #[error("no connection to {address}: {reason}; start the server there, or set target.address")]
    Absent {
        /// The address.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The server of `[server]` cannot be started.
    #[error("cannot start the server `{command}`: {source}; check server.command")]
    ServerStart {
        /// The command line.
        command: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server ended before it should.
    #[error("the server ended ({status}) while {doing}; the end of {}:\n{tail}", log.display())]
    ServerEnded {
        /// How it ended.
        status: String,
        /// What the run was doing.
        doing: &'static str,
        /// Where its output is.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// Somebody else answers where the server is about to.
    #[error(
        "{url} answers before the server was started: another process listens there; stop it, or choose another port"
    )]
    ServerAlreadyThere {
        /// What was asked.
        url: String,
    },
    /// The server did not become ready in time.
    #[error("the server is not ready after {seconds} s: {url} says {said}; see {}, or raise server.ready_timeout_s", log.display())]
    ServerNotReady {
        /// How long it had.
        seconds: f64,
        /// What was asked.
        url: String,
        /// The last answer.
        said: String,
        /// Where its output is.
        log: PathBuf,
    },
    /// The server did not end after SIGTERM and had to be killed.
    #[error("the server did not end within {seconds} s of SIGTERM and was killed; see {}, or raise server.stop_timeout_s", log.display())]
    ServerNotStopped {
        /// How long it had.
        seconds: f64,
        /// Where its output is.
        log: PathBuf,
    },
    /// A store could not be opened or filled before the run.
    #[error("cannot prepare the target {target}: {reason}")]
    Fill {
        /// The target's name.
        target: String,
        /// What went wrong.
        reason: String,
    },
    /// A figure that a command gives could not be had.
    #[error("the figure {name}: {reason}")]
    Figure {
        /// Its name.
        name: String,
        /// What went wrong.
        reason: String,
    },
    /// A client thread could not be set up or broke.
    #[error("a client thread failed: {0}")]
    ClientThread(String),
    /// A process of the load generator could not be started, broke or ended.
    #[error("a process of the load generator (load.processes) failed: {0}")]
    ClientProcess(String),
    /// The result folder cannot be written.
    #[error(transparent)]
    Report(#[from] millpond_press_report::Error),
}

fn open_files_mend(enough: Option<usize>) -> String {
    match enough {
        Some(processes) => format!(", or set load.processes = {processes}"),
        None => ", or lower load.connections".into(),
    }
}

impl From<millpond_press_load::Error> for Error {
    fn from(error: millpond_press_load::Error) -> Error {
        match error {
            millpond_press_load::Error::Thread(why) => Error::ClientThread(why),
            millpond_press_load::Error::Schedule(error) => Error::Requests(error),
        }
    }
}

impl Error {
    /// The exit code of a program that ends with this: 2 for what the caller wrote, 3 for a run that could not be made.
    pub fn exit_code(&self) -> u8 {
        use millpond_press_report::Error as Report;
        match self {
            Error::ReadScenario { .. }
            | Error::Scenario { .. }
            | Error::Requests(_)
            | Error::OpenFiles { .. } => 2,
            Error::Report(
                Report::NotEmpty { .. }
                | Report::NotAResult { .. }
                | Report::Missing { .. }
                | Report::Newer { .. }
                | Report::Older { .. }
                | Report::Truncated { .. }
                | Report::BadResult { .. },
            ) => 2,
            _ => 3,
        }
    }
}
