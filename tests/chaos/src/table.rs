//! The feature table of the campaign's servers: its versions, and what callers know of the version that serves.
//!
//! Every row says its version and its key, so a single answer shows whether it mixes versions. Its invariant: a version is
//! known to serve, or to be on the disk, only where a server said so; what was asked and not answered is possible, not known.

use crate::fresh;
use anyhow::Context as _;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Its name.
pub const NAME: &str = "items";
/// The folder of tables, below that of a life: on the store's disk, so that what hurts the one hurts both.
pub const TABLES: &str = "store/tables";
/// Keys of every version, from 0 on.
pub const KEYS: u64 = 300;
/// Numbers of a row: the version and the key.
pub const DIM: usize = 2;
/// Versions that are whole, from 1 on.
pub const VERSIONS: u64 = 3;
/// The version whose shard was cut: no server may ever serve it.
pub const CUT: u64 = VERSIONS + 1;

/// Runs `millpond features` and says what went wrong.
pub(crate) fn features(millpond: &Path, arguments: &[&str], folder: &Path) -> anyhow::Result<()> {
    let done = Command::new(millpond)
        .arg("features")
        .args(arguments)
        .current_dir(folder)
        .output()
        .context("cannot run millpond features")?;
    let said = String::from_utf8_lossy(&done.stderr);
    anyhow::ensure!(done.status.success(), "features {arguments:?}: {}", said.trim());
    Ok(())
}

/// The command line, without its program, that builds a version from the rows of [`write_rows`].
fn build_arguments(version: u64) -> [String; 7] {
    let input = format!("version-{version}.csv");
    ["build", "--input", &input, "--out", TABLES, "--name", NAME].map(str::to_owned)
}

/// Writes the rows of a version as CSV.
///
/// # Errors
/// The file cannot be written.
pub fn write_rows(folder: &Path, version: u64) -> anyhow::Result<()> {
    let mut rows = String::from("key,version,same\n");
    for key in 0..KEYS {
        let _ = writeln!(rows, "{key},{version},{key}");
    }
    std::fs::write(folder.join(format!("version-{version}.csv")), rows).context("cannot write rows")
}

/// Builds all versions, cuts a shard of the last, and has the one before it serve.
///
/// # Errors
/// The builder fails.
pub fn prepare(millpond: &Path, folder: &Path) -> anyhow::Result<()> {
    for version in 1..=CUT {
        write_rows(folder, version)?;
        let arguments = build_arguments(version);
        features(millpond, &arguments.each_ref().map(String::as_str), folder)?;
    }
    let table = folder.join(TABLES).join(NAME);
    let listed = std::fs::read_dir(table.join(format!("{CUT:08}")))?;
    let mut paths = listed.filter_map(|entry| Some(entry.ok()?.path()));
    let shard = paths.find(|path| path.extension().is_some_and(|end| end == "mpf"));
    let shard = shard.context("a version without a shard")?;
    let file = std::fs::OpenOptions::new().write(true).open(&shard)?;
    file.set_len(file.metadata()?.len() / 2)?;
    let table = table.display().to_string();
    features(millpond, &["activate", &table, &VERSIONS.to_string()], folder)
}

/// Builds the first version of the table that takes upserts.
///
/// # Errors
/// The builder fails.
pub fn prepare_fresh(millpond: &Path, folder: &Path) -> anyhow::Result<()> {
    std::fs::write(folder.join("fresh.csv"), fresh::first_rows()).context("cannot write rows")?;
    let arguments = [
        "build",
        "--input",
        "fresh.csv",
        "--out",
        TABLES,
        "--name",
        fresh::NAME,
    ];
    features(millpond, &arguments, folder)
}

/// What callers know of the version that serves, over the rounds of a life.
#[derive(Debug)]
pub struct Served(Mutex<Known>);

#[derive(Debug)]
struct Known {
    /// One of these serves.
    serving: BTreeSet<u64>,
    /// One of these would serve after a restart.
    on_disk: BTreeSet<u64>,
    /// All that were ever asked for.
    asked: Vec<u64>,
}

/// What may have served when a lookup was sent.
#[derive(Debug)]
pub struct Before {
    serving: BTreeSet<u64>,
    asked: usize,
}

/// A switch that was asked for and is not answered.
#[derive(Debug)]
pub struct Asked {
    version: u64,
    was_possible: (bool, bool),
}

impl Default for Served {
    /// As [`prepare`] leaves it.
    fn default() -> Served {
        Served(Mutex::new(Known {
            serving: BTreeSet::from([VERSIONS]),
            on_disk: BTreeSet::from([VERSIONS]),
            asked: Vec::new(),
        }))
    }
}

impl Served {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lookup is about to be sent.
    pub fn before(&self) -> Before {
        let known = self.known();
        Before {
            serving: known.serving.clone(),
            asked: known.asked.len(),
        }
    }

    /// Whether a lookup sent after `before` may be answered from that version.
    pub fn may_serve(&self, before: &Before, version: u64) -> bool {
        let known = self.known();
        let since = known.asked.get(before.asked..).unwrap_or_default();
        before.serving.contains(&version) || since.contains(&version)
    }

    /// A switch is about to be asked for.
    pub fn ask(&self, version: u64) -> Asked {
        let mut known = self.known();
        known.asked.push(version);
        Asked {
            version,
            was_possible: (!known.serving.insert(version), !known.on_disk.insert(version)),
        }
    }

    /// The switch was answered: that version serves, and a restart serves it where `is_persistent`.
    pub fn switched(&self, asked: &Asked, is_persistent: bool) {
        let mut known = self.known();
        known.serving = BTreeSet::from([asked.version]);
        if is_persistent {
            known.on_disk = BTreeSet::from([asked.version]);
        }
    }

    /// The switch was refused: nothing has changed. Where the disk failed it may be written all the same.
    pub fn refused(&self, asked: &Asked, disk_failed: bool) {
        let (mut known, (was_serving, was_on_disk)) = (self.known(), asked.was_possible);
        if !was_serving {
            known.serving.remove(&asked.version);
        }
        if !was_on_disk && !disk_failed {
            known.on_disk.remove(&asked.version);
        }
    }

    /// A server that was started anew serves that version.
    ///
    /// # Errors
    /// It cannot: what could be on the disk.
    pub fn restarted(&self, version: u64) -> Result<(), String> {
        let mut known = self.known();
        if !known.on_disk.contains(&version) {
            return Err(format!("{:?}", known.on_disk));
        }
        known.serving = BTreeSet::from([version]);
        known.on_disk = BTreeSet::from([version]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_serves_that_was_acknowledged_or_never_answered() {
        let served = Served::default();
        let before = served.before();
        let asked = served.ask(1);
        assert!(served.may_serve(&before, 3) && served.may_serve(&before, 1));
        assert!(!served.may_serve(&before, 2));
        served.switched(&asked, true);
        assert!(served.may_serve(&before, 3), "it was sent before the switch");
        assert!(!served.may_serve(&served.before(), 3));
        let lost = served.ask(2);
        assert!(served.restarted(3).is_err());
        served.refused(&lost, false);
        assert!(served.restarted(2).is_err(), "a refusal changes nothing");
        let _unanswered = served.ask(2);
        assert_eq!(served.restarted(2), Ok(()));
        assert!(served.restarted(1).is_err());
    }

    #[test]
    fn what_a_failing_disk_refuses_may_be_there_after_a_restart() {
        let served = Served::default();
        let asked = served.ask(1);
        served.refused(&asked, true);
        assert!(!served.may_serve(&served.before(), 1));
        assert_eq!(served.restarted(1), Ok(()));
        let asked = served.ask(2);
        served.switched(&asked, false);
        assert!(!served.may_serve(&served.before(), 1));
        assert_eq!(served.restarted(1), Ok(()), "it was not written");
    }
}
