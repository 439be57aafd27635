//! `millpond press run`.
//! It prints the runner's report and passes its exit code on.

use clap::{Args, Subcommand};
use millpond_press_runner::{RunOptions, run as run_scenario};
use std::path::PathBuf;
use std::process::ExitCode;

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Press {
    /// Run a scenario and leave a result folder.
    Run(Run),
}

/// Runs a scenario file: every key is explained in press/scenarios/r1-recommand.toml. Ctrl-C leaves a valid partial result.
/// Exit codes: 0 all answers right, 1 wrong answers or errors, 2 usage, 3 no valid result.
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

pub(crate) fn run(press: Press) -> ExitCode {
    let Press::Run(arguments) = press;
    let mut options = RunOptions::new(arguments.scenario);
    options.set = arguments.set;
    options.out = arguments.out;
    options.force = arguments.force;
    options.json = arguments.json;
    options.progress = !arguments.quiet;
    match run_scenario(options) {
        Ok(outcome) => {
            crate::print(outcome.output.trim_end());
            eprintln!("result folder: {}", outcome.folder.display());
            ExitCode::from(outcome.exit_code)
        }
        Err(error) => {
            eprintln!("millpond: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
