//! Where figures come from: command, commit, date, machine, builds.
//!
//! Its invariant: what cannot be told is said to be unknown, and a tree with changes is not called by its commit alone.

use crate::setup::Setup;
use millpond_press_recorder::{LoadAverage, Machine};
use serde::Serialize;
use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

const QUICK: &str = ", --quick: no figure means anything";

/// One run of the bench.
#[derive(Serialize)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Provenance {
    command: Vec<String>,
    /// Of the tree that the bench runs in, which `make bench` builds first; with `-changed` where it has changes.
    commit: Option<String>,
    started_at: String,
    quick: bool,
    anyway: bool,
    millpond: PathBuf,
    millpond_version: Option<String>,
    beside: Option<PathBuf>,
    rustc: Option<String>,
    bench_profile: &'static str,
    machine: Machine,
    load: Option<LoadAverage>,
}

impl Provenance {
    pub(crate) fn read(setup: &Setup) -> Provenance {
        let millpond = setup.millpond.display().to_string();
        Provenance {
            command: std::env::args().collect(),
            commit: commit(),
            started_at: millpond_press_report::rfc3339_utc(SystemTime::now()),
            quick: setup.quick,
            anyway: setup.anyway,
            millpond_version: said(&millpond, &["--version"]),
            millpond: setup.millpond.clone(),
            beside: setup.beside.clone(),
            rustc: said("rustc", &["--version"]),
            bench_profile: if cfg!(debug_assertions) { "dev" } else { "release" },
            machine: Machine::read(),
            load: LoadAverage::read(),
        }
    }

    /// For the head of the report.
    pub(crate) fn in_words(&self) -> String {
        format!(
            "commit:  {}, {}\nmachine: {}\nserver:  {} ({}), bench: {} profile, {}",
            known(&self.commit),
            self.started_at,
            self.machine(),
            self.millpond.display(),
            known(&self.millpond_version),
            self.bench_profile,
            known(&self.rustc),
        )
    }

    /// For the head of a table.
    pub(crate) fn in_one_line(&self) -> String {
        let words: Vec<&str> = self.command.iter().skip(1).map(String::as_str).collect();
        format!(
            "`make bench AREA=\"{}\"`, {} build, commit {}, {}, {}{}",
            words.join(" "),
            self.bench_profile,
            self.commit(),
            self.started_at,
            self.machine(),
            if self.quick { QUICK } else { "" },
        )
    }

    /// What was measured, as tables name it.
    pub(crate) fn commit(&self) -> &str {
        known(&self.commit)
    }

    fn machine(&self) -> String {
        format!(
            "{}, {} cores, {:.1} GiB, Linux {}",
            known(&self.machine.cpu_model),
            self.machine.cores.unwrap_or_default(),
            self.machine.memory_bytes.unwrap_or_default() as f64 / (1u64 << 30) as f64,
            known(&self.machine.kernel),
        )
    }
}

fn known(word: &Option<String>) -> &str {
    word.as_deref().unwrap_or("unknown")
}

/// The tree's commit; nothing where there is no git, or no repository.
fn commit() -> Option<String> {
    let commit = said("git", &["rev-parse", "--short=9", "HEAD"])?;
    let changes = said("git", &["status", "--porcelain", "--untracked-files=no"])?;
    Some(named(&commit, &changes))
}

fn named(commit: &str, changes: &str) -> String {
    match changes {
        "" => commit.to_owned(),
        _ => format!("{commit}-changed"),
    }
}

/// What a program prints; nothing where it fails.
fn said(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_with_changes_is_not_its_commit() {
        assert_eq!(named("ccd14cc", ""), "ccd14cc");
        assert_eq!(named("ccd14cc", " M Makefile"), "ccd14cc-changed");
        assert_eq!(said("no-such-program", &[]), None);
        assert_eq!(said("false", &[]), None);
    }
}
