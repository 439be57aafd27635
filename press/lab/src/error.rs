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
        /// What is wrong, and a hint.
        message: String,
    },
    /// The requests cannot be made.
    #[error("[requests]: {0}")]
    Requests(#[from] millpond_press_workload::Error),
    /// More connections than files this process may open.
    #[error(
        "{need} need {needed} open files, but the limit here is {allowed}; raise it (`ulimit -n {needed}`, or nofile in \
         limits.conf){}",
        open_files_hint(*enough)
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
    #[error("cannot start the {what} `{command}`: {source}; check {what}.command")]
    ServerStart {
        /// `server` or `program`.
        what: &'static str,
        /// The command line.
        command: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A server ended before it should, or a command that was run before it or before a program failed.
    #[error("the {what} ended ({status}) while {doing}; the end of {}:\n{tail}", log.display())]
    ServerEnded {
        /// How it ended.
        status: String,
        /// `server` or `program`.
        what: &'static str,
        /// What the run was doing.
        doing: &'static str,
        /// Where its output is.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// What a target in this process is to open, or to do with it, is not as the scenario says.
    #[error("target {0}: {1}")]
    Files(String, String),
    /// The servers or what they hold could not be made ready, or ended; in words, with what to do.
    #[error("{0}")]
    Unprepared(String),
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

fn open_files_hint(enough: Option<usize>) -> String {
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
    /// A store could not be filled before the run.
    pub(crate) fn target(name: &str, reason: &str) -> Error {
        Error::Unprepared(format!("cannot prepare the target {name}: {reason}"))
    }

    /// The same in a line, without what a log repeats.
    pub(crate) fn in_a_line(&self) -> String {
        match self {
            Error::ServerEnded {
                status,
                what,
                doing,
                tail,
                ..
            } => {
                let last = tail.lines().last().unwrap_or_default();
                format!("the {what} ended ({status}) while {doing}: {last}")
            }
            other => other.to_string(),
        }
    }

    /// The exit code of a program that ends with this: 2 for what the caller wrote, 3 for a run that could not be made.
    pub fn exit_code(&self) -> u8 {
        use millpond_press_report::Error as Report;
        match self {
            Error::ReadScenario { .. }
            | Error::Scenario { .. }
            | Error::Requests(_)
            | Error::Files(..)
            | Error::OpenFiles { .. } => 2,
            Error::Report(Report::Unfit(_)) => 2,
            _ => 3,
        }
    }
}
