//! The runner from outside: scenarios as text, servers as real sockets, results as folders.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod bars;
mod binary;
mod failing;
mod fake;
mod practice;
mod program;
mod refusals;
mod results;
mod servers;
mod stores;
mod trouble;

use std::path::PathBuf;

use millpond_press_lab::{Error, Outcome, RunOptions, run_until};
use tempfile::TempDir;
use tokio::sync::watch;

/// A scenario of one point against `address`, to be varied by overrides.
pub(crate) struct Case {
    pub(crate) dir: TempDir,
    pub(crate) options: RunOptions,
}

impl Case {
    pub(crate) fn new(address: &str, overrides: &[&str]) -> Case {
        Case::of_text(
            &format!(
                "{}\n[target]\naddress = \"{address}\"\nmethod = \"infer\"\n",
                SCENARIO
            ),
            overrides,
        )
    }

    pub(crate) fn of_text(text: &str, overrides: &[&str]) -> Case {
        let dir = tempfile::tempdir().unwrap();
        let scenario = dir.path().join("s.toml");
        std::fs::write(&scenario, text).unwrap();
        let mut options = RunOptions::new(scenario);
        options.set = overrides.iter().map(|&text| text.to_owned()).collect();
        options.out = Some(dir.path().join("out"));
        options.progress = false;
        Case { dir, options }
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    pub(crate) fn run(&self) -> Result<Outcome, Error> {
        let (_stop, seen) = watch::channel(false);
        run_until(self.options.clone(), seen)
    }

    /// The only point of a run that ends well.
    pub(crate) fn point(&self) -> millpond_press_report::Point {
        let outcome = self.run().unwrap();
        assert_eq!(outcome.result.points.len(), 1);
        outcome.result.points[0].clone()
    }
}

/// Four connections with five requests each, three samples a request.
pub(crate) const SCENARIO: &str = r#"
[scenario]
name = "case"

[requests.generate]
requests = 50
samples = 3
features = [{ prefix = "u", ids = 100 }, { prefix = "i", ids = 100 }]

[check]
length_of = "samples"

[load]
connections = [4]
requests_per_connection = 5
"#;
