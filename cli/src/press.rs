//! `millpond press`: run, search, report, practice, and the hidden worker that the first two start.
//! It prints what the runner and the report give and passes their exit codes on.

use clap::{Args, Subcommand};
use millpond_press_lab::{Error, Outcome, RunOptions};
use millpond_press_practice::Arguments as Practice;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const RUN_EXAMPLES: &str = "\
Examples:
  millpond press run press/scenarios/echo-floor.toml
  millpond press run press/scenarios/echo-floor.toml --set load.duration_s=5
  millpond press run press/scenarios/echo-floor.toml --set 'load.rate=[10000, 20000]' --out echo

This scenario starts a practice server itself.";

const SEARCH_EXAMPLES: &str = "\
Examples:
  millpond press search press/scenarios/echo-floor.toml --set 'load.connections=[100]'";

const REPORT_EXAMPLES: &str = "\
Examples:
  millpond press report press-results/* --html page.html";

const PRACTICE_EXAMPLES: &str = "\
Examples:
  millpond press practice --listen 127.0.0.1:7070
  millpond press practice --listen 127.0.0.1:7071 --work 30us";

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Press {
    /// Run a scenario and leave a result folder.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Find the highest rate at which a scenario's target meets its SLO.
    #[command(after_help = SEARCH_EXAMPLES)]
    Search(Run),
    /// Draw result folders as one HTML page, Markdown and CSV.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(Report),
    /// A server of known behaviour, to try a scenario on.
    #[command(after_help = PRACTICE_EXAMPLES)]
    Practice(Practice),
    /// A process of the load generator, which press starts itself where load.processes is above 1.
    #[command(hide = true)]
    Worker,
}

/// Runs a scenario file: every key is explained in press/scenarios/r1-recommand.toml, echo-floor.toml and r3-massive.toml, recipes are in
/// docs/press.md. Ctrl-C leaves a valid partial result. Exit codes: 0 the SLO was met or, without one, every request was sent
/// and none failed; 1 it was missed, or requests failed or were never sent; 2 usage; 3 no valid result.
#[derive(Args)]
pub(crate) struct Run {
    /// The scenario.
    scenario: PathBuf,
    /// Set one key of the scenario: --set load.connections=[100].
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The result folder [default: press-results/NAME-TIMESTAMP].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace an earlier result in that folder.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON instead of the report.
    #[arg(long)]
    json: bool,
    /// No progress lines.
    #[arg(long)]
    quiet: bool,
}

/// Draws from result folders alone, without measuring anything. Several folders give one page that lays their figures over
/// each other.
#[derive(Args)]
pub(crate) struct Report {
    /// Result folders of `press run` or `press search`.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Where the page goes [default: report.html in the folder, or in the current one for several].
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the result files' content as a JSON array instead of the report.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(press: Press) -> ExitCode {
    match press {
        Press::Run(arguments) => measured(millpond_press_lab::run(arguments.options())),
        Press::Search(arguments) => measured(millpond_press_lab::search(arguments.options())),
        Press::Report(arguments) => report(&arguments),
        Press::Worker => match millpond_press_lab::worker() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error, error.exit_code()),
        },
        Press::Practice(arguments) => match millpond_press_practice::run(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error, 2),
        },
    }
}

impl Run {
    fn options(self) -> RunOptions {
        let mut options = RunOptions::new(self.scenario);
        options.set = self.set;
        options.out = self.out;
        options.force = self.force;
        options.json = self.json;
        options.progress = !self.quiet;
        options
    }
}

fn measured(outcome: Result<Outcome, Error>) -> ExitCode {
    match outcome {
        Ok(outcome) => {
            let is_printed = crate::is_printed(outcome.output.trim_end());
            eprintln!("result folder: {}", outcome.folder.display());
            ExitCode::from(if is_printed { outcome.exit_code } else { 3 })
        }
        Err(error) => failed(&error, error.exit_code()),
    }
}

fn report(arguments: &Report) -> ExitCode {
    match millpond_press_lab::draw(&arguments.folders, arguments.html.as_deref()) {
        Ok(drawn) => {
            crate::print(if arguments.json { &drawn.json } else { &drawn.text });
            eprintln!("page: {}", Path::new(&drawn.page).display());
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error, error.exit_code()),
    }
}

fn failed(error: &dyn std::error::Error, code: u8) -> ExitCode {
    eprintln!("millpond: {error}");
    ExitCode::from(code)
}
