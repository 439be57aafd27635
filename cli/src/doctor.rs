//! `millpond doctor`: what this machine allows, and what to change.
//! Its invariant: the exit code is 1 only when the configuration cannot be kept.

use clap::Args;
use millpond_server::config::{Config, Origin, load};
use millpond_server::doctor::{Facts, Standing, examine};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  millpond doctor --config config/millpond.toml
  millpond doctor --set server.connections_max=200000";

/// Reads this machine's limits and settings, holds them against a configuration, and says what to change and how. Changes
/// nothing. Exit code 1 when the configuration cannot be kept.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// The configuration; the defaults when left out.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key, over the file and the environment: --set server.connections_max=200000.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// One JSON array instead: what was looked at, each with `what`, `standing` (good, better or short) and `text`.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Doctor) -> anyhow::Result<()> {
    let config: Config = load(&Origin {
        file: arguments.config.clone(),
        environment: std::env::vars().collect(),
        flags: arguments.set.clone(),
    })?;
    let found = examine(&Facts::read(Path::new("/")), &config);
    let lines = found
        .iter()
        .map(|finding| format!("{}: {}\n  {}", finding.what, finding.standing, finding.text));
    crate::print(&match arguments.json {
        true => serde_json::to_string(&found)?,
        false => lines.collect::<Vec<_>>().join("\n"),
    });
    let short = found
        .iter()
        .filter(|finding| finding.standing == Standing::Short)
        .count();
    anyhow::ensure!(
        short == 0,
        "{short} of {} do not allow this configuration",
        found.len()
    );
    Ok(())
}
