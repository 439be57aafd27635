//! Runs a scenario against a server and leaves a result folder.
//!
//! The library behind `millpond press run` and `press search`: it starts servers where the scenario says so, walks the grid,
//! offers each load in a closed or an open loop, watches both sides meanwhile and judges what bounded them. It draws no
//! tables (press/report) and makes no requests up (press/workload). Its invariant: only answers whose check passed count as
//! such; everything else is counted as what it is, and nothing a server sends makes a run panic.
//!
//! ```no_run
//! use millpond_press_lab::{RunOptions, run};
//!
//! let mut options = RunOptions::new("press/scenarios/r1-quick.toml");
//! options.set.push("load.connections=[100]".into());
//! let outcome = run(options)?;
//! println!("{}\n{}", outcome.output, outcome.folder.display());
//! # Ok::<(), millpond_press_lab::Error>(())
//! ```

mod antagonists;
mod bars;
mod crew;
mod describe;
mod draw;
mod error;
mod external;
mod grid;
mod measure;
mod namespace;
mod open_files;
mod probe;
mod progress;
mod scenario;
mod scenario_run;
mod search;
mod server_process;
mod session;
mod signals;
mod stages;
mod watcher;
mod worker;

pub use draw::{Drawn, draw};
pub use error::Error;
pub use millpond_press_report::RunResult;
pub use millpond_press_verdict::BarOutcome;
pub use server_process::tail;
pub use worker::worker;

use std::path::PathBuf;

use scenario_run::Question;
use tokio::sync::watch;

/// What to run and where to leave the result.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The scenario file.
    pub scenario: PathBuf,
    /// Overrides, each `section.key=value`.
    pub set: Vec<String>,
    /// The result folder; `press-results/NAME-TIMESTAMP` where none is given.
    pub out: Option<PathBuf>,
    /// Whether [`Outcome::output`] is the result as JSON instead of the report.
    pub json: bool,
    /// The program that `{millpond}` stands for in `server.command`, and that the processes of `load.processes` are.
    pub millpond: PathBuf,
    /// Whether a line a second is written to stderr.
    pub progress: bool,
    /// Whether an earlier result in the folder is replaced.
    pub force: bool,
}

impl RunOptions {
    /// The options for a scenario with nothing else said: this program is `{millpond}`, and progress is shown.
    pub fn new(scenario: impl Into<PathBuf>) -> RunOptions {
        RunOptions {
            scenario: scenario.into(),
            set: Vec::new(),
            out: None,
            json: false,
            millpond: std::env::current_exe().unwrap_or_else(|_| "millpond".into()),
            progress: true,
            force: false,
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The result folder.
    pub folder: PathBuf,
    /// The report as Markdown, as it lies in the folder.
    pub markdown: String,
    /// The content of `result.json`.
    pub json: String,
    /// What a program prints of it: the JSON where [`RunOptions::json`] asked for it, else the report for a terminal.
    pub output: String,
    /// What the scenario's bars came to.
    pub bars: Vec<BarOutcome>,
    /// The result itself.
    pub result: RunResult,
    /// 0: the SLO was met or, without one, all answers were right. 1: it was missed in a point that can be believed, or
    /// answers were wrong or absent. 3: no valid result (interrupted, a point without an answer, or an SLO judged in a point
    /// that cannot be believed).
    pub exit_code: u8,
}

/// Runs a scenario; Ctrl-C, SIGTERM, SIGHUP and SIGQUIT stop it and leave a valid partial result.
///
/// Blocks the calling thread, from inside an async runtime too.
///
/// # Errors
/// Anything that keeps the scenario from being run; [`Error::exit_code`] tells whose fault it is. Where the result folder
/// exists by then, it holds the points that were finished and the reason.
pub fn run(options: RunOptions) -> Result<Outcome, Error> {
    until_a_signal(options, Question::Run)
}

/// Searches the highest rate at which a scenario's target meets its SLO; signals as in [`run`].
///
/// # Errors
/// As [`run`].
pub fn search(options: RunOptions) -> Result<Outcome, Error> {
    until_a_signal(options, Question::Search)
}

fn until_a_signal(options: RunOptions, question: Question) -> Result<Outcome, Error> {
    let (stop, stop_seen) = watch::channel(false);
    on_own_runtime(async move {
        tokio::spawn(async move {
            if signals::one().await.is_ok() {
                stop.send_replace(true);
            }
            // Kept, because a stop that can no longer be told is not a stop.
            stop.closed().await;
        });
        scenario_run::run(options, question, stop_seen).await
    })
}

/// Runs a scenario until it is done or `stop` turns true, leaving signals alone.
///
/// # Errors
/// As [`run`].
pub fn run_until(options: RunOptions, stop: watch::Receiver<bool>) -> Result<Outcome, Error> {
    on_own_runtime(scenario_run::run(options, Question::Run, stop))
}

/// [`search`] until it is done or `stop` turns true, leaving signals alone.
///
/// # Errors
/// As [`run`].
pub fn search_until(options: RunOptions, stop: watch::Receiver<bool>) -> Result<Outcome, Error> {
    on_own_runtime(scenario_run::run(options, Question::Search, stop))
}

/// The run has a thread of its own: it binds that to cores, and a runtime must not start inside another.
fn on_own_runtime(run: impl Future<Output = Result<Outcome, Error>> + Send) -> Result<Outcome, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("press".into())
            .spawn_scoped(scope, || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime
                    .map_err(|error| Error::ClientThread(error.to_string()))?
                    .block_on(run)
            });
        let broken = |_| Error::ClientThread("the run panicked, which is a defect of press".into());
        thread
            .map_err(|error| Error::ClientThread(error.to_string()))?
            .join()
            .map_err(broken)?
    })
}

/// Waits until `stop` is true; for ever if it can no longer become so.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
